# SPDX-License-Identifier: Apache-2.0
"""How much the few means of balanced blocks should count in `mc_error`.

    python benchmarks/lab/05_balanced_error.py [--quick]

    mc_error^2 = (w * std^2 / T + (B - 1) * mean_variance) / (w + B - 1)

For ten trained networks and each weight `w`: how often `mean -+ 1.96 mc_error`
covers the mean, how wide it is, and how often a tolerance stops too soon. Runs
of samples one after another stand for seeds: blocks of 16 are independent.

`keras_bayesdrop/predictive/quantities.py` has `w = 4`. It is the smallest that
keeps a distance from both bounds: 92 % of coverage for numbers, and 2 points
less than independent draws for probabilities. Block means alone, `w = 0`, cover
70 % at T = 32; where 256 samples are needed, they stop a third of the outputs
at 64 or before, with more than twice the error. Probabilities near 0 are hard
for every weight, and for independent draws: their samples are skewed, and the
first of them agree. benchmarks/results/balanced_error.json has all numbers.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import sklearn.datasets

import keras_bayesdrop as kbd
from keras_bayesdrop.predictive import Stats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness

layers = keras.layers
NUMBERS = (32, 50, 64, 128)
WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0)
SEEDS, ROWS, MOST, TRUTH = 400, 20, 128, 1 << 18
# A tolerance that takes so many samples, and the most that are drawn.
NEEDED, LONGEST = 256, 1024


def _diabetes() -> tuple[Any, Any]:
    x, y = sklearn.datasets.load_diabetes(return_X_y=True)
    return (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()


def _digits() -> tuple[Any, Any]:
    x, y = sklearn.datasets.load_digits(return_X_y=True)
    return x / 16, y


def _cancer() -> tuple[Any, Any]:
    x, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
    return (x - x.mean(0)) / x.std(0), y


def trained(
    data: Callable[[], tuple[Any, Any]],
    widths: tuple[int, ...],
    noise: Callable[[], Any],
    last: tuple[int, str | None, str],
    activation: str = "relu",
) -> tuple[Any, Any]:
    """Returns a trained network with noise behind each layer, and rows."""
    keras.utils.set_random_seed(0)
    x, y = data()
    stack: list[Any] = [keras.Input((x.shape[1],))]
    for width in widths:
        stack += [layers.Dense(width, activation=activation), noise()]
    outputs, output, loss = last
    model = keras.Sequential([*stack, layers.Dense(outputs, activation=output)])
    model.compile("adam", loss)
    model.fit(x[:-ROWS], y[:-ROWS], epochs=30, verbose=0)
    return model, x[-ROWS:].astype(np.float32)


def networks() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Returns trained networks by name."""
    number = (1, None, "mse")
    classes = (10, "softmax", "sparse_categorical_crossentropy")
    label = (1, "sigmoid", "binary_crossentropy")

    def drop(rate: float) -> Callable[[], Any]:
        return lambda: layers.Dropout(rate)

    cases = {
        "diabetes, 64, 0.1": (_diabetes, (64,), drop(0.1), number),
        "diabetes, 64-64, 0.1": (_diabetes, (64, 64), drop(0.1), number),
        "diabetes, 64-64, 0.5": (_diabetes, (64, 64), drop(0.5), number),
        "diabetes, Gaussian": (
            *(_diabetes, (64, 64)),
            *(lambda: layers.GaussianDropout(0.3), number, "tanh"),
        ),
        "diabetes, 4 x 32, 0.2": (_diabetes, (32,) * 4, drop(0.2), number),
        "diabetes, 5 x 32, 0.5": (_diabetes, (32,) * 5, drop(0.5), number),
        "diabetes, 2 x 32, 0.9": (_diabetes, (32,) * 2, drop(0.9), number),
        "digits, 128-128, 0.2": (_digits, (128, 128), drop(0.2), classes),
        "digits, 128-128, 0.5": (_digits, (128, 128), drop(0.5), classes),
        "cancer, 32-32, 0.3": (_cancer, (32, 32), drop(0.3), label),
    }
    return {
        name: lambda case=case: trained(*case)  # type: ignore[misc]
        for name, case in cases.items()
    }


def drawn(model: Any, x: Any, number: int, seed: int, draws: str) -> Any:
    """Returns samples [samples, rows, outputs] in float64."""
    p = kbd.predict_with_uncertainty(
        model,
        x,
        number,
        seed=seed,
        verbose=0,
        return_samples=True,
        method=kbd.Sampling(draws=draws),
    )
    return np.asarray(p.samples, np.float64)


def true_mean(model: Any, x: Any, number: int) -> Any:
    """Returns the mean of very many samples."""
    p = kbd.predict_with_uncertainty(
        model,
        x,
        number,
        seed=10**6,
        verbose=0,
        method=kbd.Sampling(draws="balanced"),
    )
    return p.mean.astype(np.float64)


def estimates(
    samples: Any, number: int, draws: str = "balanced"
) -> tuple[Any, Any, Any]:
    """Returns mean, variance and variance of the mean of the first samples.

    Args:
        samples: Array [seeds, samples, rows, outputs].
        number: How many of them count.
        draws: As in `Sampling`.
    """
    y = np.moveaxis(samples[:, :number], 1, 0)
    stats = Stats(num_samples=number, num_rows=len(samples), draws=draws)
    p = kbd.Predictive.from_samples(y, stats=stats)
    of_mean = p.mean_variance
    if of_mean is None:
        of_mean = p.variance / number
    return p.mean, p.variance, of_mean


