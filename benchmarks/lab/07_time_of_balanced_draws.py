# SPDX-License-Identifier: Apache-2.0
"""What balanced draws cost on the fused engine.

    python benchmarks/lab/07_time_of_balanced_draws.py

Times whole predictions of 784-1200-1200-1200-1200-10 (256 rows, T = 50) and of
13-50-1 (500 rows, T = 1,000) with both draws in turn, after checking that the
means agree as well as means of so many samples can. A ratio is that of the best
times. Writes benchmarks/results/lab_time_of_balanced_draws.json.
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
from networks import uci_network

import keras_bayesdrop as kbd

ROUNDS = 40
NETWORKS = {
    "784-1200x4-10": (dense_network, lambda: inputs(256), 50),
    "13-50-1": (uci_network, lambda: inputs(500, 13), 1000),
}


def prediction(model: Any, x: Any, samples: int, **choices: str) -> Any:
    """Predicts with one kind of masks and draws."""
    return kbd.predict_with_uncertainty(
        model,
        x,
        samples,
        seed=0,
        verbose=0,
        head="regression",
        method=kbd.Sampling(engine="fused", **choices),
    )


def case(model: Any, x: Any, samples: int, **choices: str) -> Callable[[], Any]:
    """Returns a prediction to time."""
    return lambda: prediction(model, x, samples, **choices)


def main() -> None:
    """Prints and writes the ratios."""
    results: dict[str, Any] = {}
    for name, (build, rows, samples) in NETWORKS.items():
        model, x = build(), rows()
        for masks in ("shared", "independent"):
            cases = {
                draws: case(model, x, samples, masks=masks, draws=draws)
                for draws in ("independent", "balanced")
            }
            one, other = (run() for run in cases.values())
            # Errors of two means, the smaller of which is balanced.
            off = np.abs(one.mean - other.mean) / one.mc_error
            assert np.mean(off) < 2, np.mean(off)
            times = harness.time_in_turn(cases, ROUNDS)
            ratio = times["balanced"]["best"] / times["independent"]["best"]
            results[f"{name}, {masks} masks"] = {
                "ratio": ratio,
                "seconds": times,
            }
            print(f"{name}, {masks} masks: {ratio:.3f}")
    harness.write("lab_time_of_balanced_draws", results)


if __name__ == "__main__":
    main()
