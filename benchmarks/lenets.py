# SPDX-License-Identifier: Apache-2.0
"""LeNets with noise on all kernels, and the images that train them."""

import gzip
import pathlib
from typing import Any

import keras
import numpy as np

import keras_bayesdrop as kbd


def load_mnist(folder: str) -> dict[str, Any]:
    """Returns images in [0, 1], [n, 28, 28, 1], and labels."""

    def read(name: str, skip: int) -> Any:
        path = pathlib.Path(folder) / name
        if not path.exists():
            raise SystemExit(f"`--data` lacks {name}, a file of MNIST.")
        return np.frombuffer(gzip.decompress(path.read_bytes())[skip:], "uint8")

    data = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = read(f"{prefix}-images-idx3-ubyte.gz", 16)
        data[f"x_{part}"] = images.reshape(-1, 28, 28, 1) / np.float32(255)
        labels = read(f"{prefix}-labels-idx1-ubyte.gz", 8)
        data[f"y_{part}"] = labels.astype("int32")
    return data


def build(
    net: str,
    kl: str,
    examples: int,
    train_threshold: float | None,
    caffe: bool = False,
) -> Any:
    """Returns LeNet-300-100 or LeNet-5 with noise on all kernels.

    Convolutions are those of the authors' code: with an activation, and from
    Glorot's weights. With `caffe` there is none, as in the original, and they
    begin like the rest.
    """
    layers = keras.layers
    settings: dict[str, Any] = {
        "num_train_examples": examples,
        "kernel_initializer": keras.initializers.RandomNormal(stddev=0.01),
        "prior": "log_uniform",
        "kl": kl,
        "train_threshold": train_threshold,
    }

    def dense(units: int, activation: str) -> Any:
        return kbd.layers.VariationalDense(
            units, activation=activation, **settings
        )

    def conv(filters: int) -> Any:
        own: dict[str, Any] = {
            "activation": "relu",
            "kernel_initializer": "glorot_uniform",
        }
        return kbd.layers.VariationalConv2D(
            filters, 5, **{**settings, **({} if caffe else own)}
        )

    stages = {
        "lenet-300-100": lambda: [
            layers.Flatten(),
            dense(300, "relu"),
            dense(100, "relu"),
            dense(10, "softmax"),
        ],
        "lenet-5": lambda: [
            conv(20),
            layers.MaxPooling2D(),
            conv(50),
            layers.MaxPooling2D(),
            layers.Flatten(),
            dense(500, "relu"),
            dense(10, "softmax"),
        ],
    }
    return keras.Sequential([keras.Input((28, 28, 1)), *stages[net]()])


def variational_layers(model: Any) -> list[Any]:
    """Returns the layers with noise on their kernel."""
    return [each for each in model.layers if hasattr(each, "kl_weight")]
