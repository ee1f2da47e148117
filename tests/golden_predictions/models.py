# SPDX-License-Identifier: Apache-2.0
"""Small models whose weights and inputs are the same on every machine.

Weights come from no initialiser of Keras. They are uniform numbers of NumPy's
`RandomState`, whose stream never changes, times a square root, which IEEE 754
rounds correctly.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import keras_bayesdrop as kbd

layers = keras.layers

ROWS = 5
MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {}
MASK_MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {}


def entered(table: dict[str, Any]) -> Callable[..., Any]:
    """Enters a function into a table under its own name."""

    def enter(make: Any) -> Any:
        table[make.__name__] = make
        return make

    return enter


def numbers(*shape: int, rows: int = ROWS, seed: int = 1) -> Any:
    """Returns float32 inputs [rows, ...] in [-1.5, 1.5]."""
    x = np.random.RandomState(seed).uniform(-1.5, 1.5, (rows, *shape))
    return x.astype("float32")


def filled(model: Any, seed: int = 7) -> Any:
    """Gives all weights of a built model fixed values, and returns it."""
    rng = np.random.RandomState(seed)
    for weight in model.weights:
        weight.assign(_values(weight.name, tuple(weight.shape), rng))
    return model


def _values(name: str, shape: tuple[int, ...], rng: Any) -> Any:
    """Returns the values of a weight, in a range that suits its name."""
    low, high = -0.5, 0.5
    if name in ("gamma", "moving_variance"):
        low, high = 0.5, 1.5
    elif name in ("log_variance", "log_alpha"):
        low, high = -3.0, -1.0
    elif name == "logit":  # of a drop rate
        low, high = -1.0, -0.5
    elif name == "kl_weight":  # of a loss, which no prediction sees
        low, high = 1.0, 1.0
    elif len(shape) > 1:  # of variance 1 / fan_in
        high = math.sqrt(3.0 / math.prod(shape[:-1]))
        low = -high
    elif name not in ("bias", "beta", "moving_mean"):
        raise ValueError(
            f"Cannot fill weight `{name}`. Expected a weight that `_values` "
            f"knows. Received: shape {shape}"
        )
    return rng.uniform(low, high, shape).astype("float32")


# Models with weights.


@entered(MODELS)
def dense_relu():
    """A regression with two noise sites."""
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                layers.Dense(8, activation="relu"),
                layers.Dropout(0.3, name="first"),
                layers.Dense(6, activation="relu"),
                layers.Dropout(0.5, name="second"),
                layers.Dense(2),
            ]
        )
    ), numbers(4)


@entered(MODELS)
def dense_softmax():
    """A classification with noise on the inputs."""
    return filled(
        keras.Sequential(
            [
                keras.Input((5,)),
                layers.Dropout(0.2),
                layers.Dense(7, activation="tanh"),
                layers.Dropout(0.4),
                layers.Dense(3, activation="softmax"),
            ]
        )
    ), numbers(5, rows=6)


@entered(MODELS)
def binary_sigmoid():
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                layers.Dense(6, activation="relu"),
                layers.Dropout(0.5),
                layers.Dense(1, activation="sigmoid"),
            ]
        )
    ), numbers(4, rows=7)


@entered(MODELS)
def compiled_logits():
    """The loss says that the outputs are logits of classes."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.1),
            layers.Dense(6, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return filled(model), numbers(4)


@entered(MODELS)
def conv_net():
    inputs = keras.Input((6, 6, 2))
    x = layers.Conv2D(3, 3, padding="same", use_bias=False)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.SpatialDropout2D(0.3)(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(4, 2)(x)
    x = layers.BatchNormalization()(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.5)(x)
    outputs = layers.Dense(3, activation="softmax")(x)
    return filled(keras.Model(inputs, outputs)), numbers(6, 6, 2)


@entered(MODELS)
def lstm():
    return filled(
        keras.Sequential(
            [
                keras.Input((4, 3)),
                layers.LSTM(3, dropout=0.3, recurrent_dropout=0.4),
                layers.Dense(2),
            ]
        )
    ), numbers(4, 3)


@entered(MODELS)
def attention():
    inputs = keras.Input((3, 4))
    x = layers.MultiHeadAttention(2, 3, dropout=0.4)(inputs, inputs)
    x = layers.LayerNormalization()(x + inputs)
    x = layers.GlobalAveragePooling1D()(layers.Dropout(0.2)(x))
    return filled(keras.Model(inputs, layers.Dense(2)(x))), numbers(3, 4)


@entered(MODELS)
def dict_outputs():
    """Two heads of different tasks; the names are not in graph order."""
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(layers.Dense(6, activation="tanh")(inputs))
    outputs = {
        "value": layers.Dense(2)(x),
        "label": layers.Dense(3, activation="softmax")(layers.Dropout(0.3)(x)),
    }
    return filled(keras.Model(inputs, outputs)), numbers(4)


@entered(MODELS)
def gaussian_and_alpha():
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                kbd.MCGaussianDropout(0.2),
                layers.Dense(6, activation="selu"),
                kbd.MCAlphaDropout(0.3),
                layers.Dense(2),
            ]
        )
    ), numbers(4)


