# SPDX-License-Identifier: Apache-2.0
"""Noise whose strength is a variable, against noise of fixed strength."""

import gc
import weakref

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Concrete
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise import LearnedBernoulli
from keras_bayesdrop.noise import LearnedGaussian
from keras_bayesdrop.noise import NoiseSource
from keras_bayesdrop.noise import NoiseThenLayer
from tests.helpers import flat
from tests.random.test_rng import philox_words

WORDS = philox_words(3, 1, range(16), range(5), 50)


class Learned(keras.layers.Layer, NoiseSource):
    """Dropout with its rate in a variable."""

    temperature = 0.3

    def __init__(self, rate, noise=LearnedBernoulli):
        super().__init__()
        self.value = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(rate)
        )
        self.noise = noise

    def call(self, inputs):
        return inputs

    def noise_site(self):
        return self.noise(weakref.ref(self)), None

    @property
    def rate(self):
        return float(self.value)

    def rate_tensor(self):
        return tf.cast(self.value, tf.float64)

    def noise_stddev(self):
        rate = self.rate_tensor()
        return tf.sqrt(rate / (1 - rate))


class Wrapped(keras.layers.Layer, NoiseThenLayer):
    """Learned dropout, then a layer."""

    def __init__(self, rate, layer):
        super().__init__()
        self.noise = Learned(rate)
        self.layer = layer

    def call(self, inputs, scale=None):
        outputs = self.layer(self.noise(inputs))
        return outputs if scale is None else scale * outputs

    def noise_then_layer(self):
        return self.noise, self.layer


def _apply(noise, dtype=np.float32):
    x = np.linspace(1, 2, 50, dtype=dtype)
    return noise.apply(tf.constant(x), tf.constant(WORDS)).numpy()


# A rate that float32 has exactly, so that both round the same number.
@pytest.mark.parametrize("rate", [0.25, 0.640625, 2.0**-20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bernoulli_and_gaussian_are_those_of_the_rate(rate, dtype):
    bernoulli = Learned(rate).noise_site()[0]
    np.testing.assert_array_equal(
        _apply(bernoulli, dtype), _apply(Bernoulli(rate), dtype)
    )
    gaussian = Learned(rate, LearnedGaussian).noise_site()[0]
    np.testing.assert_array_equal(
        _apply(gaussian, dtype), _apply(Gaussian(rate), dtype)
    )


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.999, 1 - 2.0**-24])
def test_threshold_is_that_of_the_same_rate_in_python(rate):
    layer = Learned(rate)
    threshold, scale = layer.noise_site()[0].op_settings()
    expected = Bernoulli(layer.rate)
    assert int(threshold) == expected.threshold
    assert float(scale) == expected.scale


def test_concrete_is_its_formula():
    rate = 0.2
    layer = Learned(rate, Concrete)
    u = (WORDS.astype(np.float64) + 0.5) / 2**32
    logits = scipy.special.logit(layer.rate) + scipy.special.logit(u)
    keep = scipy.special.expit(-logits / 0.3)
    expected = np.linspace(1, 2, 50) * keep / (1 - layer.rate)
    # Ten roundings of float64 in an exponent of up to 100.
    np.testing.assert_allclose(
        _apply(layer.noise_site()[0], np.float64), expected, rtol=1e-11
    )


def test_concrete_hardens_to_the_same_mask():
    """As the temperature falls, what is dropped is what Bernoulli drops.

    Dropped are large `u` there and small ones here: the words are mirrored.
    """
    layer = Learned(0.25, Concrete)
    layer.temperature = 1e-6
    mirrored = tf.constant(np.uint32(2**32 - 1) - WORDS)
    soft = layer.noise_site()[0].apply(tf.ones([50], tf.float64), mirrored)
    hard = Bernoulli(0.25).apply(tf.ones([50], tf.float64), tf.constant(WORDS))
    np.testing.assert_allclose(soft, hard, atol=1e-12)


def test_descriptions_have_the_value_of_the_moment():
    layer = Learned(0.25)
    noise = layer.noise_site()[0]
    assert noise.describe() == "Bernoulli, learned rate 0.25"
    layer.value.assign(0.5)
    assert noise.describe() == "Bernoulli, learned rate 0.5"
    gaussian = Learned(0.5, LearnedGaussian).noise_site()[0]
    assert gaussian.describe() == "Gaussian, learned alpha 1"
    concrete = Learned(0.5, Concrete).noise_site()[0]
    assert concrete.describe() == "concrete, learned rate 0.5"


def _network(dropout):
    """A dense network; `dropout` wraps the second layer."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(20, activation="relu")(inputs)
    return keras.Model(inputs, dropout(keras.layers.Dense(3), hidden))


def _samples(model, **kwargs):
    x = np.random.default_rng(1).normal(size=(9, 6)).astype(np.float32)
    prediction = kbd.predict_with_uncertainty(
        model, x, 37, seed=4, return_samples=True, verbose=0, **flat(**kwargs)
    )
    return prediction.samples


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_a_wrapper_predicts_as_its_two_layers(engine, masks):
    rate = 0.25
    wrapped = _network(lambda dense, x: Wrapped(rate, dense)(x))
    plain = _network(lambda dense, x: dense(keras.layers.Dropout(rate)(x)))
    settings = {"engine": engine, "masks": masks}
    np.testing.assert_array_equal(
        _samples(wrapped, **settings), _samples(plain, **settings)
    )


def test_a_wrapper_is_in_a_dense_chain():
    model = _network(lambda dense, x: Wrapped(0.25, dense)(x))
    steps = kbd.explain(model).steps
    assert [step.layer for step in steps] == ["Dense", "Learned", "Dense"]
    if not op_library.library().problem:
        assert [step.engine for step in steps[1:]] == ["fused", "fused"]


def test_a_wrapper_called_with_more_is_not_taken_apart():
    """It samples all the same, and does what its own code says."""
    plain = _network(lambda dense, x: Wrapped(0.25, dense)(x))
    scaled = _network(lambda dense, x: Wrapped(0.25, dense)(x, scale=2.0))
    np.testing.assert_allclose(
        _samples(scaled), 2 * _samples(plain), rtol=1e-5, atol=1e-6
    )


def test_a_new_rate_needs_no_new_program(monkeypatch):
    model = _network(lambda dense, x: Wrapped(0.25, dense)(x))
    before = _samples(model)
    traces = []
    original = tf.raw_ops.StatelessRandomUniformFullIntV2

    def count(**kwargs):
        traces.append(kwargs)
        return original(**kwargs)

    monkeypatch.setattr(tf.raw_ops, "StatelessRandomUniformFullIntV2", count)
    function = tf.function
    monkeypatch.setattr(
        tf, "function", lambda *a, **k: traces.append(a) or function(*a, **k)
    )
    model.layers[-1].noise.value.assign(0.5)
    after = _samples(model)
    assert not traces
    expected = _network(lambda dense, x: dense(keras.layers.Dropout(0.5)(x)))
    np.testing.assert_array_equal(after, _samples(expected))
    assert np.any(after != before)


def test_a_model_that_was_sampled_is_not_kept():
    model = _network(lambda dense, x: Wrapped(0.25, dense)(x))
    _samples(model)
    alive = weakref.ref(model.layers[-1].noise)
    del model
    keras.backend.clear_session(free_memory=True)
    gc.collect()
    assert alive() is None
