# SPDX-License-Identifier: Apache-2.0
"""Predictions by moments: their error, their cost, trained networks.

    python benchmarks/bench_moments.py --data path/to/uci   # all, minutes
    python benchmarks/bench_moments.py --only cost
    python benchmarks/bench_moments.py --quick              # writes nothing

    error    random networks of two widths, depths 1 to 5 and every
             activation, against Monte Carlo
    cost     of the diagonal, in deterministic passes of the same network; of
             Rao-Blackwell, against plain sampling
    logits   a softmax of logits under normal noise of every size
    trained  digits (scikit-learn) and UCI regressions: how the standard
             deviation goes with that of 5,000 samples

Writes `benchmarks/results/moments.json`; `moments_page.py` makes the tables of
`docs/moments.md` from it.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import json
import pathlib
import sys
from typing import Any

import harness
import keras
import numpy as np
import tensorflow as tf
from networks import dense_network
from networks import inputs
from networks import uci_network
from uci import data as uci_data

import keras_bayesdrop as kbd

layers = keras.layers

ACTIVATIONS = (
    "linear",
    "relu",
    "leaky_relu",
    "sigmoid",
    "tanh",
    "gelu",
    "silu",
    "elu",
    "softplus",
)
DEPTHS = (1, 2, 3, 4, 5)
WIDTHS = (64, 1024)
SAMPLES = 100_000
COVARIANCES = ("diagonal", "full")
# Classes, and standard deviations of the noise of their logits.
CLASSES = (2, 3, 10, 100)
NOISES = (0.3, 1.0, 3.0, 10.0, 30.0)
UCI_SETS = ("boston", "energy", "wine", "yacht")


def predict(model: keras.Model, x: Any, **kwargs: Any) -> Any:
    """Predicts without a progress bar, every row with masks of its own."""
    method = kwargs.pop("method", "sampling")
    if method == "sampling":
        method = kbd.Sampling(masks="independent")
    elif method == "moments":
        covariance = kwargs.pop("covariance", "diagonal")
        method = kbd.Moments(covariance=covariance)
    return kbd.predict_with_uncertainty(
        model, x, verbose=0, seed=0, method=method, **kwargs
    )


def random_network(
    width: int, depth: int, activation: str, last: str | None
) -> keras.Model:
    """A network as it is initialised: rate 0.1 on inputs, 0.3 on units."""
    keras.utils.set_random_seed(depth)
    stack: list[Any] = [keras.Input((64,))]
    for level in range(depth):
        stack.append(layers.Dropout(0.3 if level else 0.1))
        stack.append(layers.Dense(width, activation=activation))
    stack += [layers.Dropout(0.3), layers.Dense(10, activation=last)]
    return keras.Sequential(stack)


def compare(found: Any, sampled: Any) -> dict[str, float]:
    """Root mean squares over rows and outputs.

    Returns:
        `mean`: error of the mean in standard deviations. `std`: relative error
        of the standard deviation.
    """
    spread = np.maximum(sampled.std, 1e-9)
    mean = (found.mean - sampled.mean) / spread
    return {
        "mean": float(np.sqrt(np.mean(mean**2))),
        "std": float(np.sqrt(np.mean((found.std / spread - 1) ** 2))),
    }


def error(quick: bool) -> dict[str, Any]:
    """Random networks against Monte Carlo."""
    rows = []
    x = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    cases = [(each, None) for each in ACTIVATIONS] + [("relu", "softmax")]
    for width in WIDTHS:
        for activation, last in cases[:2] if quick else cases:
            for depth in DEPTHS[:2] if quick else DEPTHS:
                model = random_network(width, depth, activation, last)
                count = SAMPLES // 100 if quick else SAMPLES
                sampled = predict(model, x, num_samples=count)
                row: dict[str, Any] = {
                    "width": width,
                    "depth": depth,
                    "activation": activation,
                    "last": last,
                    "samples": sampled.stats.num_samples,
                }
                for covariance in COVARIANCES:
                    found = predict(
                        model, x, method="moments", covariance=covariance
                    )
                    row[covariance] = compare(found, sampled)
                rows.append(row)
                print(row, flush=True)
    return {"rows": rows}


def logits(quick: bool) -> dict[str, Any]:
    """Softmax of logits, their means normal too, against Monte Carlo."""
    found = []
    count = 200 if quick else 50_000
    for classes in CLASSES[:2] if quick else CLASSES:
        x = np.random.default_rng(0).normal(size=(40, classes))
        for noise in NOISES:
            model = keras.Sequential(
                [
                    keras.Input((classes,)),
                    layers.GaussianNoise(1.0),
                    layers.Rescaling(noise),
                    layers.Softmax(),
                ]
            )
            means = (3.0 / noise * x).astype(np.float32)
            sampled = predict(model, means, num_samples=count)
            p = predict(model, means, method="moments")
            distance = np.abs(p.mean - sampled.mean).sum(axis=1).mean() / 2
            miss = np.linalg.norm(p.std - sampled.std)
            row = {
                "classes": classes,
                "noise": noise,
                "samples": count,
                "distance": float(distance),
                "std": float(miss / np.linalg.norm(sampled.std)),
            }
            found.append(row)
            print(row, flush=True)
    return {"rows": found}


def convolutional_network() -> keras.Model:
    """Two convolutions and a dense head, on images of 28 by 28."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Dropout(0.1),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def cost(rounds: int, quick: bool) -> dict[str, Any]:
    """The whole call in deterministic passes, in turn within one run."""
    rows = 64 if quick else 256
    found: dict[str, Any] = {}
    networks = {
        "dense": (dense_network(), inputs(rows)),
        "convolutional": (
            convolutional_network(),
            inputs(rows).reshape(rows, 28, 28, 1),
        ),
        "small": (digits_network(), inputs(rows)[:, :64]),
    }
    for name, (model, x) in networks.items():
        once = tf.function(
            lambda rows, model=model: model(rows, training=False)
        )
        rows_tensor = tf.constant(x)
        timed = harness.time_in_turn(
            {
                "pass": lambda once=once, t=rows_tensor: once(t).numpy(),
                "moments": lambda model=model, x=x: (
                    predict(model, x, method="moments", batch_size=len(x)).mean
                ),
            },
            1 if quick else 3 * rounds,
        )
        passes = timed["moments"]["median"] / timed["pass"]["median"]
        found[name] = {
            "rows": rows,
            "passes": passes,
            **timed,
            **cost_of_samples(model, x[:64], 1 if quick else 3),
        }
        ratio = found[name]["rao_blackwell_over_sampling"]
        print(
            f"{name}: {passes:.2f} passes; Rao-Blackwell {ratio:.2f} times "
            "sampling",
            flush=True,
        )
    return found


