# SPDX-License-Identifier: Apache-2.0
"""Times an ensemble against the calls of its networks one by one.

python benchmarks/bench_ensemble.py [--rounds 7] [--only small] [--quick]
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from typing import Any

import harness
import keras
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop.random.seeds import member_seed

MEMBERS = 5
SAMPLES = 50
# Rows, inputs, and width of three hidden layers.
SIZES = {"small": (1, 13, 50), "medium": (2000, 64, 256)}


def network(inputs: int, width: int, seed: int) -> keras.Model:
    """Returns a network with three hidden layers and dropout."""
    keras.utils.set_random_seed(seed)
    layers: list[Any] = [keras.Input((inputs,))]
    for _ in range(3):
        layers.append(keras.layers.Dense(width, activation="relu"))
        layers.append(keras.layers.Dropout(0.2))
    return keras.Sequential([*layers, keras.layers.Dense(1)])


def compare(rows: int, inputs: int, width: int, rounds: int) -> dict[str, Any]:
    """Times one size."""
    models = [network(inputs, width, number) for number in range(MEMBERS)]
    x = np.random.default_rng(0).normal(size=(rows, inputs)).astype("float32")

    def together() -> Any:
        return kbd.predict_with_uncertainty(
            models, x, SAMPLES, seed=0, verbose=0
        )

    def one_by_one() -> list[Any]:
        return [
            kbd.predict_with_uncertainty(
                model, x, SAMPLES, seed=member_seed(0, number), verbose=0
            )
            for number, model in enumerate(models)
        ]

    mixed, members = together(), one_by_one()
    engines = {step.engine for step in mixed.stats.engine}
    assert "fused" in engines, engines
    np.testing.assert_allclose(
        mixed.mean, np.mean([p.mean for p in members], 0), rtol=1e-5, atol=1e-6
    )
    times = harness.time_in_turn(
        {"together": together, "one_by_one": one_by_one}, rounds
    )
    ratio = times["together"]["median"] / times["one_by_one"]["median"]
    return {"rows": rows, "width": width, **times, "ratio": ratio}


def main() -> None:
    """Runs the comparison and writes the results."""
    options = harness.parser(__doc__ or "").parse_args()
    rounds = 1 if options.quick else options.rounds
    results = {
        name: compare(*size, rounds)
        for name, size in SIZES.items()
        if options.only in (None, name)
    }
    for name, result in results.items():
        print(f"{name:8} {result['ratio']:.3f} of the sum of single calls")
    if not options.quick:
        print(harness.write("ensemble", {"members": MEMBERS, **results}))


if __name__ == "__main__":
    main()