@entered(MODELS)
def concrete():
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                kbd.ConcreteDropout(layers.Dense(6, activation="relu"), 100),
                kbd.ConcreteDropout(layers.Dense(2), 100),
            ]
        )
    ), numbers(4)


@entered(MODELS)
def variational():
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                kbd.layers.VariationalDense(
                    6, 100, prior="gaussian", activation="relu"
                ),
                kbd.layers.VariationalDense(2, 100, prior="gaussian"),
            ]
        )
    ), numbers(4)


@entered(MODELS)
def bayesian():
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                kbd.layers.BayesianDense(6, 100, activation="relu"),
                kbd.layers.BayesianDense(2, 100),
            ]
        ),
        seed=8,
    ), numbers(4)


@entered(MODELS)
def nested():
    """A model that is called twice inside another."""
    inner = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, activation="tanh"),
            layers.Dropout(0.3),
        ]
    )
    inputs = keras.Input((4,))
    x = inner(layers.Dropout(0.2)(inner(inputs)))
    return filled(keras.Model(inputs, layers.Dense(2)(x))), numbers(4)


class Subclassed(keras.Model):
    """Has a `call` of its own, and calls one Dropout twice."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = layers.Dense(6, activation="tanh")
        self.drop = layers.Dropout(0.4)
        self.middle = layers.Dense(6, activation="relu")
        self.head = layers.Dense(2)

    def call(self, x, training=None):
        x = self.drop(self.hidden(x), training=training)
        return self.head(self.drop(self.middle(x), training=training))


@entered(MODELS)
def subclassed():
    model, x = Subclassed(), numbers(4)
    model(x)
    return filled(model), x


class OwnDropout(layers.Layer):
    """Draws its mask by `keras.random.dropout`."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator(0)

    def call(self, x, training=None):
        if training:
            return keras.random.dropout(x, self.rate, seed=self.seed_generator)
        return x


@entered(MODELS)
def own_layer():
    return filled(
        keras.Sequential(
            [
                keras.Input((4,)),
                layers.Dense(6, activation="relu"),
                OwnDropout(0.4),
                layers.Dense(2),
            ]
        )
    ), numbers(4)


# Models whose outputs are the masks themselves: the inputs are ones.


def _alone(layer: Any, *shape: int) -> tuple[Any, Any]:
    x = np.ones((ROWS, *shape), "float32")
    return keras.Sequential([keras.Input(shape), layer]), x


@entered(MASK_MODELS)
def dropout():
    return _alone(layers.Dropout(0.3), 6)


@entered(MASK_MODELS)
def spatial_dropout():
    return _alone(layers.SpatialDropout2D(0.3), 2, 2, 5)


@entered(MASK_MODELS)
def gaussian_dropout():
    return _alone(layers.GaussianDropout(0.3), 6)


@entered(MASK_MODELS)
def own_dropout():
    return _alone(OwnDropout(0.3), 6)


@entered(MASK_MODELS)
def two_sites():
    """Each of two sites has an output of its own."""
    inputs = keras.Input((6,))
    outputs = [layers.Dropout(0.3)(inputs), layers.Dropout(0.6)(inputs)]
    return keras.Model(inputs, outputs), np.ones((ROWS, 6), "float32")


def _identity(units: int) -> Any:
    """Returns a Dense layer that returns its input, to the last bit."""
    return layers.Dense(
        units, use_bias=False, kernel_initializer=keras.initializers.Identity()
    )


@entered(MASK_MODELS)
def dropout_in_a_chain():
    """Two sites in a chain, which the fused engine takes."""
    inputs = keras.Input((6,))
    x = _identity(6)(layers.Dropout(0.3)(inputs))
    x = _identity(6)(layers.Dropout(0.6)(x))
    return keras.Model(inputs, x), np.ones((ROWS, 6), "float32")


@entered(MASK_MODELS)
def gaussian_dropout_in_a_chain():
    inputs = keras.Input((6,))
    x = _identity(6)(layers.GaussianDropout(0.3)(inputs))
    return keras.Model(inputs, x), np.ones((ROWS, 6), "float32")
