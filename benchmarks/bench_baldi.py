# SPDX-License-Identifier: Apache-2.0
"""How consistent the units of a deep dropout network on MNIST are in training.

    python benchmarks/bench_baldi.py --data <folder with MNIST>
    python benchmarks/bench_baldi.py --data <folder> --activation relu
    python benchmarks/bench_baldi.py --data <folder> --quick

The network of Baldi and Sadowski (2014), section 9.5: four hidden layers of
1200 logistic units, a fifth of the inputs and half of the hidden units dropped,
100 epochs; looked at are ten inputs, in the end with 10,000 masks. The
publication starts from small weights, here N(0, 0.01^2), and does not say how
it was optimised: here by Adam at 1e-3, in batches of 100. The folder holds
MNIST in its original four `.gz` files.

Prints what `consistency` finds, and the share of the time of an epoch that
`ConsistencyMonitor` takes. Writes `benchmarks/results/baldi.json`, of which
`consistency_page.py` makes `docs/consistency.md`, and, with `--picture`, what
`plots.dropout_phases` draws: figures 9.3, 9.6, 9.10 and 11.1-11.3 of the
publication. 100 epochs take about an hour of one core.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import pathlib
import statistics
import time
from typing import Any

import harness
import keras
import numpy as np
from bench_sparse_vd import error_percent
from bench_sparse_vd import load_mnist

from keras_bayesdrop import plots
from keras_bayesdrop.callbacks import ConsistencyMonitor
from keras_bayesdrop.diagnostics import consistency
from keras_bayesdrop.theory import nwgm_approximation
from keras_bayesdrop.theory.consistency import LayerConsistency

DEPTH = 4
BATCH = 100
ROWS = 10
STDDEV = 0.01


class Clock(keras.callbacks.Callback):
    """Times epochs and, in each, another callback."""

    def __init__(self, timed: keras.callbacks.Callback) -> None:
        super().__init__()
        self.timed = timed
        self.training: list[float] = []
        self.looking: list[float] = []
        self.began = 0.0

    def set_model(self, model: Any) -> None:
        """Hands the model on."""
        super().set_model(model)
        self.timed.set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins."""
        self.timed.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Starts the clock."""
        self.timed.on_epoch_begin(epoch, logs)
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Takes both times."""
        trained = time.perf_counter()
        self.timed.on_epoch_end(epoch, logs)
        self.training.append(trained - self.began)
        self.looking.append(time.perf_counter() - trained)
        loss = (logs or {})["loss"]
        print(
            f"epoch {epoch + 1}, {self.training[-1]:.1f} s, loss {loss:.4f}",
            flush=True,
        )


def build(width: int, activation: str) -> keras.Model:
    """Returns the network."""
    layers: list[Any] = [
        keras.Input((28, 28, 1)),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.2),
    ]
    for number in range(DEPTH):
        layers.append(
            keras.layers.Dense(
                width,
                activation=activation,
                kernel_initializer=keras.initializers.RandomNormal(
                    stddev=STDDEV
                ),
                name=f"hidden_{number + 1}",
            )
        )
        layers.append(keras.layers.Dropout(0.5))
    layers.append(keras.layers.Dense(10, activation="softmax", name="output"))
    return keras.Sequential(layers, name=f"{activation}_{width}")


def mean_of(values: Any, which: Any) -> float:
    """Returns the mean of some of the values, 0 if there are none."""
    return float(values[which].mean()) if which.any() else 0.0


def excess_kurtosis(values: Any) -> float:
    """Returns 0 for a normal distribution, and more for heavier tails."""
    off = values.astype(np.float64) - values.mean(dtype=np.float64)
    return float(np.mean(off**4) / np.mean(off**2) ** 2 - 3.0)


def missed_by_formulas(layer: LayerConsistency, gap: Any) -> dict[str, float]:
    """Returns how far formulas for `E - NWGM` of logistic units are off."""
    tiny = np.finfo(np.float32).eps
    mean = np.clip(layer.mean.astype(np.float64), tiny, 1.0 - tiny)
    variance = np.minimum(layer.variance, mean * (1.0 - mean))
    around_half = variance * (1.0 - 2.0 * mean) / (1.0 - 2.0 * variance)
    around_mean = mean - nwgm_approximation(mean, variance)
    return {
        "missed_by_eq_87": float(np.mean(np.abs(gap - around_half))),
        "missed_by_eq_202": float(np.mean(np.abs(gap - around_mean))),
    }


