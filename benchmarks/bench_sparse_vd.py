# SPDX-License-Identifier: Apache-2.0
"""Sparsity of LeNets on MNIST by variational dropout, beside the publication.

    python benchmarks/bench_sparse_vd.py --data <folder with MNIST>
    python benchmarks/bench_sparse_vd.py --data <folder> --net lenet-5
    python benchmarks/bench_sparse_vd.py --cost        # of a training step
    python benchmarks/bench_sparse_vd.py --data <folder> --quick

The protocol of Molchanov et al. (2017), Table 1: additive noise, log sigma^2
from -10, means from N(0, 0.01^2) (of convolutions from Glorot's), 200 epochs in
batches of 100, Adam at 1e-3 that falls linearly to 0 (`--decay-from 0.5`: from
the middle on only). The weight of the KL is 0 up to 2.5 % of the epochs and 1
from 10 % on. Weights with log alpha > 3 have a mean of zero in training
(`--free` leaves it); in the end they are removed, and the plain network of the
rest is tested. The folder holds MNIST in its original four `.gz` files.

The authors minimise the sum over all examples, Keras the mean: all gradients
are 60,000 times smaller here, and so must be the `epsilon` of Adam, beside
which the KL of a weight would not be felt (its gradient is at most 1e-5).

Writes `benchmarks/results/sparse_vd.json`, run by run. With `--backup <folder>`
a run that was interrupted goes on where it was.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import json
import pathlib
import time
import warnings
from typing import Any

import harness
import keras
import numpy as np
import tensorflow as tf
from bench_concrete import training_step
from lenets import build
from lenets import load_mnist
from lenets import variational_layers

import keras_bayesdrop as kbd
from keras_bayesdrop import sparsity

THRESHOLD = 3.0
BATCH = 100
# A step of LeNet-5 takes 90 ms of CPU with TensorFlow's convolutions, and 116
# with those of XLA; one of LeNet-300-100 is faster with XLA.
COMPILED = {"lenet-300-100": True, "lenet-5": False}
# Molchanov et al., 2017, Table 1.
PUBLISHED = {
    "lenet-300-100": {
        "error_percent": 1.92,
        "compression": 68,
        "removed_percent": [98.9, 97.2, 62.0],
    },
    "lenet-5": {
        "error_percent": 0.75,
        "compression": 280,
        "removed_percent": [67.0, 98.0, 99.8, 95.0],
    },
}


class Schedule(keras.callbacks.Callback):
    """Sets the learning rate and the weight of the KL for each epoch."""

    def __init__(self, epochs: int, decay_from: float) -> None:
        super().__init__()
        self.epochs = epochs
        self.decay_from = decay_from

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets both."""
        done = epoch / self.epochs
        left = min(1.0, (1.0 - done) / (1.0 - self.decay_from))
        self.model.optimizer.learning_rate.assign(1e-3 * left)
        weight = min(1.0, max(0.0, (done - 0.025) / 0.075))
        for layer in variational_layers(self.model):
            layer.kl_weight.assign(weight)


