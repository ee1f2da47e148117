# SPDX-License-Identifier: Apache-2.0
import functools

import mpmath
import numpy as np
from absl.testing import parameterized
from numpy.polynomial import chebyshev
from numpy.polynomial import polynomial

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import HorseshoePrior
from keras_bayesdrop.priors import _horseshoe_table as table
from tests.helpers import TestCase
from tests.priors import fit_horseshoe
from tests.priors.weight_reference import expectation
from tests.priors.weight_reference import kl_by_definition
from tests.priors.weight_reference import with_gradients

# What the class promises.
VALUE_ERROR = 1e-5
GRADIENT_ERROR = 5e-5

# What of the KL is neither f nor log sigma.
CONSTANT = 0.5 * np.log(2.0 * np.pi**3) - 0.5 * (1.0 + np.log(2.0 * np.pi))


def minus_log_prior(w, scale=1):
    z = w**2 / (2 * mpmath.mpf(scale) ** 2)
    norm = mpmath.log(2 * mpmath.pi**3) / 2 + mpmath.log(scale)
    if z > 1e6:  # three terms of the asymptotic series, exact to 1e-18
        return norm + mpmath.log(z) - mpmath.log1p(-1 / z + 2 / z**2)
    return norm - mpmath.log(mpmath.e1(z)) - z


def minus_log(w):
    """f(z) and its derivative by w, at z = w^2 / 2, in double precision."""
    log_z = 2.0 * np.log(w) - np.log(2.0)
    value = fit_horseshoe.minus_log(log_z)
    z = np.exp(log_z)
    # z f'(z) = 1 / (e^z E1(z)) - z, and 1 - 1 / z + 4 / z^2 for large z.
    slope = np.exp(np.minimum(value, 30.0)) - z
    large = np.maximum(z, 1e3)
    series = 1.0 - 1.0 / large + 3.0 / large**2 - 13.0 / large**3
    slope = np.where(z > 1e3, series, slope)
    return value, 2.0 * slope / w


class DefinitionTest(TestCase):
    @parameterized.parameters(1e-4, 0.3, 2.0, 30.0)
    def test_density_is_the_scale_mixture(self, w):
        scale = mpmath.mpf("0.7")
        mixture = mpmath.quad(
            lambda s: (
                mpmath.npdf(w, 0, scale * s) * 2 / (mpmath.pi * (1 + s**2))
            ),
            [0, w, 1, 10 * (1 + w), mpmath.inf],
        )
        closed = mpmath.exp(-minus_log_prior(mpmath.mpf(w), scale))
        self.assertAllClose(float(mixture / closed), 1.0, rtol=1e-12)

    @parameterized.parameters(
        # mean, sigma, scale
        (0.0, 1.0, 1.0),
        (0.02, 0.01, 1.0),
        (0.3, 1e-3, 0.5),
        (-2.0, 0.7, 1.0),
        (50.0, 20.0, 0.1),
        (0.0, 1e-6, 1.0),
        (1e4, 1e6, 1.0),
    )
    def test_kl_by_quadrature(self, mean, sigma, scale):
        expected = float(
            kl_by_definition(
                lambda w: minus_log_prior(w, scale),
                mean,
                sigma,
                (0, scale, -scale, 8 * scale, -8 * scale),
                digits=15,
            )
        )
        prior = HorseshoePrior(scale)
        for dtype in ("float32", "float64"):
            arguments = np.array([mean, 2.0 * np.log(sigma)], dtype)
            # float32: and 4e-7 for the rounding of the arguments.
            self.assertAllClose(
                prior.kl(*arguments), expected, rtol=4e-7, atol=VALUE_ERROR
            )


def expected(mean, sigma):
    """E f(w) and sigma times its derivative by the mean, for arrays."""
    pairs = zip(mean, sigma, strict=True)
    return np.array([expectation(minus_log, m, s) for m, s in pairs]).T


