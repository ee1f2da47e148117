# SPDX-License-Identifier: Apache-2.0
"""Keras noise layers and their distributions."""

import keras
import numpy as np
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.noise import AdditiveGaussian
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from tests import zoo
from tests.helpers import TestCase

layers = keras.layers


class NoiseOfTest(TestCase):
    @parameterized.parameters(
        (layers.Dropout(0.3), Bernoulli(0.3), None),
        (
            layers.Dropout(0.3, noise_shape=(None, 1, 2)),
            Bernoulli(0.3),
            (None, 1, 2),
        ),
        (layers.SpatialDropout1D(0.3), Bernoulli(0.3), (None, 1, None)),
        (layers.SpatialDropout2D(0.3), Bernoulli(0.3), (None, 1, 1, None)),
        (
            layers.SpatialDropout2D(0.3, data_format="channels_first"),
            Bernoulli(0.3),
            (None, None, 1, 1),
        ),
        (
            layers.SpatialDropout3D(0.3, data_format="channels_first"),
            Bernoulli(0.3),
            (None, None, 1, 1, 1),
        ),
        (layers.GaussianDropout(0.3), Gaussian(0.3), None),
        (layers.AlphaDropout(0.3), Alpha(0.3), None),
        (layers.GaussianNoise(0.3), AdditiveGaussian(0.3), None),
        (kbd.MCDropout(0.3), Bernoulli(0.3), None),
        (kbd.MCDropout(0.3, noise="gaussian"), Gaussian(0.3), None),
        (kbd.MCSpatialDropout1D(0.3), Bernoulli(0.3), (None, 1, None)),
        (kbd.MCGaussianDropout(0.3), Gaussian(0.3), None),
        (kbd.MCAlphaDropout(0.3), Alpha(0.3), None),
    )
    def test_noise(self, layer, noise, noise_shape):
        self.assertEqual(noise_of(layer), (noise, noise_shape))

    @parameterized.parameters(
        layers.Dense(2),
        layers.LSTM(2, dropout=0.5),
        layers.RandomFlip(),
        layers.BatchNormalization(),
    )
    def test_no_noise(self, layer):
        self.assertIsNone(noise_of(layer))

    def test_subclass_that_only_changes_its_arguments(self):
        class Half(layers.Dropout):
            def __init__(self, **kwargs):
                super().__init__(0.5, **kwargs)

        self.assertEqual(noise_of(Half()), (Bernoulli(0.5), None))

    def test_subclass_that_does_more_than_drop(self):
        """Code of a layer besides its noise must not get lost."""

        class Doubles(layers.Dropout):
            def call(self, x, training=None):
                return 2 * super().call(x, training=training)

        model = keras.Sequential([keras.Input((4,)), Doubles(0.5)])
        x = zoo.numbers(4)
        self.assertAllEqual(kbd.deterministic(model)(x), 2 * x)
        # Reached or reported, but neither silently wrong.
        if kbd.inspect(model).unreachable:
            return
        p = kbd.predict_with_uncertainty(
            model, x, 16, seed=0, return_samples=True, verbose=0
        )
        self.assertAllEqual(np.unique(p.samples / x), [0.0, 4.0])

    def test_subclass_with_noise_of_another_shape(self):
        """`FixedDropout` of the EfficientNet ports, one mask per feature."""

        class PerFeature(layers.Dropout):
            def call(self, x, training=None):
                if not training:
                    return x
                return keras.random.dropout(
                    x,
                    self.rate,
                    noise_shape=(keras.ops.shape(x)[0], 1, x.shape[2]),
                    seed=self.seed_generator,
                )

        model = keras.Sequential([keras.Input((6, 4)), PerFeature(0.5)])
        x = np.ones((2, 6, 4), "float32")
        if kbd.inspect(model).unreachable:
            return
        p = kbd.predict_with_uncertainty(
            model, x, 8, seed=0, return_samples=True, verbose=0
        )
        self.assertAllEqual(p.samples, p.samples[:, :, :1] * np.ones((6, 1)))
