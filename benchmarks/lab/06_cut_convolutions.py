# SPDX-License-Identifier: Apache-2.0
"""From how many rows on it pays to cut convolutions.

    python benchmarks/lab/06_cut_convolutions.py

Times three convolutions behind noise on whole channels, cut and whole, in turn,
after checking that they agree, for several sizes. Prints the ratio of both, and
what the cost model of `keras_bayesdrop/plan/cuts/cut_step.py` expects. At the
end come the constants that fit best.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import itertools
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness

from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines.cut import run_cut
from keras_bayesdrop.engines.fused import Fused
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import thresholds
from keras_bayesdrop.plan.cuts import cut_step
from keras_bayesdrop.plan.cuts import find

SAMPLES = 16
SIZES = ((32, 32), (32, 8), (64, 16), (64, 4), (128, 8), (256, 8), (256, 4))
ROWS = (1, 2, 4, 8, 32)
RATES = (0.3, 0.5)


def network(width: int, side: int, rate: float) -> Any:
    """Returns three convolutions behind noise, and a head."""
    layers = keras.layers
    inputs = keras.Input((side, side, width))
    x = layers.SpatialDropout2D(rate)(inputs)
    for _ in range(3):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.SpatialDropout2D(rate)(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10)(x))


def programs(plan: Plan, part: CutStep) -> dict[str, Callable[..., Any]]:
    """Returns what draws 16 samples: cut, and whole."""

    def draws(seed: Any, x: Any) -> Draws:
        return Draws(seed, 0, SAMPLES, 1, 0, tf.shape(x)[0], True)

    spec = tf.TensorSpec([None, *plan.specs[0].shape[1:]])
    signature = [tf.TensorSpec([], tf.uint64), spec]

    @tf.function(input_signature=signature, autograph=False)
    def cut(seed: Any, x: Any) -> Any:
        return run_cut(part, [x], [False], draws(seed, x))[0]

    @tf.function(input_signature=signature, autograph=False)
    def whole(seed: Any, x: Any) -> Any:
        return Reference().run_suffix(plan, [x], draws(seed, x))[0]

    return {"cut": cut, "whole": whole}


def main() -> None:
    """Prints the time of cut over that of whole convolutions, by size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    # Never worth it, or always: that is what is measured.
    find.MOST_ROWS = 10**9
    seeds = itertools.count()
    measured = []
    for (width, side), rate in itertools.product(SIZES, RATES):
        plan = build_plan(network(width, side, rate))
        steps = Fused(None, ()).steps(plan)
        (part,) = (step for step in steps if isinstance(step, CutStep))
        both = programs(plan, part)
        for rows in ROWS:
            x = tf.random.stateless_normal([rows, side, side, width], (1, 2))
            key = tf.constant(1, tf.uint64)
            np.testing.assert_allclose(
                both["cut"](key, x), both["whole"](key, x), atol=1e-4
            )

            def case(name: str, x: Any = x, both: Any = both) -> Any:
                # Fresh masks in every repetition.
                key = tf.constant(next(seeds), tf.uint64)
                return lambda: both[name](key, x).numpy()

            cases = {
                name: lambda name=name: case(name)()
                for name in ("cut", "whole")
            }
            times = {
                name: time["best"] / SAMPLES
                for name, time in harness.time_in_turn(cases, rounds).items()
            }
            measured.append((part, rows, times))
            least = part.least_rows(thresholds(part))
            print(
                f"{width:4} channels, {side:2} x {side:2}, rate {rate}, "
                f"{rows:2} rows: {times['whole'] / times['cut']:5.2f} times "
                f"whole ({times['cut'] * 1e3:.3f} ms), "
                f"model: pays from {least:6.1f} rows on",
                flush=True,
            )
    _fit(measured)


def _fit(measured: list[tuple[CutStep, int, dict[str, float]]]) -> None:
    """Prints seconds of a multiply-add, an entry and a convolution."""
    design, gains = [], []
    for part, rows, times in measured:
        settings = thresholds(part)
        saved = part.whole_work - part.done_work(settings)
        saved -= sum(part._moved(step, settings) for step in part.steps)
        entries = sum(
            step.thin.places
            * np.prod(step.thin.sizes)
            * cut_step.fraction(part.kept[step.inputs[0]], settings)
            for step in part.products
        )
        design.append([rows * saved, -entries, -len(part.products)])
        gains.append(times["whole"] - times["cut"])
    # Errors in proportion to the time.
    weights = 1 / np.array([times["whole"] for _, _, times in measured])
    design_, gains_ = np.array(design) * weights[:, None], gains * weights
    work, entry, product = np.linalg.lstsq(design_, gains_, rcond=None)[0]
    print(
        f"a multiply-add {work:.3g} s; in its unit, an entry of a kernel "
        f"{entry / work:.0f}, a convolution {product / work:.3g}"
    )


if __name__ == "__main__":
    main()
