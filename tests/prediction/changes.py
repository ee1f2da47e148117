# SPDX-License-Identifier: Apache-2.0
"""Changes of a model that must count at its next prediction."""

import keras
import numpy as np

import keras_bayesdrop as kbd
from tests.helpers import flat

layers = keras.layers

X = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")


class Settings:
    """Not a layer."""

    def __init__(self):
        self.shift = 0.5


class Own(layers.Layer):
    """Reads attributes of every kind."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gain = 1.5
        self.function = keras.ops.tanh
        self.shifts = [0.25, 0.5]
        self.options = {"power": 1.0}
        self.settings = Settings()
        self.table = np.linspace(0.5, 1.0, 6).astype("float32")
        self._private = 1.0

    def call(self, x):
        y = self.function(x * self.gain * self.options["power"])
        y = y + sum(self.shifts) + self.settings.shift
        return y * self.table * self._private


def make(where):
    """Returns a model with layers of many kinds between its noise."""
    keras.utils.set_random_seed(3)

    def middle():
        return [
            layers.Dense(6, activation=lambda x: keras.ops.maximum(x, -1.0)),
            layers.BatchNormalization(name=f"norm_{where}"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Rescaling(1.5),
            Own(name="own"),
        ]

    behind = middle() if where == "behind" else []
    before = middle() if where == "before" else []
    model = keras.Sequential(
        [
            keras.Input((6,)),
            *before,
            layers.Dropout(0.5, name="drop"),
            layers.Dense(6, activation="relu", name="hidden"),
            *behind,
            layers.Dropout(0.5),
            layers.Dense(2, bias_initializer="ones"),
        ]
    )
    rng = np.random.default_rng(1)
    model.set_weights([w + 0.1 * rng.random(w.shape) for w in model.weights])
    return model


def find(model, kind):
    return next(la for la in model.layers if isinstance(la, kind))


CHANGES = {
    "rate": lambda m: setattr(find(m, layers.Dropout), "rate", 0.25),
    "negative_slope": lambda m: setattr(
        find(m, layers.LeakyReLU), "negative_slope", 0.7
    ),
    "epsilon": lambda m: setattr(
        find(m, layers.BatchNormalization), "epsilon", 0.5
    ),
    "scale": lambda m: setattr(find(m, layers.Rescaling), "scale", 0.5),
    "activation": lambda m: setattr(
        find(m, layers.Dense), "activation", keras.ops.sin
    ),
    "lambda": lambda m: setattr(
        find(m, layers.Dense), "activation", lambda x: keras.ops.maximum(x, 0.3)
    ),
    "gain": lambda m: setattr(m.get_layer("own"), "gain", 3.0),
    "int_for_float": lambda m: setattr(m.get_layer("own"), "gain", 1),
    "function": lambda m: setattr(
        m.get_layer("own"), "function", keras.ops.sigmoid
    ),
    "list": lambda m: m.get_layer("own").shifts.append(2.0),
    "dict": lambda m: m.get_layer("own").options.update({"power": 0.5}),
    "helper": lambda m: setattr(m.get_layer("own").settings, "shift", -0.5),
    "array": lambda m: m.get_layer("own").table.__setitem__(2, 7.0),
    "call": lambda m: setattr(m.get_layer("own"), "call", lambda x: x * 2.0),
}


def samples(model, x=X, **kwargs):
    settings = {"num_samples": 8, "seed": 1, "verbose": 0, **kwargs}
    p = kbd.predict_with_uncertainty(model, x, **flat(**settings))
    return np.stack([p.mean, p.variance])
