# SPDX-License-Identifier: Apache-2.0
"""Dense layers with Gaussian weights: their distribution, KL and gradients."""

import unittest.mock

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers._gaussian.weights import clip
from keras_bayesdrop.layers._random import draw_normal
from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.sparsity import prune
from tests.helpers import TestCase

pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")

PARAMETRIZATIONS = ("additive", "multiplicative", "correlated")
# With every granularity of alpha.
CASES = (
    ("additive", "weight"),
    ("multiplicative", "weight"),
    ("multiplicative", "row"),
    ("multiplicative", "layer"),
    ("correlated", "row"),
    ("correlated", "layer"),
)
IN, OUT = 4, 3


def noisy_layer(parametrization, alpha=None, prior="log_uniform", **kwargs):
    """A layer with means and noise well apart from each other."""
    rng = np.random.default_rng(7)
    layer = VariationalDense(
        OUT,
        50,
        parametrization=parametrization,
        prior=prior,
        alpha=alpha,
        **kwargs,
    )
    layer.build((None, IN))
    layer.kernel.assign(rng.normal(size=(IN, OUT)))
    shape = layer.log_noise.shape
    layer.log_noise.assign(rng.uniform(-3.0, 0.5, size=shape))
    if layer.use_bias:
        layer.bias.assign(rng.normal(size=OUT))
    return layer


def variances(layer):
    """Means and variances of the weights, by hand, in float64."""
    theta = np.array(layer.kernel, "float64")
    noise = np.exp(np.array(layer.log_noise, "float64"))
    if layer.parametrization == "additive":
        return theta, noise
    return theta, noise * theta**2


def covariance(layer, x):
    """Covariance [OUT, OUT] of the outputs for one input [IN]."""
    theta, variance = variances(layer)
    if layer.parametrization != "correlated":
        return np.diag(x**2 @ variance)
    alpha = np.broadcast_to(np.exp(np.array(layer.log_noise)), (IN, 1))
    return (theta * (x[:, None] ** 2 * alpha)).T @ theta


def assert_moments(test, draws, mean, cov, rounding=0.0):
    """Compares draws [n, k] with a Gaussian: all moments up to the second.

    Over n draws the mean has the variance cov[i, i] / n, and the estimate of
    cov[i, j] has (cov[i, i] cov[j, j] + cov[i, j]^2) / n. Five standard errors
    of each, since dozens are compared; plus what outputs are rounded by.
    """
    n = len(draws)
    draws = draws.astype("float64")
    spread = np.diag(cov)
    error = np.abs(draws.mean(0) - mean)
    test.assertTrue(
        np.all(error <= 5 * np.sqrt(spread / n) + rounding), msg=error
    )
    centred = draws - mean
    error = np.abs(centred.T @ centred / n - cov)
    allowed = np.sqrt((np.outer(spread, spread) + cov**2) / n)
    test.assertTrue(np.all(error <= 5 * allowed + rounding), msg=error)


