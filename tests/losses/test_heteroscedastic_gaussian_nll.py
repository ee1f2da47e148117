# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import HeteroscedasticGaussianNLL
from tests.helpers import TestCase


class HeteroscedasticGaussianNLLTest(TestCase):
    @parameterized.parameters((4, 3), (2, 5, 3), (4, 1))
    def test_is_the_normal_density(self, *shape):
        rng = np.random.default_rng(0)
        y, mean, log_variance = rng.normal(size=(3, *shape))
        outputs = np.concatenate([mean, 3 * log_variance], axis=-1)
        scale = np.exp(1.5 * log_variance)
        want = scipy.stats.norm.logpdf(y, mean, scale).sum(axis=-1)
        loss = HeteroscedasticGaussianNLL(dtype="float64")
        self.assertAllClose(loss.log_prob(y, outputs), want, rtol=1e-12)
        self.assertAllClose(loss(y, outputs), -want.mean(), rtol=1e-12)
        if shape[-1] == 1:
            got = loss.log_prob(y[..., 0], outputs)
            self.assertAllClose(got, want, rtol=1e-12)

    def test_clip(self):
        """Values stay finite, and the gradient says which way is better."""
        loss = HeteroscedasticGaussianNLL(log_variance_limit=20.0)
        raw = tf.constant([-1e30, -21.0, -20.0, 20.0, 21.0, 1e30])
        outputs = tf.stack([tf.zeros(6), raw], axis=-1)
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            log_prob = loss.log_prob(np.ones(6), outputs)
        log_variance = np.array([-20.0] * 3 + [20.0] * 3)
        want = scipy.stats.norm.logpdf(1.0, 0.0, np.exp(0.5 * log_variance))
        self.assertAllClose(log_prob, want, rtol=1e-6)
        gradient = tape.gradient(log_prob, outputs)
        # d log p / ds = (e^2 * exp(-s) - 1) / 2, d log p / dm = e * exp(-s)
        inverse = np.exp(-log_variance)
        self.assertAllClose(gradient[:, 1], (inverse - 1) / 2, rtol=1e-5)
        self.assertAllClose(gradient[:, 0], inverse, rtol=1e-5)

    def test_half_precision_outputs(self):
        outputs = keras.ops.cast([[0.0, -12.0]], "float16")
        loss = HeteroscedasticGaussianNLL(dtype="float16")
        want = scipy.stats.norm.logpdf(2.0, 0.0, np.exp(-6.0))
        self.assertAllClose(loss.log_prob([[2.0]], outputs), [want], rtol=1e-6)

    def test_least_at_mean_and_variance(self):
        """The maximum of the likelihood is the mean and variance."""
        y = np.random.default_rng(0).normal(3.0, 0.2, (512, 1))
        loss = HeteroscedasticGaussianNLL(dtype="float64")
        best = tf.constant([[y.mean(), np.log(y.var())]], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(best)
            least = loss(y, tf.repeat(best, 512, axis=0))
        self.assertAllClose(tape.gradient(least, best), [[0.0, 0.0]])
        for step in ([0.01, 0.0], [-0.01, 0.0], [0.0, 0.01], [0.0, -0.01]):
            self.assertGreater(loss(y, tf.repeat(best + step, 512, 0)), least)

    def test_config(self):
        loss = HeteroscedasticGaussianNLL(7.0, reduction="sum")
        again = keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(loss)
        )
        self.assertIsInstance(again, HeteroscedasticGaussianNLL)
        self.assertEqual(again.get_config(), loss.get_config())
        self.assertEqual(again.log_variance_limit, 7.0)

    def test_bad_shapes(self):
        loss = HeteroscedasticGaussianNLL()
        with pytest.raises(BayesdropError, match="even number"):
            loss.log_prob(np.zeros((2, 1)), np.zeros((2, 3)))
        with pytest.raises(BayesdropError, match="do not fit"):
            loss.log_prob(np.zeros((2, 2)), np.zeros((2, 2)))
        with pytest.raises(BayesdropError, match="even number"):
            loss.log_prob(np.zeros(2), np.zeros(2))

    @parameterized.parameters(0.0, -1.0, 81.0, float("nan"), None)
    def test_bad_limit(self, limit):
        with pytest.raises(BayesdropError, match="`log_variance_limit`"):
            HeteroscedasticGaussianNLL(limit)

    @parameterized.parameters(-0.1, 1.5, float("nan"), None, "0.5", True)
    def test_bad_beta(self, beta):
        with pytest.raises(BayesdropError, match="`beta`"):
            HeteroscedasticGaussianNLL(beta=beta)


