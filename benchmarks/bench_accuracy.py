# SPDX-License-Identifier: Apache-2.0
"""Error of predictions for the samples and the time that they take.

    python benchmarks/bench_accuracy.py                  # all, minutes
    python benchmarks/bench_accuracy.py --only ratios
    python benchmarks/bench_accuracy.py --quick          # writes nothing

    ratios   squared error of the mean with balanced draws, over that with
             independent draws, on every network of `trained_networks.py`
    errors   of mean, standard deviation, mutual information and 90 % quantile,
             by method and number of samples
    times    seconds of the same predictions, measured in turn

Errors are those against a long run of independent draws. Blocks of 16 samples
are independent of each other, so one long run is many short ones: samples 64 k
to 64 k + 63 of a prediction are those of a prediction with T = 64.

Writes `benchmarks/results/accuracy.json`; `accuracy_page.py` makes the tables
and the picture of `docs/accuracy.md` from it.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import dataclasses
import functools
import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from trained_networks import NETWORKS

import keras_bayesdrop as kbd

DRAWS = ("independent", "balanced")
MASKS = ("shared", "independent")
# Whole blocks, and three blocks with two samples of the next.
COUNTS = (16, 32, 50, 64)
RUN = 64
LEVEL = 0.9
# One of each kind.
SHOWN = (
    "diabetes_0.1",
    "digits_0.5",
    "convolutions",
    "convolutions_spatial",
    "lstm",
    "attention",
)
# A call with quantiles, timed apart because it takes longer.
WITH_QUANTILES = "with quantiles"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Numbers of rows, samples and repetitions.

    Attributes:
        rows: Rows of a prediction in `ratios`.
        runs: Short runs of each case in `ratios`, in `calls` predictions.
        calls: See `runs`.
        reference: Samples of the long run.
        shown_rows: Rows of a prediction in `errors`.
        timed_rows: Rows of a prediction in `times`: the same ones repeated.
        counts: Numbers of samples in `errors` and `times`.
        seeds: Predictions of each case in `errors`.
    """

    rows: int = 16
    runs: int = 2048
    calls: int = 4
    reference: int = 65536
    shown_rows: int = 32
    timed_rows: int = 256
    counts: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    seeds: int = 32


QUICK = Sizes(
    rows=3,
    runs=8,
    calls=2,
    reference=1024,
    shown_rows=3,
    timed_rows=6,
    counts=(16, 32),
    seeds=2,
)


def predict(
    model: Any, x: Any, samples: int, seed: int, method: Any, **options: Any
) -> Any:
    """Predicts without a progress bar."""
    return kbd.predict_with_uncertainty(
        model, x, samples, seed=seed, method=method, verbose=0, **options
    )


def run_errors(
    model: Any, x: Any, mean: Any, method: kbd.Sampling, sizes: Sizes
) -> dict[int, Any]:
    """Returns squared errors [runs] of the means of short runs.

    Args:
        model: The network.
        x: Rows to predict.
        mean: True mean [rows, ...].
        method: Draws and masks.
        sizes: Numbers of runs.

    Returns:
        By number of samples: the mean over rows and outputs.
    """
    parts: dict[int, list[Any]] = {count: [] for count in COUNTS}
    each = RUN * sizes.runs // sizes.calls
    for seed in range(1, sizes.calls + 1):
        p = predict(model, x, each, seed, method, return_samples=True)
        runs = p.samples.reshape(-1, RUN, *mean.shape)
        for count in COUNTS:
            means = runs[:, :count].mean(axis=1, dtype=np.float64)
            squares = np.square(means - mean)
            parts[count].append(squares.reshape(len(means), -1).mean(axis=1))
    return {count: np.concatenate(each) for count, each in parts.items()}


def ratio(balanced: Any, independent: Any) -> dict[str, float]:
    """Returns a ratio of means and its standard error, to first order."""
    quotient = balanced.mean() / independent.mean()
    relative = np.hypot(
        *(
            each.std(ddof=1) / len(each) ** 0.5 / each.mean()
            for each in (balanced, independent)
        )
    )
    return {"ratio": float(quotient), "error": float(quotient * relative)}


def ratios(engine: str, quick: bool) -> dict[str, Any]:
    """Squared error of the mean: balanced draws over independent ones."""
    sizes = QUICK if quick else Sizes()
    results: dict[str, Any] = {}
    for name in SHOWN[:2] if quick else NETWORKS:
        network = NETWORKS[name]
        model, x = network.trained(sizes.rows, quick)
        long = kbd.Sampling(draws="independent", engine=engine)
        mean = predict(model, x, sizes.reference, 0, long).mean
        row: dict[str, Any] = {
            "what": network.what,
            "noisy_layers": len(kbd.inspect(model, x).stochastic),
            "rate": network.rate,
            "rows": sizes.rows,
            "runs": sizes.runs,
            "reference": sizes.reference,
        }
        for masks in MASKS:
            squares = {
                draws: run_errors(
                    model,
                    x,
                    np.asarray(mean, np.float64),
                    kbd.Sampling(draws=draws, masks=masks, engine=engine),
                    sizes,
                )
                for draws in DRAWS
            }
            row[masks] = {
                f"{count}": ratio(
                    squares["balanced"][count], squares["independent"][count]
                )
                for count in COUNTS
            }
        results[name] = row
        print(
            name,
            *(
                f"{masks} {row[masks]['64']['ratio']:.3f} "
                f"+- {row[masks]['64']['error']:.3f}"
                for masks in MASKS
            ),
            flush=True,
        )
    return results


