# SPDX-License-Identifier: Apache-2.0
"""Noise on weights: one draw is one function, whatever the batches."""

import weakref

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.random.philox import words_to_normal
from tests.helpers import flat
from tests.random.test_rng import philox_words

SEED = 8


class NoisyDense(keras.layers.Layer, WeightNoiseSource):
    """A matmul with the kernel W (1 + e / 2)."""

    def __init__(self, units, by_rows=False):
        super().__init__()
        self.units = units
        self.by_rows = by_rows

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units))

    def call(self, inputs):
        return keras.ops.matmul(inputs, self.kernel)

    def noise_site(self):
        return WeightNoise(weakref.ref(self), "half"), None

    @property
    def weight_units(self):
        return int(np.prod(self.kernel.shape))

    def call_expected(self, x):
        return tf.matmul(x, self.kernel)

    def call_sampled(self, x, words):
        draw = tf.reshape(words_to_normal(words, x.dtype), self.kernel.shape)
        kernel = tf.convert_to_tensor(self.kernel) * (1 + draw / 2)
        return tf.tensordot(x, kernel, 1)

    def row_units(self, x):
        return self.units if self.by_rows and x.shape.rank == 2 else None

    def call_rows(self, x, words):
        kernel = tf.convert_to_tensor(self.kernel)
        variance = tf.tensordot(x**2, kernel**2 / 4, 1)
        draw = words_to_normal(words, x.dtype)
        return tf.tensordot(x, kernel, 1) + tf.sqrt(variance) * draw


def _samples(model, x, num_samples, **kwargs):
    settings = {"seed": SEED, "verbose": 0, "return_samples": True}
    settings = {**settings, "draws": "independent", **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    ).samples


def _normals(site, samples, rows, units):
    words = philox_words(SEED, site, samples, rows, units)
    return scipy.special.ndtri((words.astype(np.float64) + 0.5) / 2**32)


def _inputs(*shape):
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_draws_are_those_of_the_contract(masks, batch_size):
    """Two layers, against the counters and plain numpy."""
    model = keras.Sequential([keras.Input((5,)), NoisyDense(6), NoisyDense(2)])
    x = _inputs(7, 5)
    samples = _samples(model, x, 21, masks=masks, batch_size=batch_size)
    rows = range(1) if masks == "shared" else range(7)
    expected = np.broadcast_to(x.astype(np.float64), (21, 7, 5))
    for site, layer in enumerate(model.layers):
        kernel = np.asarray(layer.kernel, np.float64)
        draw = _normals(site, range(21), rows, kernel.size)
        draw = np.broadcast_to(draw, (7, *draw.shape[1:]))
        weights = kernel * (1 + draw.reshape(7, 21, *kernel.shape) / 2)
        expected = np.einsum("sri,rsio->sro", expected, weights)
    # Sums of 5 and 6 products in float32, of numbers of order one.
    np.testing.assert_allclose(samples, expected, rtol=1e-5, atol=1e-5)


def test_rows_can_draw_outputs_instead():
    model = keras.Sequential([keras.Input((5,)), NoisyDense(3, by_rows=True)])
    x = _inputs(7, 5)
    samples = _samples(model, x, 21, masks="independent", batch_size=3)
    kernel = np.asarray(model.layers[0].kernel, np.float64)
    draw = np.swapaxes(_normals(0, range(21), range(7), 3), 0, 1)
    stddev = np.sqrt(x.astype(np.float64) ** 2 @ kernel**2) / 2
    np.testing.assert_allclose(
        samples, x @ kernel + stddev * draw, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_a_row_of_many_entries_has_one_draw(masks):
    """Time steps, on an axis of their own or moved into the batch."""
    x = _inputs(4, 6, 5)
    alone = keras.Sequential([keras.Input((6, 5)), NoisyDense(3)])
    spread = keras.Sequential(
        [keras.Input((6, 5)), keras.layers.TimeDistributed(NoisyDense(3))]
    )
    spread.set_weights(alone.get_weights())
    expected = _samples(alone, x, 18, masks=masks)
    samples = _samples(spread, x, 18, masks=masks)
    np.testing.assert_allclose(samples, expected, rtol=1e-5, atol=1e-6)


def test_off_is_the_mean_of_the_weights():
    model = keras.Sequential([keras.Input((5,)), NoisyDense(6), NoisyDense(2)])
    x = _inputs(7, 5)
    first, second = (np.asarray(layer.kernel) for layer in model.layers)
    off = kbd.deterministic(model)(x)
    np.testing.assert_allclose(off, x @ first @ second, rtol=1e-5, atol=1e-6)
    # The first layer in the prefix, the second without its noise.
    one = _samples(model, x, 5, layers=[model.layers[1].name])
    draw = _normals(1, range(5), range(1), 12).reshape(5, 6, 2)
    weights = second * (1 + draw / 2)
    expected = np.einsum("ri,sio->sro", x @ first, weights)
    np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-5)
    other = _samples(model, x, 5, layers=[model.layers[0].name])
    draw = _normals(0, range(5), range(1), 30).reshape(5, 5, 6)
    expected = np.einsum("ri,sio->sro", x, first * (1 + draw / 2)) @ second
    np.testing.assert_allclose(other, expected, rtol=1e-5, atol=1e-5)


def test_a_sample_is_a_function():
    model = keras.Sequential([keras.Input((5,)), NoisyDense(3)])
    x = _inputs(7, 5)
    function = kbd.sample_function(
        model, seed=SEED, sample=17, draws="independent"
    )
    np.testing.assert_allclose(
        function(x), _samples(model, x, 18)[17], rtol=1e-6, atol=1e-6
    )
    # Linear: of a sum, the sum.
    np.testing.assert_allclose(
        function(x[:1] + x[1:2]),
        function(x[:1]) + function(x[1:2]),
        rtol=1e-5,
        atol=1e-5,
    )
