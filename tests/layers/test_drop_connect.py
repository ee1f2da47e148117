# SPDX-License-Identifier: Apache-2.0
"""Noise on every weight, in training and in predictions."""

import os

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop import noise as noises
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.layers import DropConnectConv2D
from keras_bayesdrop.layers import DropConnectDense
from tests.helpers import TestCase
from tests.helpers import flat
from tests.noise.cases import LAYER_NOISE
from tests.noise.cases import uniforms
from tests.random.test_rng import philox_words

SEED = 8
# Class, arguments, and an input without its batch axis.
DENSE = (DropConnectDense, {"units": 3, "rate": 0.4}, (5,))
CONV = (
    DropConnectConv2D,
    {"filters": 3, "kernel_size": 2, "rate": 0.4},
    (4, 4, 2),
)


def _inputs(*shape):
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


def _samples(model, x, num_samples, **kwargs):
    settings = {"seed": SEED, "verbose": 0, "return_samples": True}
    settings = {**settings, "draws": "independent", **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    ).samples


def _model(layer, shape):
    model = keras.Sequential([keras.Input(shape), layer])
    layer.bias.assign(np.linspace(-1, 1, layer.bias.shape[0]))
    return model


def _factors(family, reference, words):
    """Noise of words, divided by its mean (by its median)."""
    if isinstance(family, noises.Bernoulli):
        threshold = int(family.rate * 2**32)
        return (words >= threshold) / (1 - family.rate)
    centre = (
        family.scale if isinstance(family, noises.HalfCauchy) else family.mean
    )
    return reference.ppf(uniforms(words)) / centre


FAMILIES = (("bernoulli", noises.Bernoulli(0.4), None), *LAYER_NOISE)


