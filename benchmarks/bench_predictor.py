# SPDX-License-Identifier: Apache-2.0
"""How long one row takes: the whole call, a predictor, and the network alone.

    python benchmarks/bench_predictor.py            # all, about two minutes
    python benchmarks/bench_predictor.py --quick    # seconds, writes nothing

    whole call     predict_with_uncertainty(model, row, 50)
    predictor      Predictor(model, 50)(row)
    bare           one call of a concrete function: 50 rows through the network,
                   without noise
    tiled          one tf.function: the row repeated 50 times, with noise

Cases run in turn, in several processes one after another; a figure is the
median over processes of medians. Writes `benchmarks/results/predictor.json`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import harness
import keras
import numpy as np
import tensorflow as tf
from networks import dense_network
from networks import inputs
from networks import tiled_program
from networks import uci_network

import keras_bayesdrop as kbd

SAMPLES = 50
PROCESSES = 5


def small_network() -> keras.Model:
    """A regression of 8 inputs, 8-32-32-1."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(1),
        ]
    )


def classes_network() -> keras.Model:
    """Classes with a part that no noise reaches, 64-256-256-10."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(256, activation="gelu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


# Name: model, rounds in one process.
NETWORKS: dict[str, tuple[Callable[[], keras.Model], int]] = {
    "small": (small_network, 400),
    "uci": (uci_network, 400),
    "classes": (classes_network, 400),
    "large": (dense_network, 60),
}


def cases_of(model: keras.Model) -> dict[str, Callable[[], Any]]:
    """Returns the cases, checked before they are timed."""
    (shape,) = [tuple(each.shape) for each in model.inputs]
    x = inputs(1, shape[-1])
    predictor = kbd.Predictor(model, SAMPLES, seed=0)

    def whole() -> Any:
        return kbd.predict_with_uncertainty(
            model, x, SAMPLES, seed=0, verbose=0
        )

    expected = whole()
    for _ in range(2):
        p = predictor(x)
        assert p.mean.tobytes() == expected.mean.tobytes()
        assert p.variance.tobytes() == expected.variance.tobytes()
    spec = tf.TensorSpec([SAMPLES, shape[-1]])
    bare = tf.function(
        lambda rows: model(rows, training=False), autograph=False
    ).get_concrete_function(spec)
    rows = tf.constant(np.repeat(x, SAMPLES, axis=0))
    tiled = tiled_program(model, SAMPLES)
    row = tf.constant(x)
    return {
        "whole call": whole,
        "predictor": lambda: predictor(x),
        "bare": lambda: bare(rows).numpy(),
        "tiled": lambda: tiled(row).numpy(),
    }


def medians(name: str, rounds: int) -> dict[str, float]:
    """Times one network in this process."""
    make, most = NETWORKS[name]
    times = harness.time_in_turn(cases_of(make()), min(rounds, most))
    return {case: each["median"] for case, each in times.items()}


def in_processes(name: str, rounds: int, number: int) -> list[dict[str, float]]:
    """Times one network in several processes."""
    command = [sys.executable, __file__, "--one", name, "--rounds", str(rounds)]
    return [
        json.loads(
            subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.splitlines()[-1]
        )
        for _ in range(number)
    ]


def bench(name: str, rounds: int, number: int) -> dict[str, Any]:
    """Returns times and ratios of one network."""
    runs = in_processes(name, rounds, number)
    times = {
        case: statistics.median(run[case] for run in runs) for case in runs[0]
    }

    def ratio(slow: str, fast: str) -> float:
        return statistics.median(run[slow] / run[fast] for run in runs)

    above = statistics.median(run["predictor"] - run["bare"] for run in runs)
    return {
        "milliseconds": {case: 1e3 * each for case, each in times.items()},
        "predictor above bare, milliseconds": 1e3 * above,
        "predictor, times tiled": ratio("tiled", "predictor"),
        "whole call, times tiled": ratio("tiled", "whole call"),
        "predictor, times whole call": ratio("whole call", "predictor"),
    }


def main() -> None:
    """Runs what was asked for."""
    parser = harness.parser(__doc__)
    parser.set_defaults(rounds=400)
    parser.add_argument("--one", help="time one network in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(medians(options.one, options.rounds)))
        return
    rounds, number = (3, 1) if options.quick else (options.rounds, PROCESSES)
    names = [options.only] if options.only else list(NETWORKS)
    results = {name: bench(name, rounds, number) for name in names}
    print(json.dumps(results, indent=2))
    if not options.quick:
        harness.write("predictor", results)


if __name__ == "__main__":
    main()
