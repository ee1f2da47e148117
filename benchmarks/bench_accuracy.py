# SPDX-License-Identifier: Apache-2.0
"""Error of predictions for the samples and the time that they take.

    python benchmarks/bench_accuracy.py                  # all, minutes
    python benchmarks/bench_accuracy.py --only ratios
    python benchmarks/bench_accuracy.py --quick          # writes nothing

    ratios   squared error of the mean with balanced draws, over that with
             independent draws, on every network of `trained_networks.py`
    curves   error of mean, standard deviation, mutual information and 90 %
             quantile by method and number of samples, and the time they take

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
import json
import statistics
import sys
import time
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
        shown_rows: Rows of a prediction in `curves`.
        counts: Numbers of samples in `curves`.
        seeds: Predictions of each case in `curves`.
    """

    rows: int = 16
    runs: int = 2048
    calls: int = 4
    reference: int = 65536
    shown_rows: int = 64
    counts: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    seeds: int = 32


QUICK = Sizes(
    rows=3,
    runs=8,
    calls=2,
    reference=1024,
    shown_rows=3,
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
    errors: dict[int, list[Any]] = {count: [] for count in COUNTS}
    each = RUN * sizes.runs // sizes.calls
    for seed in range(1, sizes.calls + 1):
        p = predict(model, x, each, seed, method, return_samples=True)
        runs = p.samples.reshape(-1, RUN, *mean.shape)
        for count in COUNTS:
            means = runs[:, :count].mean(axis=1, dtype=np.float64)
            squares = np.square(means - mean)
            errors[count].append(squares.reshape(len(means), -1).mean(axis=1))
    return {count: np.concatenate(parts) for count, parts in errors.items()}


def ratio(balanced: Any, independent: Any) -> dict[str, float]:
    """Returns a ratio of means and its standard error, to first order."""
    means, errors = zip(
        *(
            (each.mean(), each.std(ddof=1) / len(each) ** 0.5)
            for each in (balanced, independent)
        ),
        strict=True,
    )
    quotient = means[0] / means[1]
    relative = np.hypot(errors[0] / means[0], errors[1] / means[1])
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
            errors = {
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
                    errors["balanced"][count], errors["independent"][count]
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
    found: dict[str, Callable[..., Any]] = {}

    def add(name: str, method: Any, **options: Any) -> None:
        found[name] = lambda samples, seed: predict(
            model, x, samples, seed, method, **options
        )

    for draws in DRAWS:
        sampling = kbd.Sampling(draws=draws, engine=engine)
        add(draws, sampling)
        add(f"{draws}, {WITH_QUANTILES}", sampling, quantiles=[LEVEL])
        integrating = kbd.RaoBlackwell(draws=draws, engine=engine)
        add(f"rao_blackwell, {draws}", integrating)
    return found


def measure(
    case: Callable[..., Any],
    arguments: tuple[int, int],
    truth: dict[str, Any],
    into: dict[str, list[float]],
) -> None:
    """Adds the seconds and squared errors of one call to `into`."""
    began = time.perf_counter()
    p = case(*arguments)
    into.setdefault("seconds", []).append(time.perf_counter() - began)
    for name, value in quantities(p).items():
        squared = float(np.mean(np.square(value - truth[name])))
        into.setdefault(name, []).append(squared)


def curve(
    measured: dict[int, dict[str, list[float]]], scale: dict[str, float]
) -> dict[str, Any]:
    """Returns lists by number of samples: seconds, and errors in units."""
    points = measured.values()
    lists: dict[str, Any] = {
        "samples": list(measured),
        "seconds": [statistics.median(each["seconds"]) for each in points],
    }
    for name, unit in scale.items():
        if all(name in each for each in points):
            lists[name] = [
                statistics.fmean(each[name]) ** 0.5 / unit for each in points
            ]
    return lists


def curves(engine: str, quick: bool) -> dict[str, Any]:
    """Errors and seconds by method and number of samples, in turn."""
    sizes = QUICK if quick else Sizes()
    results: dict[str, Any] = {}
    for name in SHOWN[:2] if quick else SHOWN:
        network = NETWORKS[name]
        model, x = network.trained(sizes.shown_rows, quick)
        long = kbd.Sampling(draws="independent", engine=engine)
        truth = quantities(
            predict(model, x, sizes.reference, 0, long, return_samples=True)
        )
        methods = cases(model, x, engine)
        measured: dict[str, Any] = {method: {} for method in methods}
        for samples in sizes.counts:
            for case in methods.values():
                case(samples, 0)
            for seed in range(1, sizes.seeds + 1):
                for method, case in methods.items():
                    into = measured[method].setdefault(samples, {})
                    measure(case, (samples, seed), truth, into)
        add_moments(measured, model, x, truth, sizes.seeds)
        unit = scales(truth)
        results[name] = {
            "kind": network.kind,
            "what": network.what,
            "rows": sizes.shown_rows,
            "seeds": sizes.seeds,
            "reference": sizes.reference,
            "methods": {
                method: curve(points, unit)
                for method, points in measured.items()
                if points
            },
        }
        print(name, json.dumps(results[name]), flush=True)
    return results


def add_moments(
    measured: dict[str, Any], model: Any, x: Any, truth: Any, rounds: int
) -> None:
    """Adds the prediction by moments, where every layer has a rule."""
    method = kbd.Moments()

    def case(samples: int, seed: int) -> Any:
        del samples, seed
        return kbd.predict_with_uncertainty(model, x, method=method, verbose=0)

    try:
        case(0, 0)
    except kbd.errors.PlanError:
        return
    measured["moments"] = {0: {}}
    for _ in range(rounds):
        measure(case, (0, 0), truth, measured["moments"][0])


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
    for name, run in {"ratios": ratios, "curves": curves}.items():
        if asked.only in (None, name):
            results = {name: run(asked.engine, asked.quick)}
            if not asked.quick:
                print(harness.write("accuracy", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