def cost_of_samples(model: keras.Model, x: Any, rounds: int) -> dict[str, Any]:
    """Rao-Blackwell and plain sampling at the same number of samples."""
    samples = 4 if rounds == 1 else 50
    timed = harness.time_in_turn(
        {
            method: lambda method=method: predict(
                model, x, num_samples=samples, method=method
            )
            for method in ("sampling", "rao_blackwell")
        },
        rounds,
    )
    ratio = timed["rao_blackwell"]["median"] / timed["sampling"]["median"]
    return {
        "samples": samples,
        "sampled_rows": len(x),
        "rao_blackwell_over_sampling": ratio,
        **timed,
    }


def digits_network() -> keras.Model:
    """A small classifier, of images of 8 by 8."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dropout(0.1),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(10, activation="softmax"),
        ]
    )


def digits(quick: bool) -> tuple[keras.Model, Any]:
    """A classifier of scikit-learn's digits, and rows that it has not seen."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    model = digits_network()
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x[:1400], y[:1400], epochs=2 if quick else 30, verbose=0)
    return model, x[1400:]


def uci(
    folder: pathlib.Path, name: str, quick: bool
) -> tuple[keras.Model, Any]:
    """Gal's network for the UCI sets, and rows that it has not seen."""
    train, test = uci_data.load(folder, name).split(0)
    scaling = uci_data.Scaling.of(train)
    model = uci_network(train.x.shape[1])
    model.compile("adam", "mse")
    model.fit(
        scaling.scaled_x(train.x),
        scaling.scaled_y(train.y),
        epochs=2 if quick else 200,
        verbose=0,
    )
    return model, scaling.scaled_x(test.x)


def trained(folder: pathlib.Path | None, quick: bool) -> dict[str, Any]:
    """How standard deviations go with those of sampling."""
    cases = {"digits": lambda: digits(quick)}
    if folder is not None:
        for name in UCI_SETS:
            cases[name] = lambda name=name: uci(folder, name, quick)
    found: dict[str, Any] = {}
    for name, build in cases.items():
        model, x = build()
        sampled = predict(model, x, num_samples=500 if quick else 5000)
        fifty = np.sqrt(np.mean(sampled.variance / 50))
        found[name] = {"rows": len(x), "samples": sampled.stats.num_samples}
        for covariance in COVARIANCES:
            p = predict(model, x, method="moments", covariance=covariance)
            pair = np.corrcoef(p.std.ravel(), sampled.std.ravel())
            miss = np.sqrt(np.mean((p.mean - sampled.mean) ** 2))
            found[name][covariance] = {
                "correlation": float(pair[0, 1]),
                "std": float(
                    np.linalg.norm(p.std - sampled.std)
                    / np.linalg.norm(sampled.std)
                ),
                "mean_in_errors_at_50": float(miss / fifty),
                **information(p, sampled),
            }
        print(name, json.dumps(found[name]), flush=True)
    return found


def information(found: Any, sampled: Any) -> dict[str, Any]:
    """How mutual information goes with that of sampling, for classifiers."""
    if sampled.task == "regression":
        return {}
    pair = [each.mutual_information.ravel() for each in (found, sampled)]
    return {
        "information": {
            "correlation": float(np.corrcoef(*pair)[0, 1]),
            "ratio": float(pair[0].mean() / pair[1].mean()),
        }
    }


def options() -> argparse.Namespace:
    """Reads the command line."""
    parser = harness.parser(__doc__ or "")
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        help="folder of the UCI sets; without it only digits are trained",
    )
    return parser.parse_args()


def main() -> int:
    """Runs all, or one, and writes what was found."""
    asked = options()
    parts = {
        "cost": lambda: cost(asked.rounds, asked.quick),
        "logits": lambda: logits(asked.quick),
        "trained": lambda: trained(asked.data, asked.quick),
        "error": lambda: error(asked.quick),
    }
    for name, run in parts.items():
        if asked.only in (None, name):
            results = {name: run()}
            if not asked.quick:
                print(harness.write("moments", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
