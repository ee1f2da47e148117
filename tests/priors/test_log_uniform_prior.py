# SPDX-License-Identifier: Apache-2.0
import functools
import itertools

import mpmath
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from scipy import special

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import LogUniformPrior
from tests.helpers import TestCase
from tests.priors.weight_reference import kl0
from tests.priors.weight_reference import kl0_slope
from tests.priors.weight_reference import kl_by_definition
from tests.priors.weight_reference import with_gradients

EULER = float(mpmath.euler)


@functools.cache
def cases(count=100):
    """Means and log-variances whose u covers [1e-30, 1e8], and that u.

    The means run from 1e-25 to 1e25, so that their squares would underflow and
    overflow in float32. `u` is that of the rounded arguments, exactly. Then
    KL0 and its derivative by u.
    """
    rng = np.random.default_rng(0)
    log_u = np.linspace(np.log(1e-30), np.log(1e8), count)
    log_mean = rng.permutation(np.linspace(-57.0, 57.0, count))
    log_variance = (2.0 * log_mean - np.log(2.0) - log_u).astype("float32")
    mean = (rng.choice([-1.0, 1.0], count) * np.exp(log_mean)).astype("float32")
    u = [
        mpmath.mpf(float(m)) ** 2 / (2 * mpmath.exp(mpmath.mpf(float(v))))
        for m, v in zip(mean, log_variance, strict=True)
    ]
    return mean, log_variance, u, list(map(kl0, u)), list(map(kl0_slope, u))


def floats(numbers):
    return np.array([float(each) for each in numbers])


