# SPDX-License-Identifier: Apache-2.0
"""Noise out of reach: reported where it is, and nowhere else."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized
from keras.random import dropout as imported_dropout

import keras_bayesdrop as kbd
from keras_bayesdrop.sites import hidden_noise
from tests import zoo
from tests.helpers import TestCase

layers = keras.layers


class CallsRandom(layers.Layer):
    def call(self, x, training=None):
        return keras.random.dropout(x, 0.5) if training else x


class CallsImported(layers.Layer):
    def call(self, x, training=None):
        return imported_dropout(x, 0.5) if training else x


class CallsTensorFlow(layers.Layer):
    def call(self, x, training=None):
        return tf.nn.dropout(x, 0.5) if training else x


class CallsNormal(layers.Layer):
    def call(self, x, training=None):
        return x + keras.random.normal(keras.ops.shape(x)) if training else x


class CallsTensorFlowNormal(layers.Layer):
    def call(self, x, training=None):
        return x + tf.random.normal(tf.shape(x)) if training else x


class CallsMethod(layers.Layer):
    def call(self, x, training=None):
        return self.disturb(x) if training else x

    def disturb(self, x):
        return keras.random.dropout(x, 0.5)


class CallsInner(layers.Layer):
    def call(self, x, training=None):
        def disturb(x):
            return keras.random.dropout(x, 0.5)

        return disturb(x) if training else x


class CallsParent(CallsRandom):
    def call(self, x, training=None):
        return super().call(x, training=training) * 2


def disturb(x):
    return keras.random.dropout(x, 0.5)


class CallsHelper(layers.Layer):
    def call(self, x, training=None):
        return disturb(x) if training else x


class OwnCell(layers.LSTMCell):
    """A cell of the user's, with the dropout of Keras."""


class OwnDropoutNumber(layers.Layer):
    def __init__(self, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.drop = layers.Dropout(dropout)

    def call(self, x, training=None):
        if self.dropout > 0:
            x = self.drop(x, training=training)
        return x


class UsesTensorFlowOps(layers.Layer):
    """Everyday code: a Dropout called `dropout`, and `tf.nn`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dropout = layers.Dropout(0.5)

    def call(self, x, training=None):
        return self.dropout(tf.nn.relu(x), training=training)


class OwnRandomNumber(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.random = 2.0

    def call(self, x):
        return x * self.random


def model_with(layer, shape=(4,)):
    return keras.Sequential([keras.Input(shape), layer, layers.Dropout(0.1)])


class HiddenNoiseTest(TestCase):
    @parameterized.parameters(
        CallsRandom,
        CallsImported,
        CallsTensorFlow,
        CallsNormal,
        CallsTensorFlowNormal,
        CallsMethod,
        CallsInner,
        CallsParent,
        CallsHelper,
    )
    def test_is_reported(self, kind):
        model = model_with(kind(name="culprit"))
        ((path, why),) = kbd.inspect(model, verbose=False).unreachable
        self.assertEqual(path, "culprit")
        self.assertIn(kind.__name__, why)
        with pytest.warns(kbd.BayesdropWarning, match="culprit"):
            kbd.predict_with_uncertainty(
                model, zoo.numbers(4), 2, seed=0, verbose=0
            )

    def test_in_a_lambda_is_reported(self):
        model = model_with(
            layers.Lambda(lambda x: keras.random.dropout(x, 0.5), name="it")
        )
        ((path, _),) = kbd.inspect(model, verbose=False).unreachable
        self.assertEqual(path, "it")

    def test_in_a_nested_model_is_reported_with_its_path(self):
        inner = keras.Sequential(
            [keras.Input((4,)), CallsRandom(name="culprit")], name="inner"
        )
        self.assertEqual(
            [path for path, _ in hidden_noise(model_with(inner), "")],
            ["inner/culprit"],
        )

    def test_in_a_cell_of_the_user_is_reached_or_reported(self):
        model = model_with(layers.RNN(OwnCell(3, dropout=0.5)), (3, 4))
        report = kbd.inspect(model, verbose=False)
        self.assertEqual(len(report.stochastic) + len(report.unreachable), 2)

    @parameterized.parameters(
        lambda: zoo.Block(4),
        OwnDropoutNumber,
        UsesTensorFlowOps,
        OwnRandomNumber,
        lambda: layers.MultiHeadAttention(1, 2, dropout=0.5),
        lambda: kbd.MCDropout(0.5),
    )
    def test_no_false_alarm(self, make):
        layer = make()
        if isinstance(layer, layers.MultiHeadAttention):
            layer(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
            self.assertEqual(hidden_noise(layer, ""), [])
            return
        model = model_with(layer)
        self.assertEqual(kbd.inspect(model, verbose=False).unreachable, ())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kbd.predict_with_uncertainty(
                model, zoo.numbers(4), 2, seed=0, verbose=0
            )

    @parameterized.parameters(*sorted(zoo.ZOO))
    def test_no_false_alarm_in_the_zoo(self, name):
        model, _ = zoo.ZOO[name].build()
        self.assertEqual(kbd.inspect(model, verbose=False).unreachable, ())

    def test_alone_leaves_nothing_to_sample(self):
        model = keras.Sequential([keras.Input((4,)), CallsRandom(name="it")])
        with self.assertRaisesRegex(kbd.BayesdropError, "it.*CallsRandom"):
            kbd.predict_with_uncertainty(model, zoo.numbers(4), verbose=0)

    def test_noise_that_is_always_on_is_not_called_off(self):
        """The warning must not say that noise is off which is on."""

        class Always(layers.Layer):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.generator = keras.random.SeedGenerator(1)

            def call(self, x):
                return keras.random.dropout(x, 0.5, seed=self.generator)

        model = model_with(Always(), (50,))
        x = np.ones((4, 50), "float32")
        with pytest.warns(kbd.BayesdropWarning) as caught:
            p = kbd.predict_with_uncertainty(
                model, x, 8, seed=0, return_samples=True, verbose=0
            )
        dropped = np.mean(p.samples == 0)
        # Rate 0.1 alone: 4 standard errors of 1600 units are 0.03.
        off = dropped < 0.13
        says_off = "stays off" in str(caught[0].message)
        self.assertEqual(off, says_off)
