# SPDX-License-Identifier: Apache-2.0
"""Trained networks on which draws and methods are compared.

They learn data of scikit-learn or generated data, so they need no download.
Each takes seconds.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

layers = keras.layers
Array = npt.NDArray[np.float32]

CLASSES = 10
# Steps of a generated series, and of the past that a network sees.
SERIES, PAST = 900, 12


@dataclasses.dataclass(frozen=True)
class Data:
    """Examples to learn, and rows that the network has not seen.

    Attributes:
        x: Inputs to learn from.
        y: Targets: numbers `[rows]`, or classes.
        unseen: Inputs to predict.
    """

    x: Any
    y: Any
    unseen: Any

    @property
    def has_classes(self) -> bool:
        """True if the targets are classes."""
        return bool(np.issubdtype(self.y.dtype, np.integer))


@dataclasses.dataclass(frozen=True)
class Network:
    """One network of the comparison.

    Attributes:
        kind: Group in the picture.
        what: Description for tables.
        rate: Largest rate of its noise.
        data: Returns its data.
        build: Returns the output, given the input and its number of units.
        epochs: Number of passes over the data.
    """

    kind: str
    what: str
    rate: float
    data: Callable[[], Data]
    build: Callable[[Any, int], Any]
    epochs: int

    def trained(self, rows: int, quick: bool = False) -> tuple[Any, Array]:
        """Returns the trained model and the rows to predict.

        Args:
            rows: Number of rows.
            quick: Whether to train for one epoch only.
        """
        keras.utils.set_random_seed(0)
        data = self.data()
        inputs = keras.Input(data.x.shape[1:])
        outputs = self.build(inputs, CLASSES if data.has_classes else 1)
        if data.has_classes:
            outputs = layers.Softmax()(outputs)
        model = keras.Model(inputs, outputs)
        loss = "sparse_categorical_crossentropy" if data.has_classes else "mse"
        model.compile("adam", loss)
        epochs = 1 if quick else self.epochs
        model.fit(data.x, data.y, epochs=epochs, verbose=0)
        return model, data.unseen[:rows]


def diabetes() -> Data:
    """Progression of diabetes, standardised."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    x, y = ((each - each.mean(0)) / each.std(0) for each in (x, y))
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Data(x[:380], y[:380], x[380:])


