# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop bench`: times prediction on this machine.

Machines are noisy, so the cases run in turn, round after round, and are
compared as ratios within the run. Their results are compared before that.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core.table import format_table
from keras_bayesdrop.cli.bench_cases import engine_cases
from keras_bayesdrop.cli.bench_cases import plain_pass
from keras_bayesdrop.cli.bench_cases import random_inputs
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.prediction.methods import Sampling


def run(options: argparse.Namespace) -> None:
    """Checks, times, and prints a table."""
    if options.model is None:
        model = _default_model()
    else:
        model = load_model(options.model, options.imports, options.max_bytes)
    x = random_inputs(model, options.rows)
    cases, notes = engine_cases(
        model,
        x,
        options.samples,
        Sampling(masks=options.masks, draws=options.draws),
    )
    once = plain_pass(model, x)
    plain = f"{options.samples} calls of a compiled pass"

    def loop() -> None:
        for _ in range(options.samples):
            once()

    seconds = time_in_turn({plain: loop, **cases}, options.rounds)
    rows = [
        (name, f"{1e3 * value:.2f}", f"{seconds[plain] / value:.2f} x")
        for name, value in seconds.items()
    ]
    table = format_table(("case", "ms (median)", "times as fast"), rows)
    size = f"{options.rows} rows, {options.samples} samples"
    lines = [f"Model `{model.name}`: {size}, {options.masks} masks"]
    sys.stdout.write("\n".join([*lines, "", table, "", *notes]) + "\n")


def time_in_turn(
    cases: dict[str, Callable[[], Any]], rounds: int
) -> dict[str, float]:
    """Times cases in turn, after one untimed call of each.

    Args:
        cases: Functions without arguments, by name.
        rounds: Timed calls of each.

    Returns:
        The median of each, in seconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    for _ in range(rounds):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


def _default_model() -> Any:
    return keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ],
        name="dense",
    )