class BetaTest(TestCase):
    def _outputs(self):
        rng = np.random.default_rng(0)
        y, mean, log_variance = rng.normal(size=(3, 6, 2))
        log_variance[0] = [-9.0, 9.0]  # Beyond the limit.
        return y, tf.constant(np.concatenate([mean, log_variance], axis=-1))

    def _gradient(self, loss, y, outputs):
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            value = loss(y, outputs)
        return value, tape.gradient(value, outputs)

    @parameterized.parameters(0.25, 0.5, 1.0)
    def test_weights_each_term_and_gradient(self, beta):
        y, outputs = self._outputs()
        mean, raw = np.split(outputs.numpy(), 2, axis=-1)
        s = np.clip(raw, -4.0, 4.0)
        options = {"dtype": "float64", "reduction": "sum"}
        loss = HeteroscedasticGaussianNLL(4.0, beta, **options)
        value, gradient = self._gradient(loss, y, outputs)
        weight = np.exp(beta * s)
        terms = scipy.stats.norm.logpdf(y, mean, np.exp(s / 2))
        self.assertAllClose(value, -(weight * terms).sum(), rtol=1e-12)
        # The gradient of the plain loss, times a weight that is fixed.
        error = y - mean
        by_mean = -weight * error * np.exp(-s)
        by_log = -weight * (np.square(error) * np.exp(-s) - 1) / 2
        self.assertAllClose(
            gradient, np.concatenate([by_mean, by_log], -1), rtol=1e-10
        )
        self.assertFalse(loss.in_nats)

    def test_one_gives_means_the_gradient_of_a_squared_error(self):
        y, outputs = self._outputs()
        loss = HeteroscedasticGaussianNLL(
            beta=1.0, dtype="float64", reduction="sum"
        )
        _, gradient = self._gradient(loss, y, outputs)
        self.assertAllClose(gradient[:, :2], outputs[:, :2] - y, rtol=1e-12)

    def test_zero_is_the_plain_loss(self):
        y, outputs = self._outputs()
        plain = HeteroscedasticGaussianNLL()
        loss = HeteroscedasticGaussianNLL(beta=0)
        self.assertAllEqual(loss(y, outputs), plain(y, outputs))
        self.assertTrue(loss.in_nats)

    def test_log_prob_is_in_nats_for_any_beta(self):
        y, outputs = self._outputs()
        plain = HeteroscedasticGaussianNLL()
        weighted = HeteroscedasticGaussianNLL(beta=0.5)
        self.assertAllEqual(
            weighted.log_prob(y, outputs), plain.log_prob(y, outputs)
        )

    def test_bad_shapes(self):
        loss = HeteroscedasticGaussianNLL(beta=0.5)
        with pytest.raises(BayesdropError, match="even number"):
            loss(np.zeros((2, 1)), np.zeros((2, 3)))
        with pytest.raises(BayesdropError, match="do not fit"):
            loss(np.zeros((2, 2)), np.zeros((2, 2)))
        # Targets [rows] are those of one output.
        self.assertEqual(loss(np.zeros(3), np.zeros((3, 2))).shape, ())

    def test_saved_with_a_compiled_model(self):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
        model.compile("sgd", HeteroscedasticGaussianNLL(7.0, beta=0.5))
        x, y = np.ones((5, 3)), np.zeros((5, 2))
        model.fit(x, y, verbose=0)
        path = f"{self.get_temp_dir()}/model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertEqual(loaded.loss.beta, 0.5)
        self.assertEqual(loaded.loss.log_variance_limit, 7.0)
        self.assertAllClose(
            loaded.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0)
        )