def digits() -> Data:
    """Handwritten digits, 8 x 8 numbers between 0 and 1 in a row."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return Data(x[:1400], y[:1400], x[1400:])


def images() -> Data:
    """Handwritten digits as images `[8, 8, 1]`."""
    data = digits()
    x, unseen = (each.reshape(-1, 8, 8, 1) for each in (data.x, data.unseen))
    return Data(x, data.y, unseen)


def lines() -> Data:
    """Handwritten digits as sequences of 8 lines."""
    data = digits()
    x, unseen = (each.reshape(-1, 8, 8) for each in (data.x, data.unseen))
    return Data(x, data.y, unseen)


def series() -> Data:
    """The next value of two waves and noise, from the last ones."""
    time = np.arange(SERIES)
    noise = np.random.default_rng(0).normal(size=SERIES)
    values = np.sin(0.3 * time) + np.sin(0.071 * time) + 0.2 * noise
    values = values.astype(np.float32)
    past = np.lib.stride_tricks.sliding_window_view(values, PAST)[:-1]
    x, y = past[..., np.newaxis], values[PAST:]
    return Data(x[:700], y[:700], x[700::5])


def dense(
    widths: Sequence[int],
    rate: float,
    activation: str = "relu",
    noise: Callable[[float], Any] = layers.Dropout,
    noisy_inputs: bool = False,
) -> Callable[[Any, int], Any]:
    """Returns a builder of dense layers, each with noise behind it."""

    def build(x: Any, outputs: int) -> Any:
        x = noise(rate)(x) if noisy_inputs else x
        for width in widths:
            x = noise(rate)(layers.Dense(width, activation=activation)(x))
        return layers.Dense(outputs)(x)

    return build


def convolutions(noise: Callable[[float], Any]) -> Callable[[Any, int], Any]:
    """Returns a builder of two convolutions, each with noise behind it."""

    def build(x: Any, outputs: int) -> Any:
        for filters in (8, 16):
            x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
            x = noise(0.2)(layers.MaxPooling2D(2)(x))
        x = layers.Dense(64, activation="relu")(layers.Flatten()(x))
        return layers.Dense(outputs)(layers.Dropout(0.3)(x))

    return build


def recurrent(x: Any, outputs: int) -> Any:
    """An LSTM that drops inputs and states, and dropout behind it."""
    x = layers.LSTM(24, dropout=0.1, recurrent_dropout=0.2)(x)
    return layers.Dense(outputs)(layers.Dropout(0.2)(x))


def attention(x: Any, outputs: int) -> Any:
    """An encoder with one block of attention."""
    x = layers.Dense(32)(x)
    attended = layers.MultiHeadAttention(4, 8, dropout=0.1)(x, x)
    x = layers.LayerNormalization()(x + layers.Dropout(0.1)(attended))
    hidden = layers.Dense(64, activation="relu")(x)
    hidden = layers.Dropout(0.1)(layers.Dense(32)(hidden))
    x = layers.LayerNormalization()(x + hidden)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling1D()(x))
    return layers.Dense(outputs)(x)


def _digits_network(hidden: int, rate: float) -> Network:
    """A classifier of digits with `hidden` dense layers of 128 units."""
    widths = (128,) * hidden
    return Network(
        "dense, classes",
        f"digits 64-{'128-' * hidden}10, rate {rate}",
        rate,
        digits,
        dense(widths, rate),
        10 if hidden < 4 else 20,
    )


def _diabetes_network(
    rate: float, activation: str = "relu", what: str = ""
) -> Network:
    """A regression with two hidden layers of 64 units."""
    return Network(
        "dense, regression",
        f"diabetes 10-64-64-1, {what}rate {rate}",
        rate,
        diabetes,
        dense((64, 64), rate, activation),
        40,
    )


NETWORKS = {
    "diabetes_0.05": Network(
        "dense, regression",
        "diabetes 10-50-1, rate 0.05 of inputs and units",
        0.05,
        diabetes,
        dense((50,), 0.05, noisy_inputs=True),
        40,
    ),
    "diabetes_0.1": _diabetes_network(0.1),
    "diabetes_0.5": _diabetes_network(0.5),
    "diabetes_tanh": _diabetes_network(0.2, "tanh", "tanh, "),
    "gaussian": Network(
        "dense, regression",
        "diabetes 10-64-64-1, Gaussian dropout, rate 0.3",
        0.3,
        diabetes,
        dense((64, 64), 0.3, noise=layers.GaussianDropout),
        40,
    ),
    "digits_0.2": _digits_network(2, 0.2),
    "digits_0.5": _digits_network(2, 0.5),
    "digits_0.9": _digits_network(2, 0.9),
    "digits_four_0.2": _digits_network(4, 0.2),
    "digits_four_0.5": _digits_network(4, 0.5),
    "digits_five_0.2": _digits_network(5, 0.2),
    "digits_five_0.5": _digits_network(5, 0.5),
    "convolutions": Network(
        "convolutions, dropout",
        "digits, two convolutions and two dense layers, rates 0.2 and 0.3",
        0.3,
        images,
        convolutions(layers.Dropout),
        15,
    ),
    "convolutions_spatial": Network(
        "convolutions, spatial dropout",
        "the same with spatial dropout",
        0.3,
        images,
        convolutions(layers.SpatialDropout2D),
        15,
    ),
    "lstm": Network(
        "LSTM",
        "series of 12 steps, LSTM of 24 units, rates 0.1 and 0.2",
        0.2,
        series,
        recurrent,
        20,
    ),
    "attention": Network(
        "attention",
        "digits as 8 lines, one block of attention, rates 0.1 and 0.2",
        0.2,
        lines,
        attention,
        20,
    ),
}