def error_of(variance: Any, of_mean: Any, number: int, weight: float) -> Any:
    """Returns the standard error of the mean with a weight."""
    alone, degrees = variance / number, number // 16 - 1
    if weight + degrees == 0:
        return np.sqrt(alone)
    blend = (weight * alone + degrees * of_mean) / (weight + degrees)
    return np.sqrt(np.minimum(blend, 16 / 15 * alone))


def coverage(balanced: Any, plain: Any, truth: Any) -> dict[str, Any]:
    """Returns how often intervals cover, and their mean half-widths."""
    results: dict[str, Any] = {}
    for number in NUMBERS:
        mean, variance, _ = estimates(plain, number, "independent")
        distance = np.abs(mean - truth)
        error = np.sqrt(variance / number)
        alone, squared = error.mean(), np.mean(distance**2)
        each = {"independent": {"covers": np.mean(distance <= 1.96 * error)}}
        mean, variance, of_mean = estimates(balanced, number)
        distance = np.abs(mean - truth)
        for weight in WEIGHTS:
            error = error_of(variance, of_mean, number, weight)
            each[f"weight {weight:g}"] = {
                "covers": np.mean(distance <= 1.96 * error),
                "width": error.mean() / alone,
            }
        each["squared error"] = {"ratio": np.mean(distance**2) / squared}
        results[str(number)] = each
    return results


def stopping(balanced: Any, plain: Any, truth: Any) -> dict[str, Any]:
    """Returns when outputs stop whose error needs 256 samples.

    The tolerance of an output is the true error of 256 samples, balanced or
    independent.
    """
    results = {"independent": stopped(plain, truth, None)}
    for weight in WEIGHTS:
        results[f"weight {weight:g}"] = stopped(balanced, truth, weight)
    return results


def stopped(samples: Any, truth: Any, weight: float | None) -> dict[str, Any]:
    """Returns the same for one weight; `None` for independent draws."""
    runs = len(samples) // LONGEST
    y = samples[: runs * LONGEST].reshape(runs, LONGEST, *samples.shape[1:])
    blocks = samples.reshape(-1, 16, *samples.shape[1:]).mean(axis=1)
    allowed = np.sqrt(blocks.var(axis=0, ddof=1) / (NEEDED / 16))
    at = np.zeros(y[:, 0].shape, int)
    off = np.zeros(y[:, 0].shape)
    for number in range(16, LONGEST + 1, 16):
        draws = "independent" if weight is None else "balanced"
        mean, variance, of_mean = estimates(y, number, draws)
        error = error_of(variance, of_mean, number, weight or 0.0)
        now = ((error <= allowed) | (number == LONGEST)) & (at == 0)
        at[now], off[now] = number, ((mean - truth) / allowed)[now]
    soon = at <= NEEDED // 4
    return {
        "stopped at 64 or before": np.mean(soon),
        "their error": float(np.sqrt(np.mean(off[soon] ** 2)))
        if soon.any()
        else None,
        "error of all": np.sqrt(np.mean(off**2)),
        "samples": at.mean(),
    }


def main() -> None:
    """Prints a table for each network, and writes all of them."""
    options = harness.parser(__doc__.splitlines()[0]).parse_args()
    seeds, most = (40, 1 << 14) if options.quick else (SEEDS, TRUTH)
    results: dict[str, Any] = {}
    for name, build in networks().items():
        if options.only not in (None, name):
            continue
        model, x = build()
        truth = true_mean(model, x, most)
        samples = {
            draws: drawn(model, x, seeds * MOST, 1, draws)
            for draws in ("balanced", "independent")
        }
        balanced, plain = (
            each.reshape(seeds, MOST, *each.shape[1:])
            for each in samples.values()
        )
        results[name] = {
            "coverage": coverage(balanced, plain, truth),
            "stopping": stopping(*samples.values(), truth),
        }
        show(name, results[name])
    if not options.quick:
        harness.write("balanced_error", rounded(results))


def rounded(value: Any) -> Any:
    """Returns results with four decimals."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return value if value is None else round(float(value), 4)


def show(name: str, result: dict[str, Any]) -> None:
    """Prints the table of a network."""
    print(f"\n{name}")
    for number, each in result["coverage"].items():
        parts = [
            f"{case}: {100 * entry['covers']:.1f} %"
            + (f" x {entry['width']:.2f}" if "width" in entry else "")
            for case, entry in each.items()
            if "covers" in entry
        ]
        ratio = each["squared error"]["ratio"]
        print(f"  T = {number:>3} (error^2 x {ratio:.2f})  {'; '.join(parts)}")
    for case, each in result["stopping"].items():
        soon = each["their error"]
        print(
            f"  {case}: {100 * each['stopped at 64 or before']:.1f} % stop at "
            f"64 or before, error {'-' if soon is None else f'{soon:.2f}'}; "
            f"all {each['error of all']:.2f}, {each['samples']:.0f} samples"
        )


if __name__ == "__main__":
    main()