class TrainingTest(TestCase):
    @parameterized.product(
        case=CASES, policy=("float32", "mixed_float16", "float64")
    )
    def test_outputs_have_the_moments_of_weight_draws(self, case, policy):
        layer = noisy_layer(*case, dtype=policy)
        x = np.array([0.5, -1.0, 2.0, 0.0])
        draws = np.array(layer(np.tile(x, (20_000, 1)), training=True))
        mean = x @ np.array(layer.kernel) + np.array(layer.bias)
        cov = covariance(layer, x)
        # Outputs below 16 and their sums, in float16: within 2^-6 of the truth.
        rounding = 2.0**-6 if policy == "mixed_float16" else 0.0
        assert_moments(self, draws, mean, cov, rounding)

    def test_the_draws_are_gaussian(self):
        layer = noisy_layer("additive")
        x = np.array([0.5, -1.0, 2.0, 0.3])
        draws = np.array(layer(np.tile(x, (20_000, 1)), training=True))[:, 0]
        z = (draws - draws.mean()) / draws.std()
        # Kolmogorov: 1.95 / sqrt(n) is exceeded once in a thousand.
        distance = scipy.stats.kstest(z, "norm").statistic
        self.assertLess(distance, 1.95 / np.sqrt(20_000))

    def test_examples_and_positions_have_noise_of_their_own(self):
        x = np.ones((2_000, 2, IN), "float32")
        for parametrization in ("additive", "correlated"):
            layer = noisy_layer(parametrization)
            y = np.array(layer(x, training=True)) - np.array(layer(x))
            first, second = y[:, 0, 0], y[:, 1, 0]
            if parametrization == "correlated":
                # One factor a unit and example, whatever the position.
                self.assertAllClose(first, second, atol=1e-5)
            else:
                # 4 standard errors of a correlation of zero: 4 / sqrt(2000).
                correlation = np.corrcoef(first, second)[0, 1]
                self.assertLess(abs(correlation), 0.09)
            half = np.corrcoef(first[:1000], first[1000:])[0, 1]
            self.assertLess(abs(half), 4 / np.sqrt(1000))

    def test_small_variances_survive_half_precision(self):
        # sigma^2 = e^-17 is below the least float16 number, 6e-8.
        layer = VariationalDense(
            1,
            50,
            prior="log_uniform",
            dtype="mixed_float16",
            kernel_initializer="zeros",
            noise_initializer=keras.initializers.Constant(-17.0),
        )
        y = np.array(layer(np.ones((4000, 64)), training=True), "float64")
        # 4 standard errors of a standard deviation: 4 / sqrt(2 * 4000).
        expected = np.sqrt(64 * np.exp(-17.0))
        self.assertAllClose(y.std(), expected, rtol=0.046)

    @parameterized.parameters(*CASES)
    def test_gradients_are_those_of_the_draws(self, *case):
        # With the same seed a draw is a smooth function of the parameters:
        # central differences in float64, error of the order of step^2.
        layer = noisy_layer(*case, dtype="float64")
        x = np.random.default_rng(1).normal(size=(5, IN))

        def loss():
            layer.seed_generator.state.assign([3, 0])
            return tf.reduce_sum(tf.sin(layer(x, training=True)))

        variables = [layer.kernel.value, layer.log_noise.value]
        with tf.GradientTape() as tape:
            value = loss()
        slopes = tape.gradient(value, variables)
        step = 1e-5
        for variable, slope in zip(
            (layer.kernel, layer.log_noise), slopes, strict=True
        ):
            start = np.array(variable)
            numeric = np.zeros(start.size)
            for k in range(start.size):
                ends = []
                for sign in (1, -1):
                    moved = start.copy()
                    moved.reshape(-1)[k] += sign * step
                    variable.assign(moved)
                    ends.append(float(loss()))
                numeric[k] = (ends[0] - ends[1]) / (2 * step)
            variable.assign(start)
            self.assertAllClose(
                np.reshape(slope, -1), numeric, rtol=1e-5, atol=1e-7
            )

    @parameterized.parameters(*PARAMETRIZATIONS)
    def test_gradients_are_finite_where_nothing_flows(self, parametrization):
        layer = VariationalDense(
            OUT,
            50,
            prior="log_uniform",
            parametrization=parametrization,
            kernel_initializer="zeros",
        )
        x = tf.zeros((5, IN))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(layer(x, training=True) ** 2)
            y += tf.add_n(layer.losses)
        kernel, noise = layer.kernel.value, layer.log_noise.value
        for slope in tape.gradient(y, [x, kernel, noise]):
            self.assertTrue(np.all(np.isfinite(slope)))


class KLTest(TestCase):
    @parameterized.parameters(
        ("additive", "weight", OUT * IN),
        ("multiplicative", "weight", OUT * IN),
        ("multiplicative", "row", OUT * IN),
        ("multiplicative", "layer", OUT * IN),
        ("correlated", "row", IN),
        ("correlated", "layer", IN),
    )
    def test_log_uniform_against_quadrature(
        self, parametrization, alpha, count
    ):
        layer = noisy_layer(parametrization, alpha)
        theta, variance = variances(layer)
        if parametrization == "correlated":
            theta = np.ones((IN, 1))
            variance = np.exp(np.array(layer.log_noise, "float64"))
        roots = np.sqrt(theta**2 / (2 * np.broadcast_to(variance, theta.shape)))
        # KL0 = 2 * integral of Dawson's function up to sqrt(u)
        terms = [
            2 * scipy.integrate.quad(scipy.special.dawsn, 0, root)[0]
            for root in roots.reshape(-1)
        ]
        self.assertEqual(len(terms), count)
        kl = float(layer.kl_divergence())
        self.assertAllClose(kl, np.sum(terms), rtol=1e-5)
        limited = noisy_layer(parametrization, alpha, log_alpha_limit=20.0)
        self.assertAllClose(limited.kl_divergence(), kl, rtol=1e-5)

    @parameterized.parameters(*CASES)
    def test_gaussian_prior_by_hand(self, parametrization, alpha):
        prior = GaussianPrior(0.7)
        layer = noisy_layer(parametrization, alpha, prior=prior)
        theta, variance = variances(layer)
        if parametrization == "correlated":
            theta = np.ones((IN, 1))
            variance = np.exp(np.array(layer.log_noise, "float64"))
        variance = np.broadcast_to(variance, theta.shape)
        ratio = variance / 0.49
        by_hand = 0.5 * np.sum(theta**2 / 0.49 + ratio - 1 - np.log(ratio))
        self.assertAllClose(layer.kl_divergence(), by_hand, rtol=1e-5)

    @parameterized.parameters("exact", "molchanov", "kingma")
    def test_it_is_the_sum_of_the_priors(self, kl):
        layer = noisy_layer("additive", kl=kl)
        terms = layer.prior.kl(layer.kernel, layer.log_noise)
        self.assertEqual(layer.prior.form, kl)
        self.assertAllClose(layer.kl_divergence(), np.sum(terms), rtol=1e-5)