class DropConnectTest(TestCase):
    @parameterized.product(
        case=(DENSE, CONV), noise=("bernoulli", "gaussian", "beta")
    )
    def test_keras_contract(self, case, noise):
        cls, kwargs, shape = case
        rate = None if noise == "beta" else kwargs["rate"]
        self.run_layer_test(
            cls,
            init_kwargs={**kwargs, "rate": rate, "noise": noise, "seed": 3},
            input_shape=(2, *shape),
            call_kwargs={"training": True},
            expected_num_trainable_weights=2,
            expected_num_non_trainable_weights=0,
            expected_num_seed_generators=1,
            expected_num_losses=0,
            supports_masking=cls is DropConnectDense,
        )

    @parameterized.parameters(DENSE, CONV)
    def test_without_noise_it_is_the_layer_of_keras(self, cls, kwargs, shape):
        settings = {"activation": "tanh", "kernel_regularizer": "l2"}
        layer = cls(**kwargs, **settings)
        model = _model(layer, shape)
        keras_class = cls.__bases__[-1]
        self.assertIn(keras_class, (keras.layers.Dense, keras.layers.Conv2D))
        settings.update(kwargs)
        del settings["rate"]
        plain = keras.Sequential([keras.Input(shape), keras_class(**settings)])
        plain.set_weights(model.get_weights())
        x = _inputs(6, *shape)
        for samples in (
            model(x),
            model(x, training=False),
            model.predict(x, verbose=0),
            kbd.deterministic(model)(x),
        ):
            self.assertAllClose(samples, plain(x), rtol=1e-6, atol=1e-6)
        self.assertAllClose(model.losses, plain.losses)

    @parameterized.named_parameters(*FAMILIES)
    def test_dense_draws_are_those_of_the_contract(self, family, reference):
        layer = DropConnectDense(3, noise=family, activation="tanh")
        model = _model(layer, (5,))
        x = _inputs(4, 5)
        kernel = np.asarray(layer.kernel, np.float64)
        for masks, rows in (("shared", 1), ("independent", 4)):
            samples = _samples(model, x, 18, masks=masks)
            if masks == "independent" and isinstance(family, noises.Gaussian):
                continue  # It draws the outputs, see below.
            words = philox_words(SEED, 0, range(18), range(rows), 15)
            factors = np.broadcast_to(
                _factors(family, reference, words), (4, 18, 15)
            )
            weights = kernel * factors.reshape(4, 18, 5, 3)
            outputs = np.einsum("ri,rsio->sro", x, weights)
            expected = np.tanh(outputs + np.asarray(layer.bias))
            # Sums of five products in float32; the largest factors are of
            # the half-Cauchy, a few hundred.
            self.assertAllClose(samples, expected, rtol=1e-5, atol=1e-4)

    def test_conv_draws_are_those_of_the_contract(self):
        layer = DropConnectConv2D(3, 2, 0.4, strides=2, activation="relu")
        shape = (4, 4, 2)
        model = _model(layer, shape)
        x = _inputs(3, *shape)
        for masks, rows in (("shared", 1), ("independent", 3)):
            samples = _samples(model, x, 7, masks=masks)
            words = philox_words(SEED, 0, range(7), range(rows), 24)
            keep = (words >= int(0.4 * 2**32)) / 0.6
            keep = np.broadcast_to(keep, (3, 7, 24)).reshape(3, 7, 2, 2, 2, 3)
            kernel = np.asarray(layer.kernel) * keep
            # [rows, 2, 2, 2, 2, channels]: both places, then the window.
            windows = x.reshape(3, 2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5)
            outputs = np.einsum("rijabc,rsabcf->srijf", windows, kernel)
            expected = np.maximum(outputs + np.asarray(layer.bias), 0)
            self.assertAllClose(samples, expected, rtol=1e-5, atol=1e-5)

    def test_bias_of_a_convolution_with_channels_first(self):
        # TensorFlow has no such convolution on a CPU to compare with.
        layer = DropConnectConv2D(3, 2, 0.4, data_format="channels_first")
        layer.build((None, 2, 4, 4))
        layer.bias.assign([1.0, 2.0, 3.0])
        y = layer.operation.finish(np.zeros((1, 3, 2, 2), "float32"))
        self.assertAllEqual(y[0, :, 1, 0], [1.0, 2.0, 3.0])

    def test_gaussian_rows_draw_their_outputs(self):
        layer = DropConnectDense(3, 0.2, noise="gaussian")
        model = _model(layer, (5,))
        x = _inputs(4, 5)
        samples = _samples(model, x, 18, masks="independent")
        kernel = np.asarray(layer.kernel, np.float64)
        u = uniforms(philox_words(SEED, 0, range(18), range(4), 3))
        normal = np.swapaxes(scipy.special.ndtri(u), 0, 1)
        deviation = 0.5 * np.sqrt(x.astype(np.float64) ** 2 @ kernel**2)
        expected = x @ kernel + np.asarray(layer.bias) + deviation * normal
        self.assertAllClose(samples, expected, rtol=1e-5, atol=1e-5)
        # With time steps a row has one draw of the weights for all of them.
        steps = _model(DropConnectDense(3, 0.2, noise="gaussian"), (6, 5))
        x = np.repeat(_inputs(2, 1, 5), 6, axis=1)
        y = _samples(steps, x, 4, masks="independent")
        self.assertAllClose(y, y[:, :, :1] + np.zeros((6, 1)), atol=1e-6)

    def test_one_draw_of_weights_a_batch_in_training(self):
        layer = DropConnectDense(40, 0.3, seed=1, use_bias=False)
        layer.build((None, 50))
        x = np.eye(50, dtype="float32")
        y = np.asarray(layer(x, training=True)) / np.asarray(layer.kernel)
        self.assertAllClose(np.unique(y.round(4)), [0.0, 1.4286], atol=1e-3)
        # 2,000 Bernoulli draws: 4 standard errors.
        error = 4 * np.sqrt(0.3 * 0.7 / 2000)
        self.assertAllClose(np.mean(y == 0), 0.3, rtol=0, atol=error)
        twice = layer(np.concatenate([x, x]), training=True)
        self.assertAllEqual(twice[:50], twice[50:])
        self.assertNotAllClose(layer(x, training=True), twice[:50])

    def test_gaussian_examples_have_a_draw_each_in_training(self):
        layer = DropConnectDense(40, 0.2, noise="gaussian", seed=1)
        layer.build((None, 3))
        row = _inputs(1, 3)
        y = np.asarray(layer(np.repeat(row, 500, axis=0), training=True))
        kernel = np.asarray(layer.kernel)
        deviation = 0.5 * np.sqrt(row**2 @ kernel**2)
        z = (y - row @ kernel) / deviation
        # 20,000 draws, at level 1e-4.
        test = scipy.stats.kstest(z.ravel(), scipy.stats.norm.cdf)
        self.assertGreater(test.pvalue, 1e-4)
        # No gradient is lost where an example is all zero.
        x = tf.zeros((2, 3))
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x, training=True))
        gradients = tape.gradient(total, [x, *layer.trainable_variables])
        for gradient in gradients:
            self.assertTrue(np.all(np.isfinite(gradient.numpy())))

    @parameterized.named_parameters(*FAMILIES)
    def test_training_has_the_moments_of_the_noise(self, family, reference):
        if not np.isfinite(family.variance):
            return
        layer = DropConnectDense(
            200, noise=family, seed=4, kernel_initializer="ones"
        )
        y = np.asarray(layer(np.eye(100, dtype="float32"), training=True))
        # The diagonal of a kernel of ones is the noise itself, 20,000 draws.
        relative = family.variance / family.normalizer**2
        error = 4 * np.sqrt(relative / 20_000)
        self.assertAllClose(y.mean(), 1.0, rtol=0, atol=error)

    @parameterized.parameters(DENSE, CONV)
    def test_fits_under_xla_saves_and_clones(self, cls, kwargs, shape):
        inputs = keras.Input(shape)
        layer = cls(**kwargs, activation="relu", seed=1)
        outputs = keras.layers.Flatten()(layer(inputs))
        model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
        model.compile("sgd", "mse", jit_compile=True)
        x = _inputs(8, *shape)
        before = np.asarray(layer.kernel)
        model.fit(x, np.ones((8, 1)), batch_size=4, epochs=2, verbose=0)
        self.assertNotAllClose(layer.kernel, before)
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAllEqual(_samples(loaded, x, 5), _samples(model, x, 5))
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        self.assertAllEqual(_samples(clone, x, 5), _samples(model, x, 5))
        self.assertEqual(clone.layers[1].get_config(), layer.get_config())

    @parameterized.product(
        case=(DENSE, CONV), policy=("mixed_float16", "float64")
    )
    def test_dtypes(self, case, policy):
        cls, kwargs, shape = case
        layer = cls(**kwargs, dtype=policy, kernel_initializer="ones", seed=2)
        model = _model(layer, shape)
        expected = policy.removeprefix("mixed_")
        x = np.ones((3, *shape), "float32")
        for training in (False, True):
            y = layer(x, training=training)
            self.assertEqual(y.dtype.name, expected)
        # Sums of noise times one: multiples of 1 / 0.6, plus the bias.
        samples = np.asarray(_samples(model, x, 6), "float64")
        kept = (samples - np.asarray(layer.bias, "float64")) * 0.6
        # float16 has steps of 0.01 at 13.
        self.assertAllClose(kept, kept.round(), atol=0.02)
        self.assertGreater(samples.std(), 0.0)

    def test_noise_of_no_variance_is_no_site(self):
        model = _model(DropConnectDense(3, 0.0), (5,))
        x = _inputs(2, 5)
        self.assertAllEqual(model(x, training=True), model(x))
        with self.assertRaises(NothingToSampleError):
            _samples(model, x, 3)

    @pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
    def test_everything_dropped(self):
        layer = DropConnectDense(3, 1.0)
        model = _model(layer, (5,))
        expected = np.broadcast_to(np.asarray(layer.bias), (2, 3))
        self.assertAllEqual(model(_inputs(2, 5), training=True), expected)
        samples = _samples(model, _inputs(2, 5), 2)
        self.assertAllEqual(samples, np.stack([expected] * 2))

    def test_is_listed(self):
        model = _model(DropConnectDense(3, 0.25), (5,))
        (row,) = kbd.inspect(model).stochastic
        self.assertEqual(row.noise, "Bernoulli, rate 0.25, on weights")

    def test_without_bias_and_activation(self):
        for cls, kwargs, shape in (DENSE, CONV):
            layer = cls(**kwargs, use_bias=False)
            x = _inputs(2, *shape)
            self.assertNotAllClose(layer(x, training=True), layer(x))

    @parameterized.parameters(DENSE, CONV)
    def test_wrong_arguments(self, cls, kwargs, shape):
        for wrong, message in (
            ({"rate": 1.5}, "`rate`. Expected a float"),
            ({"rate": None}, "`rate`. Expected a float"),
            ({"noise": "cauchy"}, "`noise`. Expected one of 'bernoulli'"),
            ({"noise": "beta"}, "`rate`. Expected `None` with noise='beta'"),
            (
                {"rate": None, "noise": noises.CenteredGaussian()},
                "cannot be scaled to mean 1",
            ),
        ):
            with self.assertRaisesRegex(BayesdropError, message):
                cls(**{**kwargs, **wrong})