@functools.cache
def cases():
    """sigma / scale from 1e-6 to 1e6, mean / sigma from 0 to 1e4, the truth.

    The truth is the KL, sigma times its derivative by the mean, and that by
    the log-variance.
    """
    rng = np.random.default_rng(0)
    log_variance = rng.uniform(2 * np.log(1e-6), 2 * np.log(1e6), 300)
    log_variance[::2] = rng.uniform(-8.0, 8.0, 150)
    ratio = 10.0 ** rng.uniform(-3.0, 4.0, 300)
    ratio[:200] = np.abs(rng.normal(0.0, 4.0, 200))
    ratio[::10] = 0.0
    mean = ratio * np.exp(log_variance / 2.0)
    # The same for both dtypes.
    mean = mean.astype("float32").astype("float64")
    log_variance = log_variance.astype("float32").astype("float64")
    sigma = np.exp(log_variance / 2.0)
    value, by_mean = expected(mean, sigma)
    # Central differences over steps of 1e-3 in log sigma: their error is
    # 1e-6 / 6 times a third derivative below ten.
    change = expected(mean, sigma * np.exp(1e-3))[0]
    change -= expected(mean, sigma * np.exp(-1e-3))[0]
    value += CONSTANT - log_variance / 2.0
    return mean, log_variance, value, by_mean, change / 4e-3 - 0.5


class RangeTest(TestCase):
    @parameterized.parameters(
        ("float32", False), ("float32", True), ("float64", False)
    )
    def test_value_and_gradients(self, dtype, jit_compile):
        mean, log_variance, *truth = cases()
        value, by_mean, by_log_variance = with_gradients(
            HorseshoePrior().kl,
            mean.astype(dtype),
            log_variance.astype(dtype),
            jit_compile=jit_compile,
        )
        rounding = 4e-7 * np.abs(truth[0]) if dtype == "float32" else 0.0
        error = np.abs(value - truth[0])
        self.assertLess((error - rounding).max(), VALUE_ERROR)
        error = np.abs(by_log_variance - truth[2])
        self.assertLess(error.max(), GRADIENT_ERROR)

        sigma = np.exp(log_variance / 2.0)
        error = np.abs(by_mean * sigma - truth[1])
        self.assertLess((error * mean / sigma).max(), GRADIENT_ERROR)
        # The gradient pulls a small mean to zero: its relative error matters.
        some = mean > 0.0
        self.assertLess((error[some] / truth[1][some]).max(), 1e-4)
        self.assertAllEqual(by_mean[~some], np.zeros(30))

    def test_far_beyond_the_range(self):
        # log z f -> log z for sigma -> infinity, -log(-log z) for sigma -> 0,
        # both with a remainder that vanishes.
        log_variance = np.array([-160.0, 150.0])
        kl = HorseshoePrior().kl(np.zeros(2), log_variance)
        log_z = log_variance - np.euler_gamma - 2.0 * np.log(2.0)
        # The mean of -log(-log z), to second order in the spread of log z,
        # whose variance is pi^2 / 2.
        small = -np.log(-log_z[0] - np.euler_gamma)
        small += np.pi**2 / 4.0 / (log_z[0] + np.euler_gamma) ** 2
        truth = np.array([small, log_z[1]]) + CONSTANT - log_variance / 2.0
        self.assertAllClose(kl, truth, rtol=0, atol=2e-5)

    def test_scale_is_the_unit_of_weights(self):
        mean, log_variance, *_ = cases()
        scaled = HorseshoePrior(0.1).kl(
            0.1 * mean, log_variance + 2 * np.log(0.1)
        )
        self.assertAllClose(
            scaled, HorseshoePrior().kl(mean, log_variance), rtol=0, atol=1e-9
        )


class TableTest(TestCase):
    def test_is_what_quadrature_gives(self):
        by_ratio, by_scale = fit_horseshoe.factors(fit_horseshoe.interpolant())
        grid = np.linspace(-1.0, 1.0, 41)
        expected = chebyshev.chebgrid2d(grid, grid, by_ratio.T @ by_scale)
        actual = polynomial.polygrid2d(
            grid, grid, np.array(table.BY_RATIO).T @ np.array(table.BY_SCALE)
        )
        # Eight digits of 150 coefficients of about one.
        self.assertAllClose(actual, expected, rtol=0, atol=1e-6)


class ArgumentTest(TestCase):
    def test_bad_scale(self):
        with self.assertRaisesRegex(
            BayesdropError, "`scale`. Expected a positive, finite float"
        ):
            HorseshoePrior(0.0)