class ExactTest(TestCase):
    @parameterized.parameters(0.0, 1e-6, 0.03, 0.7, 12.0, 400.0)
    def test_definition_in_both_parametrisations(self, u):
        # E_q[log q - log p] by quadrature, against the same at u = 0.
        mean = mpmath.mpf("0.4")
        sigma = mean / mpmath.sqrt(2 * mpmath.mpf(u)) if u else mpmath.mpf(1)
        mean = mean if u else mpmath.mpf(0)
        pole = (0,)

        def minus_log_prior(w):
            return mpmath.log(abs(w))

        kl = kl_by_definition(minus_log_prior, mean, sigma, pole)
        kl -= kl_by_definition(minus_log_prior, 0, 1, pole)
        # 40 digits, less those that the difference cancels.
        self.assertLess(abs(kl - kl0(u)), mpmath.mpf(10) ** -36)

        prior = LogUniformPrior()
        additive = prior.kl(np.float64(mean), np.float64(2 * mpmath.log(sigma)))
        self.assertAllClose(additive, float(kl), rtol=1e-12, atol=1e-30)
        if u:
            log_alpha = np.float64(-mpmath.log(2 * mpmath.mpf(u)))
            multiplicative = prior.kl_of_log_alpha(log_alpha)
            self.assertAllClose(multiplicative, float(kl), rtol=1e-12, atol=0)

    @parameterized.product(
        dtype=("float32", "float64"), jit_compile=(False, True)
    )
    def test_value_and_gradients_for_every_u(self, dtype, jit_compile):
        mean, log_variance, u, kl, slope = cases()
        value, by_mean, by_log_variance = with_gradients(
            LogUniformPrior().kl,
            mean.astype(dtype),
            log_variance.astype(dtype),
            jit_compile=jit_compile,
        )
        # float32: what the class promises. float64: 1e-12, but the rounding of
        # log_variance / 2 near 80 alone is 1e-14 of its exponential.
        rtol = 1e-6 if dtype == "float32" else 1e-12
        self.assertAllClose(value, floats(kl), rtol=rtol, atol=0)
        # u is -1 times its own derivative by log_variance, and mean / 2 times
        # that by the mean.
        by_log = [each * rate for each, rate in zip(u, slope, strict=True)]
        self.assertAllClose(
            by_log_variance, floats(-each for each in by_log), rtol=rtol, atol=0
        )
        expected = floats(
            2 * each / mpmath.mpf(float(m))
            for each, m in zip(by_log, mean, strict=True)
        )
        # float32 has no numbers below 1.2e-38.
        self.assertAllClose(by_mean, expected, rtol=rtol, atol=1.2e-38)

    @parameterized.product(
        dtype=("float32", "float64"), jit_compile=(False, True)
    )
    def test_log_alpha(self, dtype, jit_compile):
        log_alpha = np.linspace(-19.0, 69.0, 60).astype(dtype)
        value, gradient = with_gradients(
            LogUniformPrior().kl_of_log_alpha,
            log_alpha,
            jit_compile=jit_compile,
        )
        u = [mpmath.exp(-mpmath.mpf(float(a))) / 2 for a in log_alpha]
        rtol = 1e-6 if dtype == "float32" else 1e-12
        self.assertAllClose(value, floats(map(kl0, u)), rtol=rtol, atol=0)
        expected = floats(-each * kl0_slope(each) for each in u)
        self.assertAllClose(gradient, expected, rtol=rtol, atol=0)

    def test_gradient_is_dawsons_function(self):
        # With sigma^2 = 1/2, mean is sqrt u, and dKL/dmean is 2 D+(mean).
        mean = np.linspace(-30.0, 30.0, 2001)
        log_variance = np.full_like(mean, np.log(0.5))
        _, gradient, _ = with_gradients(
            LogUniformPrior().kl, mean, log_variance
        )
        dawson = tf.math.special.dawsn(tf.constant(mean)).numpy()
        self.assertAllClose(gradient, 2.0 * dawson, rtol=1e-12, atol=1e-15)
        self.assertAllClose(
            gradient, 2.0 * special.dawsn(mean), rtol=1e-12, atol=1e-15
        )

    @parameterized.product(
        dtype=("float32", "float64"), jit_compile=(False, True)
    )
    def test_second_derivative(self, dtype, jit_compile):
        # With sigma^2 = 1/2 it is 2 D+'(x) = 2 - 4 x D+(x); at x = 0 it is 2,
        # the inverse of the variance.
        mean = np.array([0.0, 1e-20, 0.01, 0.5, 0.9241388, 3.0, 20, 300])
        log_variance = np.full_like(mean, np.log(0.5))

        def by_mean(mean, log_variance):
            with tf.GradientTape() as tape:
                tape.watch(mean)
                value = LogUniformPrior().kl(mean, log_variance)
            return tape.gradient(value, mean)

        _, second, _ = with_gradients(
            by_mean,
            mean.astype(dtype),
            log_variance.astype(dtype),
            jit_compile=jit_compile,
        )
        x = [mpmath.mpf(float(each)) for each in mean.astype(dtype)]
        expected = [2 - 4 * each**2 * kl0_slope(each**2) for each in x]
        # It crosses zero at 0.9241: relative to the largest value there.
        rtol, atol = (2e-6, 1e-6) if dtype == "float32" else (1e-11, 1e-14)
        self.assertAllClose(second, floats(expected), rtol=rtol, atol=atol)

    def test_curvature_in_u_at_zero(self):
        # h = 1 - 2 u / 3 + ..., so d^2 KL / du^2 = -2/3 at u = 0, which is the
        # fourth derivative by the mean, at sigma = 1, divided by three.
        mean = tf.constant(0.0, "float64")
        with (
            tf.GradientTape() as fourth,
            tf.GradientTape() as third,
            tf.GradientTape() as second,
            tf.GradientTape() as first,
        ):
            for tape in (first, second, third, fourth):
                tape.watch(mean)
            value = LogUniformPrior().kl(mean, tf.constant(0.0, "float64"))
            slope = first.gradient(value, mean)
            curvature = second.gradient(slope, mean)
            change = third.gradient(curvature, mean)
        result = fourth.gradient(change, mean)
        self.assertAllClose(result, -2.0, rtol=1e-9)

    def test_zero_at_zero_and_increasing(self):
        ratio = np.concatenate([[0.0], np.geomspace(1e-15, 1e4, 500)])
        kl = LogUniformPrior().kl(
            ratio.astype("float32"), np.zeros(501, "float32")
        )
        self.assertEqual(float(kl[0]), 0.0)
        self.assertAllEqual(np.diff(kl) > 0.0, np.ones(500, dtype=bool))

    def test_beyond_the_largest_ratio_it_is_flat(self):
        value, by_mean, by_log_variance = with_gradients(
            LogUniformPrior().kl,
            np.array([1.0, 1e30], "float32"),
            np.array([-300.0, -60.0], "float32"),
        )
        # log(1e18) + gamma / 2 + log(2) / 2
        limit = np.log(1e18) + (EULER + np.log(2.0)) / 2.0
        self.assertAllClose(value, [limit, limit], rtol=1e-6, atol=0)
        self.assertAllEqual(by_mean, [0.0, 0.0])
        self.assertAllClose(by_log_variance, [-0.5, -0.5], rtol=1e-6)


