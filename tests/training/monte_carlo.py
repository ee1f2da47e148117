# SPDX-License-Identifier: Apache-2.0
"""Models, data and formulas for the tests of `MonteCarloModel`."""

import keras
import numpy as np
import scipy.special
import scipy.stats

layers = keras.layers
OBJECTIVES = ("lower_bound", "importance_weighted", "tail_adaptive")
X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = (X.sum(axis=-1, keepdims=True) + np.sin(X[:, :1])).astype("float32")
SAMPLES = 3
# Of `KnownNoise`, for each sample and unit.
FACTORS = np.random.default_rng(1).uniform(0, 2, (SAMPLES, 3))


def weights_of(logs, objective):
    """Equations 10, 16 and 17, written out for the last axis."""
    if objective == "lower_bound":
        return np.full(logs.shape, 1.0 / logs.shape[-1])
    if objective == "importance_weighted":
        return scipy.special.softmax(logs, axis=-1)
    weights = np.empty(logs.shape)
    for place in np.ndindex(*logs.shape[:-1]):
        gammas = [
            len(logs[place]) / sum(other >= mine for other in logs[place])
            for mine in logs[place]
        ]
        weights[place] = np.array(gammas) / sum(gammas)
    return weights


def value_of(logs, objective):
    if objective == "importance_weighted":
        return scipy.special.logsumexp(logs, axis=-1, b=1 / logs.shape[-1])
    return np.sum(weights_of(logs, objective) * logs, axis=-1)


class KnownNoise(layers.Layer):
    """Multiplies by factors that are known: one per unit and sample.

    Folded, a row is sample `row % samples`; one after another, a call is.
    """

    def __init__(self, factors, by_call=False):
        super().__init__()
        self.factors = keras.ops.convert_to_tensor(factors)
        self.by_call = by_call
        self.calls = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False
        )

    def call(self, inputs, training=None):
        if not training:
            return inputs
        samples = self.factors.shape[0]
        if self.by_call:
            self.calls.assign_add(1)
            return inputs * self.factors[(self.calls - 1) % samples]
        number = keras.ops.arange(keras.ops.shape(inputs)[0]) % samples
        return inputs * keras.ops.take(self.factors, number, axis=0)


def train(model, x, y, weight=None):
    """Takes one step. (Older Keras averages over calls until told not to.)"""
    model.reset_metrics()
    return model.train_on_batch(x, y, weight, return_dict=True)


def evaluate(model, x, y, weight=None):
    model.reset_metrics()
    return model.test_on_batch(x, y, weight, return_dict=True)


def dropout_net(rate=0.5, outputs=1, activation=None, kind=layers.Dropout):
    inputs = keras.Input((3,))
    x = layers.Dense(8, activation="tanh", kernel_regularizer="l2")(inputs)
    x = kind(rate, seed=3)(x)
    return inputs, layers.Dense(outputs, activation=activation)(x)
