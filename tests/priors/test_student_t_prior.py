# SPDX-License-Identifier: Apache-2.0
import functools

import mpmath
import numpy as np
from absl.testing import parameterized
from scipy import stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.priors import StudentTPrior
from keras_bayesdrop.priors._log1p_square import expected_log1p_square
from tests.helpers import TestCase
from tests.priors.weight_reference import expectation
from tests.priors.weight_reference import kl_by_definition
from tests.priors.weight_reference import with_gradients


def log1p_square(w):
    return np.log1p(w**2), 2.0 * w / (1.0 + w**2)


class DefinitionTest(TestCase):
    @parameterized.parameters(
        # mean, sigma, df, scale
        (0.0, 1.0, 1.0, 1.0),
        (0.3, 0.01, 3.0, 0.1),
        (-2.0, 0.5, 3.0, 1.0),
        (5.0, 20.0, 0.5, 0.2),
        (1e-3, 1e-4, 30.0, 2.0),
        (40.0, 3.0, 6.0, 1.0),
    )
    def test_kl_by_quadrature(self, mean, sigma, df, scale):
        def minus_log_prior(w):
            df_, scale_ = mpmath.mpf(df), mpmath.mpf(scale)
            norm = mpmath.log(df_ * mpmath.pi) / 2 + mpmath.log(scale_)
            norm += mpmath.loggamma(df_ / 2) - mpmath.loggamma((df_ + 1) / 2)
            return norm + (df_ + 1) / 2 * mpmath.log1p(w**2 / (df_ * scale_**2))

        unit = scale * df**0.5
        # The integrand has poles this far from the real line.
        breaks = (0, unit, -unit, 5 * unit, -5 * unit)
        expected = float(
            kl_by_definition(minus_log_prior, mean, sigma, breaks, digits=20)
        )
        prior = StudentTPrior(df, scale)
        for dtype, rtol in (("float32", 1e-5), ("float64", 1e-12)):
            arguments = np.array([mean, 2.0 * np.log(sigma)], dtype)
            self.assertAllClose(
                prior.kl(*arguments), expected, rtol=rtol, atol=0
            )

    def test_density_is_that_of_scipy(self):
        # A posterior so narrow that KL = -log p(mean) - entropy.
        mean = np.array([0.0, 0.2, -7.0])
        log_variance = np.full(3, -50.0)
        entropy = 0.5 * (np.log(2.0 * np.pi) + 1.0 - 50.0)
        kl = StudentTPrior(2.5, 0.4).kl(mean, log_variance)
        log_prior = stats.t.logpdf(mean, 2.5, scale=0.4)
        self.assertAllClose(kl, -log_prior - entropy, rtol=1e-12, atol=0)


@functools.cache
def cases():
    """sigma from 1e-6 to 1e6, mean / sigma from 0 to 1e4, and the truth.

    The truth is E log(1 + w^2) and sigma times its two derivatives.
    """
    rng = np.random.default_rng(0)
    sigma = np.exp(rng.uniform(np.log(1e-6), np.log(1e6), 200))
    # Where the methods change.
    sigma[:96] = np.repeat([0.199, 0.201, 0.399, 0.401], 24)
    ratio = 10.0 ** rng.uniform(-3.0, 4.0, 200)
    ratio[:96] = np.tile(np.linspace(0.0, 12.0, 24), 4)
    ratio[96:130] = np.abs(rng.normal(0.0, 4.0, 34))
    mean = np.minimum(ratio * sigma, 1e8)
    mean[::10] = 0.0
    # The same for both dtypes.
    mean = mean.astype("float32").astype("float64")
    sigma = sigma.astype("float32").astype("float64")

    def expected(sigma):
        pairs = zip(mean, sigma, strict=True)
        values = [expectation(log1p_square, m, s) for m, s in pairs]
        return np.array(values).T

    value, by_mean = expected(sigma)
    # A difference of fourth order over steps of 1e-3 of sigma: 1e-12 from the
    # steps, and 1e-12 from rounding.
    weights = {-2: 1.0, -1: -8.0, 1: 8.0, 2: -1.0}
    by_sigma = sum(
        weight * expected(sigma * (1.0 + 1e-3 * step))[0]
        for step, weight in weights.items()
    ) / (12.0 * 1e-3)
    return mean, sigma, value, by_mean, by_sigma


class ExpectationTest(TestCase):
    """E log(1 + w^2), of which the KL is a linear function."""

    @parameterized.parameters(
        ("float32", False), ("float32", True), ("float64", False)
    )
    def test_value_and_gradients(self, dtype, jit_compile):
        mean, sigma, *truth = cases()
        value, by_mean, by_sigma = with_gradients(
            expected_log1p_square,
            mean.astype(dtype),
            sigma.astype(dtype),
            jit_compile=jit_compile,
        )
        # What `StudentTPrior` promises; the reference itself is good to 1e-13.
        rtol = 1e-5 if dtype == "float32" else 1e-12
        self.assertAllClose(value, truth[0], rtol=rtol, atol=0)
        # By a mean far below sigma the reference cancels some digits.
        self.assertAllClose(
            by_mean * sigma, truth[1], rtol=max(rtol, 1e-11), atol=0
        )
        error = np.abs(by_sigma * sigma - truth[2]) / truth[0]
        self.assertLess(error.max(), max(rtol, 1e-10))


class LimitTest(TestCase):
    @parameterized.parameters("float32", "float64")
    def test_many_degrees_of_freedom_are_a_gaussian(self, dtype):
        mean = np.array([0.0, 0.1, -1.5, 4.0], dtype)
        log_variance = np.array([-8.0, 0.3, 1.0, -2.0], dtype)
        student = with_gradients(StudentTPrior(1e7, 0.7).kl, mean, log_variance)
        gaussian = with_gradients(GaussianPrior(0.7).kl, mean, log_variance)
        # The first correction is E[x^4 - 2 x^2 - 1] / (4 df) with x = w / 0.7,
        # below 1100 / 4e7; its derivatives are below four times that.
        for one, other in zip(student, gaussian, strict=True):
            self.assertAllClose(one, other, rtol=1e-5, atol=1.2e-4)

    @parameterized.parameters(1e3, 1e8, 1e15)
    def test_constant_does_not_cancel(self, df):
        # KL of the prior's own narrow Gaussian: only the constant matters.
        kl = StudentTPrior(df).kl(np.zeros(1), np.zeros(1))
        # At mean 0, sigma 1: (log(df / 2) / 2 - log Gamma ratio) is
        # 1 / (4 df), and E log(1 + w^2 / df) is 1 / df - 3 / (2 df^2).
        expected = 0.5 * (df + 1) * (1 / df - 1.5 / df**2) - 0.5 + 0.25 / df
        self.assertAllClose(kl, [expected], rtol=0, atol=10.0 / df**2 + 1e-14)


class ArgumentTest(TestCase):
    @parameterized.parameters({"df": 0.0}, {"df": None}, {"scale": -1.0})
    def test_bad_argument(self, **arguments):
        (name,) = arguments
        with self.assertRaisesRegex(
            BayesdropError, f"`{name}`. Expected a positive, finite float"
        ):
            StudentTPrior(**arguments)