class ApproximationTest(TestCase):
    LOG_ALPHA = np.linspace(-10.0, 10.0, 20001)

    def against_exact(self, kl):
        value, gradient = with_gradients(
            LogUniformPrior(kl).kl_of_log_alpha, self.LOG_ALPHA
        )
        exact = with_gradients(
            LogUniformPrior().kl_of_log_alpha, self.LOG_ALPHA
        )
        return value - exact[0], gradient - exact[1]

    def test_molchanov_is_the_published_formula(self):
        log_alpha = self.LOG_ALPHA
        k1, k2, k3 = 0.63576, 1.87320, 1.48695
        minus_kl = k1 * special.expit(k2 + k3 * log_alpha)
        minus_kl -= 0.5 * np.log1p(np.exp(-log_alpha)) + k1
        kl = LogUniformPrior("molchanov").kl_of_log_alpha(log_alpha)
        # Near zero, the reference cancels.
        self.assertAllClose(kl, -minus_kl, rtol=1e-10, atol=1e-14)

    def test_kingma_is_the_published_formula(self):
        log_alpha = self.LOG_ALPHA[self.LOG_ALPHA <= 0.0]
        alpha = np.exp(log_alpha)
        minus_kl = 0.5 * log_alpha + 1.16145124 * alpha
        minus_kl += -1.50204118 * alpha**2 + 0.58629921 * alpha**3
        constant = (EULER + np.log(2.0)) / 2.0
        kl = LogUniformPrior("kingma").kl_of_log_alpha(log_alpha)
        self.assertAllClose(kl, constant - minus_kl, rtol=1e-12, atol=0)

    def test_documented_errors(self):
        value, gradient = self.against_exact("molchanov")
        self.assertAllClose(np.abs(value).max(), 0.0094, atol=5e-5)
        self.assertAllClose(np.abs(gradient).max(), 0.0137, atol=5e-5)
        worst = self.LOG_ALPHA[[value.argmax(), gradient.argmin()]]
        self.assertAllClose(worst, [-3.5, -2.5], atol=0.05)

        value, gradient = self.against_exact("kingma")
        valid = self.LOG_ALPHA <= 0.0
        self.assertAllClose(np.abs(value[valid]).max(), 0.0403, atol=5e-5)
        inside = self.LOG_ALPHA < -1e-9
        self.assertAllClose(np.abs(gradient[inside]).max(), 0.0539, atol=8e-4)
        self.assertAllClose(
            self.LOG_ALPHA[np.abs(value * valid).argmax()], -2.1, atol=0.05
        )

    def test_kingma_is_constant_beyond_its_range(self):
        log_alpha = np.array([0.0, 0.5, 8.0, 1000.0])
        value, gradient = with_gradients(
            LogUniformPrior("kingma").kl_of_log_alpha, log_alpha
        )
        self.assertAllEqual(value, np.full(4, value[0]))
        self.assertAllEqual(gradient[1:], np.zeros(3))

    @parameterized.parameters("molchanov", "kingma")
    def test_both_parametrisations_agree(self, kl):
        prior = LogUniformPrior(kl)
        pairs = itertools.product((0.01, 0.7, 3.0), (-6.0, 0.0, 2.0))
        mean, log_variance = np.array(list(pairs)).T
        log_alpha = log_variance - 2.0 * np.log(mean)
        self.assertAllClose(
            prior.kl(-mean, log_variance),
            prior.kl_of_log_alpha(log_alpha),
            rtol=1e-12,
            atol=0,
        )


class ArgumentTest(TestCase):
    def test_unknown_form(self):
        with self.assertRaisesRegex(
            BayesdropError, r"`kl`. Expected one of 'exact'.*Received: kl='mc'"
        ):
            LogUniformPrior("mc")

    def test_says_that_it_is_improper(self):
        self.assertTrue(LogUniformPrior().improper)
        for word in ("improper", "maximum likelihood", "'horseshoe'"):
            self.assertIn(word, LogUniformPrior().warning)