class Progress(keras.callbacks.Callback):
    """Prints the pruned network's error and size now and then."""

    def __init__(self, data: dict[str, Any], every: int) -> None:
        super().__init__()
        self.data = data
        self.every = every
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Prints a line every `every` epochs."""
        if (epoch + 1) % self.every:
            return
        seconds = time.perf_counter() - self.began
        now = assess(self.model, self.data)
        removed = ", ".join(f"{r:.1f}" for r in now["removed_percent"])
        print(
            f"epoch {epoch + 1}: loss {(logs or {}).get('loss'):.4f}, error "
            f"{now['error_percent']:.2f} %, removed {removed} %, "
            f"{now['compression']:.1f}x, {seconds:.0f} s",
            flush=True,
        )


def error_percent(model: Any, data: dict[str, Any]) -> float:
    """Returns the error on the test images, in per cent."""
    outputs = model.predict(data["x_test"], batch_size=1000, verbose=0)
    return float(100 * np.mean(outputs.argmax(-1) != data["y_test"]))


def assess(model: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Returns error and size of the network without noisy weights.

    The means of weights with log alpha above the threshold are set to zero
    for the test, and put back.
    """
    layers = variational_layers(model)
    means = [np.array(layer.mean_kernel()) for layer in layers]
    kept = [np.array(layer.log_alpha()) <= THRESHOLD for layer in layers]
    for layer, mean, keep in zip(layers, means, kept, strict=True):
        layer.kernel.assign(mean * keep)
    error = error_percent(model, data)
    for layer, mean in zip(layers, means, strict=True):
        layer.kernel.assign(mean)
    weights = sum(keep.size for keep in kept)
    left = sum(int(keep.sum()) for keep in kept)
    return {
        "error_percent": round(error, 3),
        "compression": round(weights / max(left, 1), 2),
        "removed_percent": [round(100 * (1 - k.mean()), 2) for k in kept],
        "kept_weights": left,
    }