def numbers(layer: LayerConsistency) -> dict[str, float]:
    """Returns what is written of a layer."""
    found = {
        "dropout_variance": layer.dropout_variance,
        "ensemble_gap": layer.ensemble_gap,
        "monte_carlo_error": float(np.mean(layer.mc_error)),
        "silent_fraction": layer.silent_fraction,
        "active_fraction": layer.active_fraction,
        "sparsity": layer.sparsity,
        "spread_of_active": mean_of(np.sqrt(layer.variance), ~layer.silent),
        "spread_of_silent": mean_of(np.sqrt(layer.variance), layer.silent),
    }
    if layer.nwgm_error is not None:
        found["nwgm_gap"] = float(np.mean(np.abs(layer.nwgm_error)))
        found["nwgm_kurtosis"] = excess_kurtosis(layer.nwgm_error)
        if layer.path != "output":
            found |= missed_by_formulas(layer, layer.nwgm_error)
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def draw(monitor: ConsistencyMonitor, path: pathlib.Path) -> None:
    """Draws the training, in few colours so that the file is small."""
    import PIL.Image  # Comes with matplotlib.

    plots.dropout_phases(monitor).savefig(path, dpi=80)
    picture = PIL.Image.open(path).convert("RGB").quantize(96)
    picture.save(path, optimize=True)


def train(data: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Trains the network and returns what came out."""
    keras.utils.set_random_seed(options.seed)
    model = build(options.width, options.activation)
    model.compile(
        keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy"
    )
    hidden = [f"hidden_{number + 1}" for number in range(DEPTH)]
    monitor = ConsistencyMonitor(data["x_test"], layers=hidden)
    clock = Clock(monitor)
    rows = data["x_test"][:ROWS]
    before = consistency(model, rows, options.num_samples, seed=options.seed)
    model.fit(
        data["x_train"],
        data["y_train"],
        batch_size=BATCH,
        epochs=options.epochs,
        verbose=0,
        callbacks=[clock],
    )
    found = consistency(model, rows, options.num_samples, seed=options.seed)
    print(found, flush=True)
    if options.picture is not None:
        draw(monitor, options.picture)
    # The first epochs compile both.
    looking = statistics.median(clock.looking)
    training = statistics.median(clock.training)
    return {
        "epochs": len(clock.training),
        "width": options.width,
        "seed": options.seed,
        "num_samples": options.num_samples,
        "error_percent": round(error_percent(model, data), 3),
        "seconds_of_an_epoch": round(training, 4),
        "seconds_of_a_look": round(looking, 4),
        "cost_percent": round(100 * looking / training, 3),
        "before": {each.path: numbers(each) for each in before.layers},
        "in_the_end": {each.path: numbers(each) for each in found.layers},
        "dropout_variance_by_epoch": {
            path: [float(f"{value:.4g}") for value in layer.dropout_variance]
            for path, layer in monitor.record.layers.items()
        },
    }


def main() -> None:
    """Runs what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with MNIST")
    parser.add_argument(
        "--activation", choices=("sigmoid", "relu"), default="sigmoid"
    )
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--num-samples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=pathlib.Path, help="a file to draw")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a small network, few images and epochs; writes no results",
    )
    options = parser.parse_args()
    data = load_mnist(options.data)
    if options.quick:
        options.width, options.epochs, options.num_samples = 64, 3, 200
        data = {name: values[:5000] for name, values in data.items()}
    result = train(data, options)
    print(
        f"error {result['error_percent']:.2f} %, an epoch "
        f"{result['seconds_of_an_epoch']:.3f} s, a look "
        f"{result['seconds_of_a_look']:.3f} s "
        f"({result['cost_percent']:.2f} % of it)"
    )
    if not options.quick:
        print(harness.write("baldi", {options.activation: result}))


if __name__ == "__main__":
    main()