class LogAlphaTest(TestCase):
    @parameterized.parameters(*CASES)
    def test_log_alpha_by_hand(self, *case):
        layer = noisy_layer(*case)
        theta, variance = variances(layer)
        self.assertAllClose(
            np.broadcast_to(layer.log_alpha(), theta.shape),
            np.log(variance / theta**2),
            rtol=1e-4,
            atol=1e-5,
        )
        self.assertAllEqual(layer.mean_kernel(), layer.kernel)

    def test_sparsity_is_the_share_above_the_threshold(self):
        layer = noisy_layer("multiplicative")
        layer.log_noise.assign([[0.0, 3.0, 3.1]] * 3 + [[9.0, 9.0, 9.0]])
        self.assertAllClose(layer.sparsity(), 6 / 12)
        self.assertAllClose(layer.sparsity(threshold=-1.0), 1.0)

    def test_pruning_keeps_the_weights_below_the_threshold(self):
        layer = noisy_layer("additive")
        model = keras.Sequential([keras.Input((IN,)), layer])
        noise = np.full((IN, OUT), -20.0)
        noise[1, 2] = noise[2, 0] = 9.0
        layer.log_noise.assign(noise)
        small = prune(model)
        kernel = np.array(layer.kernel)
        kernel[1, 2] = kernel[2, 0] = 0.0
        self.assertIs(type(small.layers[-1]), keras.layers.Dense)
        self.assertAllEqual(small.layers[-1].kernel, kernel)

    def test_a_limit_leaves_a_way_back(self):
        x = tf.constant([-9.0, -9.0, 0.0, 0.0, 9.0, 9.0])
        upstream = tf.constant([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = clip(x, (-8.0, 8.0))
        self.assertAllEqual(y, [-8.0, -8.0, 0.0, 0.0, 8.0, 8.0])
        # Descent lowers log alpha where the gradient is positive.
        self.assertAllEqual(
            tape.gradient(y, x, upstream), [0.0, -1.0, 1.0, -1.0, 1.0, 0.0]
        )

    def test_limits_bound_the_noise(self):
        layer = noisy_layer("additive", log_alpha_limit=2.0)
        layer.log_noise.assign(np.tile([-30.0, 0.0, 30.0], (IN, 1)))
        log_alpha = np.array(layer.log_alpha())
        self.assertAllClose(log_alpha[:, 0], [-2.0] * IN)
        self.assertAllClose(log_alpha[:, 2], [2.0] * IN)
        x = np.array([1.0, -0.5, 2.0, 0.3])
        theta = np.array(layer.kernel, "float64")
        spread = np.sqrt(x**2 @ (np.exp(log_alpha) * theta**2))
        y = np.array(layer(np.tile(x, (20_000, 1)), training=True))
        # 5 standard errors of a standard deviation: 5 / sqrt(2 * 20_000).
        self.assertAllClose(y.std(0), spread, rtol=0.025)

    @parameterized.parameters("additive", "multiplicative")
    def test_a_threshold_in_training_takes_means_as_zero(self, parametrization):
        layer = noisy_layer(parametrization, train_threshold=-1.0)
        x = np.array([0.5, -1.0, 2.0, 0.3])
        above = np.array(layer.log_alpha()) > -1.0
        self.assertTrue(np.any(above) and not np.all(above))
        kept = np.where(above, 0.0, np.array(layer.kernel))
        y = np.array(layer(np.tile(x, (20_000, 1)), training=True))
        mean = x @ kept + np.array(layer.bias)
        # All the noise, and those of the means.
        assert_moments(self, y, mean, covariance(layer, x))
        # Elsewhere the means are what they are.
        full = x @ np.array(layer.kernel) + np.array(layer.bias)
        self.assertAllClose(layer(x[None])[0], full, rtol=1e-5, atol=1e-5)

    def test_kingmas_form_keeps_alpha_below_one(self):
        layer = noisy_layer("multiplicative", kl="kingma")
        layer.log_noise.assign(np.full((IN, OUT), 5.0))
        self.assertAllEqual(layer.log_alpha(), np.zeros((IN, OUT)))


class NormalTest(TestCase):
    @parameterized.parameters(True, False)
    def test_draws_are_normal_and_all_apart(self, jit_compile):
        seed = keras.random.SeedGenerator(3)
        draw = tf.function(
            lambda: draw_normal((200, 1000), "float32", seed),
            jit_compile=jit_compile,
        )
        first, second = (np.array(draw()).reshape(-1) for _ in range(2))
        for z in (first, second):
            # As above: once in a thousand.
            distance = scipy.stats.kstest(z, "norm").statistic
            self.assertLess(distance, 1.95 / np.sqrt(z.size))
            self.assertLess(np.abs(z).max(), 5.3)
            # Fourth moment: 3, with a variance of 96 / n.
            self.assertAllClose(
                np.mean(z**4), 3.0, atol=5 * (96 / z.size) ** 0.5
            )
        correlation = np.mean(first.astype("f8") * second)
        self.assertLess(abs(correlation), 4 / np.sqrt(first.size))

    def test_the_ends_are_finite(self):
        words = np.array([0, 2**32 - 1], "uint32")
        with unittest.mock.patch.object(
            tf.random, "stateless_uniform", return_value=tf.constant(words)
        ):
            ends = draw_normal((2,), "float32", keras.random.SeedGenerator(1))
        self.assertAllClose(ends, [-5.2947, 5.2947], atol=1e-4)
