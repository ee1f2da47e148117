# SPDX-License-Identifier: Apache-2.0
import itertools

import mpmath
import numpy as np
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import GaussianPrior
from tests.helpers import TestCase
from tests.priors.weight_reference import kl_by_definition
from tests.priors.weight_reference import with_gradients


class GaussianTest(TestCase):
    @parameterized.parameters(0.05, 1.0, 30.0)
    def test_definition(self, stddev):
        pairs = list(itertools.product((0.0, -0.3, 40.0), (-14.0, 2.0)))
        mean, log_variance = np.array(pairs).T
        expected = [
            float(
                kl_by_definition(
                    lambda w: -mpmath.log(mpmath.npdf(w, 0, stddev)),
                    m,
                    mpmath.exp(mpmath.mpf(v) / 2),
                )
            )
            for m, v in pairs
        ]
        kl = GaussianPrior(stddev).kl(mean, log_variance)
        self.assertAllClose(kl, expected, rtol=1e-13, atol=0)

    def test_gradients(self):
        mean = np.array([0.0, -0.3, 40.0])
        log_variance = np.array([-14.0, 0.5, 3.0])
        _, by_mean, by_log_variance = with_gradients(
            GaussianPrior(0.5).kl, mean, log_variance
        )
        self.assertAllClose(by_mean, 4.0 * mean, rtol=1e-14, atol=0)
        expected = 2.0 * np.exp(log_variance) - 0.5
        self.assertAllClose(by_log_variance, expected, rtol=1e-14, atol=0)

    def test_zero_where_posterior_is_prior(self):
        kl = GaussianPrior(0.3).kl(np.zeros(1), np.full(1, 2.0 * np.log(0.3)))
        self.assertAllEqual(kl, [0.0])

    @parameterized.parameters(0.0, -1.0, np.nan, np.inf, "1", True)
    def test_bad_stddev(self, stddev):
        with self.assertRaisesRegex(
            BayesdropError, "`stddev`. Expected a positive, finite float"
        ):
            GaussianPrior(stddev)
