# SPDX-License-Identifier: Apache-2.0
"""Models, layers and losses for the tests of detected heads."""

import keras
import numpy as np

import keras_bayesdrop as kbd

layers = keras.layers
losses = keras.losses

ROWS = 6
SPARSE = "sparse_categorical_crossentropy"


def sequence(*parts, loss=None, shape=(4,)):
    """A compiled Sequential model with dropout before its parts."""
    model = keras.Sequential([keras.Input(shape), layers.Dropout(0.5), *parts])
    if loss is not None:
        model.compile("sgd", loss)
    return model


def images(*parts, **kwargs):
    """A model of small images with three channels."""
    return sequence(*parts, shape=(4, 4, 3), **kwargs)


def steps(*parts, **kwargs):
    """A model of sequences."""
    return sequence(*parts, shape=(5, 4), **kwargs)


def functional(function, loss=None, shape=(4,)):
    """A model that ends with a function of a hidden layer."""
    inputs = keras.Input(shape)
    hidden = layers.Dense(3)(layers.Dropout(0.5)(inputs))
    model = keras.Model(inputs, function(hidden))
    if loss is not None:
        model.compile("sgd", loss)
    return model


def inputs_of(model):
    shape = (ROWS, 4)
    if not isinstance(model, Own):
        shape = (ROWS, *model.input_shape[1:])
    return np.random.default_rng(3).normal(size=shape).astype("float32")


def dense(units=3, activation="softmax", **kwargs):
    return layers.Dense(units, activation=activation, **kwargs)


def concrete(layer):
    return kbd.layers.ConcreteDropout(layer, num_train_examples=10)


@keras.saving.register_keras_serializable("tests")
class Own(keras.Model):
    """A model with its own `call`."""

    def __init__(self, activation="softmax", units=3, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)
        self.dense = layers.Dense(units, activation=activation)
        self.settings = {"activation": activation, "units": units}

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.built = True

    def call(self, inputs):
        return self.dense(self.drop(inputs))

    def get_config(self):
        return self.settings


def own(*args, loss=None, **kwargs):
    model = Own(*args, **kwargs)
    model(np.zeros((1, 4), "float32"))
    if loss is not None:
        model.compile("sgd", loss)
    return model


class Wrapping(layers.Wrapper):
    """A wrapper of somebody else, which may change what it wraps."""

    def __init__(self, layer, factor=1.0, **kwargs):
        super().__init__(layer, **kwargs)
        self.factor = factor

    def call(self, inputs):
        return self.factor * self.layer(inputs)

    def compute_output_shape(self, input_shape):
        return self.layer.compute_output_shape(input_shape)


def averaged(x):
    """The mean of two distributions."""
    return layers.Average()([dense()(x), dense()(x)])


def joined(axis, activation):
    def function(x):
        parts = [
            layers.Reshape((1, 3))(dense(activation=activation)(x))
            for _ in range(2)
        ]
        return layers.Concatenate(axis=axis)(parts)

    return function


def own_activation(x):
    return keras.ops.softmax(x)


class OwnCrossentropy(losses.SparseCategoricalCrossentropy):
    """A loss that inherits from Keras'."""


def own_loss(y_true, y_pred):
    return keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)


class WrappedFunction(losses.Loss):
    """Calls a function, as Keras' own wrapper does."""

    def __init__(self, fn, **kwargs):
        super().__init__()
        self.fn = fn
        self._fn_kwargs = kwargs

    def call(self, y_true, y_pred):
        return self.fn(y_true, y_pred, **self._fn_kwargs)