def quantities(p: Any) -> dict[str, Any]:
    """Returns the quantities that are compared, in float64."""
    values = {"mean": p.mean, "std": p.std}
    if p.task == "classification":
        values["mutual_information"] = p.mutual_information
    if p.samples is not None:
        values["quantile"] = np.quantile(p.samples, LEVEL, axis=0)
    elif p.stats.sampled and p.quantile_levels is not None:
        values["quantile"] = p.quantile(LEVEL)
    elif not p.stats.sampled:
        values["quantile"] = p.interval(2 * LEVEL - 1)[1]
    return {name: np.asarray(each, np.float64) for name, each in values.items()}


def scales(truth: dict[str, Any]) -> dict[str, float]:
    """Returns the units of errors: standard deviation, or information."""

    def root(values: Any) -> float:
        return float(np.sqrt(np.mean(np.square(values))))

    return {
        name: root(truth[name if name == "mutual_information" else "std"])
        for name in truth
    }


def cases(model: Any, x: Any, engine: str) -> dict[str, Callable[..., Any]]:
    """Returns functions of samples and seed that predict, by method."""
    functions: dict[str, Callable[..., Any]] = {}

    def add(name: str, method: Any, **options: Any) -> None:
        functions[name] = lambda samples, seed: predict(
            model, x, samples, seed, method, **options
        )

    for draws in DRAWS:
        sampling = kbd.Sampling(draws=draws, engine=engine)
        add(draws, sampling)
        add(f"{draws}, {WITH_QUANTILES}", sampling, quantiles=[LEVEL])
        integrating = kbd.RaoBlackwell(draws=draws, engine=engine)
        add(f"rao_blackwell, {draws}", integrating)
    try:
        kbd.predict_with_uncertainty(model, x, method="moments", verbose=0)
    except kbd.errors.PlanError:
        # A layer has no rule.
        return functions
    functions["moments"] = lambda samples, seed: kbd.predict_with_uncertainty(
        model, x, method="moments", verbose=0
    )
    return functions


def squared_errors(p: Any, truth: dict[str, Any]) -> dict[str, float]:
    """Returns mean squares over rows and outputs, by quantity."""
    return {
        name: float(np.mean(np.square(value - truth[name])))
        for name, value in quantities(p).items()
    }


def counts_of(method: str, sizes: Sizes) -> tuple[int, ...]:
    """Returns numbers of samples of a method; 0 if it takes none."""
    return (0,) if method == "moments" else sizes.counts


def errors(engine: str, quick: bool) -> dict[str, Any]:
    """Errors in units of `scales`, a list by samples for each method."""
    sizes = QUICK if quick else Sizes()
    results: dict[str, Any] = {}
    for name in SHOWN[:2] if quick else SHOWN:
        network = NETWORKS[name]
        model, x = network.trained(sizes.shown_rows, quick)
        long = kbd.Sampling(draws="independent", engine=engine)
        truth = quantities(
            predict(model, x, sizes.reference, 0, long, return_samples=True)
        )
        unit = scales(truth)
        methods: dict[str, Any] = {}
        for method, case in cases(model, x, engine).items():
            counts = counts_of(method, sizes)
            squares = [
                [
                    squared_errors(case(samples, seed), truth)
                    for seed in range(sizes.seeds if samples else 1)
                ]
                for samples in counts
            ]
            methods[method] = {
                quantity: [
                    statistics.fmean(each[quantity] for each in of_count) ** 0.5
                    / unit[quantity]
                    for of_count in squares
                ]
                for quantity in squares[0][0]
            }
            methods[method]["samples"] = list(counts)
        results[name] = {
            "kind": network.kind,
            "what": network.what,
            "rows": sizes.shown_rows,
            "seeds": sizes.seeds,
            "reference": sizes.reference,
            "methods": methods,
        }
        print(name, json.dumps(methods), flush=True)
    return results


def times(rounds: int, engine: str, quick: bool) -> dict[str, Any]:
    """Best seconds, in turn, a list by samples for each method."""
    sizes = QUICK if quick else Sizes()
    results: dict[str, Any] = {}
    for name in SHOWN[:2] if quick else SHOWN:
        model, x = NETWORKS[name].trained(sizes.shown_rows, quick)
        timed_x = np.concatenate([x] * (sizes.timed_rows // len(x)))
        methods = cases(model, timed_x, engine)
        calls = {
            (method, samples): functools.partial(case, samples, 0)
            for method, case in methods.items()
            for samples in counts_of(method, sizes)
        }
        timed = harness.time_in_turn(calls, 1 if quick else rounds)
        results[name] = {
            "rows": len(timed_x),
            "methods": {
                method: {
                    "samples": list(counts_of(method, sizes)),
                    "seconds": [
                        timed[method, samples]["best"]
                        for samples in counts_of(method, sizes)
                    ],
                }
                for method in methods
            },
        }
        print(name, json.dumps(results[name]["methods"]), flush=True)
    return results


def options() -> argparse.Namespace:
    """Reads the command line."""
    parser = harness.parser(__doc__ or "")
    parser.add_argument(
        "--engine", default="auto", choices=("auto", "fused", "reference")
    )
    return parser.parse_args()


def main() -> int:
    """Runs all, or one, and writes what was found."""
    asked = options()
    parts = {
        "ratios": lambda: ratios(asked.engine, asked.quick),
        "errors": lambda: errors(asked.engine, asked.quick),
        "times": lambda: times(asked.rounds, asked.engine, asked.quick),
    }
    for name, run in parts.items():
        if asked.only in (None, name):
            results = {name: run()}
            if not asked.quick:
                print(harness.write("accuracy", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
