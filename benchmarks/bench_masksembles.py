# SPDX-License-Identifier: Apache-2.0
"""MC dropout, Masksembles and a deep ensemble on scikit-learn's digits.

    python benchmarks/bench_masksembles.py [--rounds 7] [--quick]

All networks are 64-128-128-10 and train for the same number of epochs. The
temperature is fitted on rows of its own. Writes the means over several splits
to `benchmarks/results/masksembles.json`; `masksembles_page.py` makes a table.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import harness
import keras
import numpy as np

import keras_bayesdrop as kbd

MEMBERS, SAMPLES = 4, 50
RATE, SCALES = 0.3, (1.5, 2.0)
SPLITS, EPOCHS, BATCH = 5, 40, 32
TRAIN, CALIBRATE = 600, 400
WIDTH, CLASSES = 128, 10
QUALITIES: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": kbd.metrics.accuracy,
    "nll": kbd.metrics.negative_log_likelihood,
    "ece": kbd.metrics.expected_calibration_error,
}


def data(split: int) -> list[tuple[Any, Any]]:
    """Returns rows and labels to train, calibrate and test on."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(split).permutation(len(x))
    x, y = (x[order] / 16).astype("float32"), y[order]
    ends = [TRAIN, TRAIN + CALIBRATE]
    return list(zip(np.split(x, ends), np.split(y, ends), strict=True))


def network(noise: Callable[[], keras.layers.Layer], seed: int) -> keras.Model:
    """Returns a network with noise behind both hidden layers."""
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(WIDTH, activation="relu"),
            noise(),
            layers.Dense(WIDTH, activation="relu"),
            noise(),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )


def trained(
    noise: Callable[[], keras.layers.Layer],
    seed: int,
    rows: tuple[Any, Any],
    epochs: int,
) -> tuple[keras.Model, float]:
    """Returns a trained network, and the seconds of its training.

    The first epoch, which compiles the step, is not timed.
    """
    model = network(noise, seed)
    model.compile("adam", "sparse_categorical_crossentropy")
    settings = {"batch_size": BATCH, "verbose": 0}
    model.fit(*rows, epochs=1, **settings)
    began = time.perf_counter()
    model.fit(*rows, epochs=epochs - 1, **settings)
    seconds = time.perf_counter() - began
    return model, seconds * epochs / max(epochs - 1, 1)


def dropout() -> keras.layers.Layer:
    """Returns the noise of MC dropout."""
    return keras.layers.Dropout(RATE)


def masksembles(scale: float) -> Callable[[], keras.layers.Layer]:
    """Returns what makes the masks of Masksembles."""
    return lambda: kbd.layers.Masksembles(MEMBERS, scale)


def predictors(
    split: int, rows: tuple[Any, Any], epochs: int
) -> dict[str, tuple[Any, float, int]]:
    """Trains all networks; returns what predicts, seconds, and samples."""
    seed = 100 * split
    plain = [
        trained(keras.layers.Identity, seed + number, rows, epochs)
        for number in range(MEMBERS)
    ]
    dropped, dropped_seconds = trained(dropout, seed, rows, epochs)
    masked = {
        f"Masksembles, 4 masks, scale {scale:g}": (
            *trained(masksembles(scale), seed, rows, epochs),
            MEMBERS,
        )
        for scale in SCALES
    }
    members = [model for model, _ in plain]
    return {
        "one network": (members[:1], plain[0][1], 1),
        "MC dropout, 4 samples": (dropped, dropped_seconds, MEMBERS),
        "MC dropout, 50 samples": (dropped, dropped_seconds, SAMPLES),
        **masked,
        "deep ensemble of 4": (members, sum(s for _, s in plain), MEMBERS),
    }


def predict(model: Any, samples: int, x: Any) -> Any:
    """Predicts with one network and its noise, or with several without."""
    if not isinstance(model, list):
        return kbd.predict_with_uncertainty(
            model, x, samples, seed=0, verbose=0
        )
    outputs = [np.asarray(each(x)) for each in model]
    # A variance needs two samples.
    outputs = outputs * 2 if len(outputs) == 1 else outputs
    return kbd.Predictive.from_samples(
        np.stack(outputs), head=kbd.Classification(from_logits=False)
    )


def qualities(
    model: Any, samples: int, calibrate: Any, test: Any
) -> dict[str, float]:
    """Returns the metrics on test rows, and after calibration."""
    x, y = calibrate
    fit = kbd.calibrate.temperature(y, predict(model, samples, x))
    x, y = test
    p = predict(model, samples, x)
    values = {name: float(of(y, p)) for name, of in QUALITIES.items()}
    tempered = fit.apply(p)
    for name in ("nll", "ece"):
        values[f"calibrated_{name}"] = float(QUALITIES[name](y, tempered))
    return values


def main() -> int:
    """Runs the benchmark."""
    options = harness.parser(__doc__.partition("\n")[0]).parse_args()
    splits, epochs = (1, 2) if options.quick else (SPLITS, EPOCHS)
    rounds = 1 if options.quick else options.rounds
    values: dict[str, list[dict[str, float]]] = {}
    times: dict[str, dict[str, float]] = {}
    for split in range(splits):
        train, calibrate, test = data(split)
        by_name = predictors(split, train, epochs)
        for name, (model, seconds, samples) in by_name.items():
            row = qualities(model, samples, calibrate, test)
            row["training_seconds"] = seconds
            values.setdefault(name, []).append(row)
        if split == 0:
            times = harness.time_in_turn(
                {
                    name: functools.partial(predict, model, samples, test[0])
                    for name, (model, _, samples) in by_name.items()
                },
                rounds,
            )
    rows = {
        name: {
            **{key: summary([row[key] for row in runs]) for key in runs[0]},
            "predict_seconds": times[name],
        }
        for name, runs in values.items()
    }
    for name, row in rows.items():
        print(
            f"{name:32}",
            *(f"{key} {row[key]['mean']:.4f}" for key in runs_keys(row)),
            f"predict {1e3 * row['predict_seconds']['median']:.1f} ms",
        )
    if not options.quick:
        harness.write("masksembles", {"settings": settings(), "rows": rows})
    return 0


def runs_keys(row: dict[str, Any]) -> list[str]:
    """Returns the names of what every split has."""
    return [key for key in row if key != "predict_seconds"]


def summary(values: list[float]) -> dict[str, float]:
    """Returns mean and standard error over splits."""
    error = 0.0
    if len(values) > 1:
        error = statistics.stdev(values) / len(values) ** 0.5
    return {"mean": statistics.mean(values), "error": error}


def settings() -> dict[str, Any]:
    """Describes the run."""
    return {
        "rows": {"train": TRAIN, "calibrate": CALIBRATE, "test": 797},
        "splits": SPLITS,
        "epochs": EPOCHS,
        "batch": BATCH,
        "width": WIDTH,
        "rate": RATE,
        "scales": SCALES,
        "masks": MEMBERS,
    }


if __name__ == "__main__":
    raise SystemExit(main())
