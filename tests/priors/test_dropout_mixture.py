# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from scipy import integrate
from scipy import stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import mixture_kl
from tests.helpers import TestCase


def exact_kl(mean, std, rate, length_scale):
    """The KL for one weight, by quadrature."""
    prior = stats.norm(0.0, 1.0 / length_scale)

    def integrand(weight):
        log_q = np.logaddexp(
            np.log1p(-rate) + stats.norm.logpdf(weight, mean, std),
            np.log(rate) + stats.norm.logpdf(weight, 0.0, std),
        )
        return np.exp(log_q) * (log_q - prior.logpdf(weight))

    # Ten widths beyond both components; densities there are below exp(-50).
    ends = (min(mean, 0.0) - 10.0 * std, max(mean, 0.0) + 10.0 * std)
    return integrate.quad(
        integrand,
        *ends,
        points=(0.0, mean),
        limit=400,
        epsabs=1e-11,
        epsrel=1e-11,
    )[0]


class MixtureKLTest(TestCase):
    @parameterized.product(
        rate=(0.02, 0.5, 0.9), std=(0.3, 1.0), length_scale=(0.5, 2.0)
    )
    def test_gap_to_the_exact_kl_in_one_dimension(
        self, rate, std, length_scale
    ):
        entropy = stats.bernoulli(rate).entropy()
        for ratio in (0.0, 0.5, 2.0, 4.0, 8.0, 14.0):
            mean = ratio * std
            approximate = float(
                mixture_kl(np.array([mean]), std, rate, length_scale)
            )
            gap = exact_kl(mean, std, rate, length_scale) - approximate
            bound = 2.0 * math.log(2.0) * math.sqrt(rate * (1.0 - rate))
            bound *= math.exp(-(ratio**2) / 8.0)
            # The quadrature is good to 1e-10.
            self.assertGreaterEqual(gap, -1e-9)
            self.assertLessEqual(gap, min(bound, entropy) + 1e-9)
            if ratio == 0.0:  # one Gaussian, and no entropy to take off
                self.assertAllClose(gap, entropy, rtol=0, atol=1e-9)
            if ratio == 2.0 and rate == 0.5:  # not a bound to be proud of
                self.assertGreater(gap, 0.3)

    def test_many_dimensions_by_sampling(self):
        # Five weights, a mean of norm 6 widths: the gap is below 6e-3.
        rng = np.random.default_rng(0)
        rate, std, length_scale, draws = 0.3, 0.4, 0.8, 400_000
        mean = rng.normal(size=5)
        mean *= 6.0 * std / np.linalg.norm(mean)
        keep = rng.random((draws, 1)) >= rate
        weights = keep * mean + std * rng.standard_normal((draws, 5))
        log_q = np.logaddexp(
            math.log(1.0 - rate) + stats.norm.logpdf(weights, mean, std).sum(1),
            math.log(rate) + stats.norm.logpdf(weights, 0.0, std).sum(1),
        )
        log_p = stats.norm.logpdf(weights, 0.0, 1.0 / length_scale).sum(1)
        sampled = log_q - log_p
        error = 4.0 * sampled.std() / math.sqrt(draws)
        gap = sampled.mean() - float(mixture_kl(mean, std, rate, length_scale))
        bound = 2.0 * math.log(2.0) * math.sqrt(0.21) * math.exp(-4.5)
        self.assertGreaterEqual(gap, -error)
        self.assertLessEqual(gap, bound + error)
        self.assertLess(error, 0.02)

    def test_value_of_the_documentation(self):
        # By hand: 0.25 * 5 + (0.01 - log(0.01) - 1) - log(2).
        self.assertAllClose(
            mixture_kl([[1.0, 2.0]], std=0.1, rate=0.5),
            [1.25 + 0.01 + math.log(100.0) - 1.0 - math.log(2.0)],
            rtol=1e-6,
        )

    @parameterized.parameters(0.0, 1.0)
    def test_without_a_choice_it_is_the_kl_of_a_gaussian(self, rate):
        mean, std, length_scale = np.array([0.3, -1.0]), 0.2, 1.5
        centre = (1.0 - rate) * mean
        # KL(N(m, s^2) || N(0, 1 / l^2)), term by term
        expected = np.sum(
            -np.log(std * length_scale)
            + 0.5 * length_scale**2 * (std**2 + centre**2)
            - 0.5
        )
        self.assertAllClose(
            mixture_kl(mean, std, rate, length_scale), expected, rtol=1e-12
        )

    def test_rates_that_are_learned(self):
        rate = tf.constant([0.1, 0.5])
        mean = tf.constant([[1.0, 2.0], [3.0, 0.0]])
        with tf.GradientTape() as tape:
            tape.watch(rate)
            kl = mixture_kl(mean, 0.1, rate)
        for row in range(2):
            self.assertAllClose(
                kl[row], mixture_kl(mean[row], 0.1, float(rate[row])), rtol=1e-6
            )
        # -|m|^2 / 2 + log(rate / (1 - rate))
        self.assertAllClose(
            tape.gradient(kl, rate), [-2.5 - math.log(9.0), -4.5], rtol=1e-5
        )

    def test_width_of_machine_precision(self):
        # l^2 * s^2 underflows in float32, and the square of 1e-200 in float64.
        for std in (1e-33, 1e-200):
            kl = mixture_kl([1.0, 1.0], std, 0.5)
            self.assertAllClose(
                kl, 0.5 - 2.0 * math.log(std) - 1.0 - math.log(2.0), rtol=1e-6
            )

    @parameterized.parameters(
        ("std", 0.0), ("length_scale", -1.0), ("rate", 1.5), ("rate", None)
    )
    def test_wrong_arguments(self, name, value):
        arguments = {"std": 0.1, "rate": 0.5, name: value}
        with self.assertRaisesRegex(
            BayesdropError, f"argument `{name}`. Expected .*Received: {name}="
        ):
            mixture_kl([1.0], **arguments)