def train(
    net: str, kl: str, data: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Trains one network, prunes it, and returns its errors and sizes."""
    keras.utils.set_random_seed(options.seed)
    examples, epochs = len(data["x_train"]), options.epochs
    steps = examples // BATCH
    train_threshold = None if options.free else THRESHOLD
    model = build(net, kl, examples, train_threshold, options.caffe)
    model.compile(
        keras.optimizers.Adam(1e-3, epsilon=1e-8 / examples),
        "sparse_categorical_crossentropy",
        steps_per_execution=steps // 6,
        jit_compile=COMPILED[net],
    )
    x, y = tf.constant(data["x_train"]), tf.constant(data["y_train"])
    batches = (
        tf.data.Dataset.range(examples)
        .shuffle(examples, seed=options.seed)
        .batch(BATCH, drop_remainder=True)
        .map(lambda rows: (tf.gather(x, rows), tf.gather(y, rows)))
        .prefetch(8)
    )
    callbacks = [
        Schedule(epochs, options.decay_from),
        Progress(data, max(1, epochs // 20)),
    ]
    if options.backup is not None:
        folder = options.backup / f"{net}-{kl}-{epochs}"
        callbacks.append(keras.callbacks.BackupAndRestore(str(folder)))
    began = time.perf_counter()
    history = model.fit(
        batches, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks
    )
    seconds = time.perf_counter() - began
    steps_here = steps * len(history.epoch)  # fewer, if the run was resumed

    thresholded = assess(model, data)
    small = sparsity.prune(model, THRESHOLD)
    error = error_percent(small, data)
    # The plain network is the thresholded mean network, weight for weight.
    assert abs(error - thresholded["error_percent"]) < 1e-3, error
    shrunk = sparsity.prune(model, THRESHOLD, structured=True)
    sampled = kbd.predict_with_uncertainty(
        model, data["x_test"], num_samples=20, seed=0, verbose=0
    )
    return {
        **thresholded,
        "pruned_error_percent": round(error, 3),
        "structured_error_percent": round(error_percent(shrunk, data), 3),
        "structured_parameters": int(shrunk.count_params()),
        "all_parameters": int(small.count_params()),
        "mean_network_error_percent": round(error_percent(model, data), 3),
        "sampled_error_percent": round(
            float(100 * np.mean(sampled.mean.argmax(-1) != data["y_test"])), 3
        ),
        "epochs": epochs,
        "train_threshold": train_threshold,
        "caffe": options.caffe,
        "decay_from": options.decay_from,
        "seed": options.seed,
        "milliseconds_per_step": round(1e3 * seconds / steps_here, 3),
    }


def cost(rounds: int, quick: bool) -> dict[str, Any]:
    """Times a training step of layers with noise beside the plain ones.

    The step is that of a layer in the middle of a network: forward, gradients
    of inputs and variables, and Adam.
    """
    width, batch, maps = (64, 8, 8) if quick else (1024, 128, 64)

    def dense(prior: str = "log_uniform", **settings: Any) -> Any:
        return kbd.layers.VariationalDense(
            width, 60_000, prior=prior, **settings
        )

    def conv(prior: str = "log_uniform", **settings: Any) -> Any:
        return kbd.layers.VariationalConv2D(
            maps, 3, 60_000, prior=prior, padding="same", **settings
        )

    kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
        f"Dense {width} x {width}, batch {batch}": (dense, (batch, width)),
        f"Conv2D 3 x 3 x {maps} x {maps}, batch 32 of 16 x 16": (
            conv,
            (32, 16, 16, maps),
        ),
    }
    results: dict[str, Any] = {}
    for what, (make, shape) in kinds.items():
        layers = {
            "plain": make().plain_layer(),
            "exact": make(),
            "molchanov": make(kl="molchanov"),
            "exact, log alpha clipped": make(log_alpha_limit=8.0),
            "gaussian prior": make(prior="gaussian"),
            "multiplicative": make(parametrization="multiplicative"),
            "correlated": make(parametrization="correlated"),
        }
        steps = {
            name: training_step(layer, shape) for name, layer in layers.items()
        }
        seconds = harness.time_in_turn(steps, rounds)
        plain = seconds["plain"]["median"]
        ratios = {
            name: round(each["median"] / plain, 2)
            for name, each in seconds.items()
        }
        results[what] = {"seconds": seconds, "over_plain": ratios}
        print(f"{what}: plain {1e3 * plain:.2f} ms, over plain {ratios}")
    return results


def save(path: pathlib.Path, keys: list[str], result: Any) -> None:
    """Puts one result into the file, and leaves the others as they are."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content["machine"] = harness.machine()
    place = content
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = result
    path.write_text(json.dumps(content, indent=2) + "\n")


def show(net: str, results: dict[str, Any]) -> None:
    """Prints the results of a network as a table."""
    print(f"\n{net:24s} error %   weights   removed % per layer")
    for name, row in {"published": PUBLISHED[net], **results}.items():
        removed = " - ".join(f"{r:g}" for r in row["removed_percent"])
        print(
            f"{name:24s} {row['error_percent']:7.2f} {row['compression']:8.1f}x"
            f"   {removed}"
        )


def main() -> None:
    """Runs the benchmark that the options choose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the files of MNIST")
    parser.add_argument("--net", choices=PUBLISHED, default="lenet-300-100")
    parser.add_argument("--kl", nargs="+", default=["exact", "molchanov"])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument(
        "--decay-from",
        type=float,
        default=0.0,
        help="share of the epochs from which on the learning rate falls",
    )
    parser.add_argument(
        "--free",
        action="store_true",
        help="train the means of weights above the threshold, too",
    )
    parser.add_argument(
        "--caffe",
        action="store_true",
        help="no activation behind convolutions",
    )
    parser.add_argument(
        "--backup",
        type=pathlib.Path,
        help="folder from which an interrupted run goes on",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=harness.RESULTS / "sparse_vd.json",
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", kbd.errors.BayesdropWarning)
    if options.cost:
        costs = cost(1 if options.quick else options.rounds, options.quick)
        if not options.quick:
            save(options.out, ["cost"], costs)
        return
    if options.data is None:
        parser.error("--data is needed")
    data = load_mnist(options.data)
    if options.quick:
        options.epochs = 2
        data = {name: values[:2000] for name, values in data.items()}
    results = {}
    for kl in options.kl:
        name = f"{kl}, free" if options.free else kl
        results[name] = train(options.net, kl, data, options)
        print(name, json.dumps(results[name]), flush=True)
        if not options.quick:
            save(options.out, [options.net, name], results[name])
    if not options.quick:
        save(options.out, [options.net, "published"], PUBLISHED[options.net])
    show(options.net, results)


if __name__ == "__main__":
    main()
