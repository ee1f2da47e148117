# SPDX-License-Identifier: Apache-2.0
"""How many bytes a step of the reference engine should take.

    python benchmarks/lab/01_entries_per_step.py

Times the reference engine on 784-1200-1200-1200-1200-10 for several sizes of a
step, in turn, after checking that they agree. The winner is `_AUTO_BYTES` of
`keras_bayesdrop/prediction/sampling/geometry.py`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
from networks import dense_network
from networks import inputs

import keras_bayesdrop as kbd
from keras_bayesdrop.prediction.sampling import geometry

MEGABYTES = (1, 2, 4, 8, 16, 32, 64)


def main() -> None:
    """Prints seconds by size, for both kinds of masks."""
    model, x = dense_network(), inputs(256)

    def case(size: int, masks: str) -> Callable[[], Any]:
        def run() -> Any:
            geometry._AUTO_BYTES = size << 20
            return kbd.predict_with_uncertainty(
                model,
                x,
                50,
                seed=0,
                verbose=0,
                method=kbd.Sampling(masks=masks, engine="reference"),
            )

        return run

    for masks in ("shared", "independent"):
        cases = {f"{size:3} MB": case(size, masks) for size in MEGABYTES}
        means = [run().mean for run in cases.values()]
        np.testing.assert_allclose(means, means[:1] * len(means), atol=1e-5)
        for name, time in harness.time_in_turn(cases, rounds=5).items():
            print(f"{masks:12} {name}: {time['median']:.3f} s")


if __name__ == "__main__":
    main()
