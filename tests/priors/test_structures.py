# SPDX-License-Identifier: Apache-2.0
"""Structures of scales: one scale, the equations of the paper, bad input."""

import numpy as np
from absl.testing import parameterized
from scipy import optimize

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import structured_scales
from tests.helpers import TestCase
from tests.priors import scale_reference as reference


class OneScaleTest(TestCase):
    @parameterized.parameters(*reference.PRIORS)
    def test_scale_of_each_row(self, prior):
        moments = np.random.default_rng(0).exponential(size=(3, 5))
        scales = structured_scales("ard", moments, row_prior=prior)
        expected = [
            reference.best_variance(prior, np.sum(row), 5) for row in moments
        ]
        # See `test_closed_form_is_the_maximum` for the tolerance.
        self.assertAllClose(np.square(scales.rows), expected, rtol=1e-6)
        self.assertIsNone(scales.matrix)
        self.assertAllClose(scales.variance[:, 0], expected, rtol=1e-6)
        self.assertAllClose(
            scales.log_prob(prior, None),
            np.sum(reference.log_density(prior, np.sqrt(expected))),
            rtol=1e-5,
        )

    @parameterized.parameters(*reference.PRIORS)
    def test_scale_of_the_matrix(self, prior):
        moments = np.random.default_rng(0).exponential(size=(3, 5))
        scales = structured_scales("add", moments, matrix_prior=prior)
        expected = reference.best_variance(prior, np.sum(moments), 15)
        self.assertAllClose(np.square(scales.matrix), expected, rtol=1e-6)
        self.assertIsNone(scales.rows)
        self.assertAllClose(scales.variance, expected, rtol=1e-6)
        self.assertAllClose(
            scales.log_prob(None, prior),
            reference.log_density(prior, np.sqrt(expected)),
            rtol=1e-5,
        )

    def test_value_of_the_documentation(self):
        scales = structured_scales(
            "ard", [[4.0, 4.0], [0.0, 0.0]], row_prior="half_cauchy"
        )
        self.assertAllClose(scales.rows, [1.5332, 0.0], rtol=0, atol=5e-5)


class EquationEighteenTest(TestCase):
    """Scales against a search for the maximum of the evidence lower bound.

    Of that only the divergence of the posterior N(mean, std^2) of each weight
    from its prior, and the density of the scales, depend on the scales.
    """

    SIGMA0 = 0.7

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(4)
        self.mean = rng.normal(size=(3, 5)) * [[0.01], [1.0], [3.0]]
        self.std = rng.uniform(0.1, 1.0, size=(3, 5)) * [[0.1], [1.0], [0.5]]
        self.moments = (self.mean**2 + self.std**2) / self.SIGMA0**2

    def bound(self, scales, row=slice(None)):
        """Minus the divergence, term by term, for prior scales [rows, 1]."""
        mean, std = self.mean[row], self.std[row]
        prior = self.SIGMA0 * scales
        divergence = np.log(prior / std) - 0.5
        divergence = divergence + (std**2 + mean**2) / (2.0 * prior**2)
        return -np.sum(divergence)

    def best_scale(self, prior, row=slice(None)):
        optimum = optimize.minimize_scalar(
            lambda x: (
                -self.bound(np.exp(x), row)
                - reference.log_density(prior, np.exp(x))
            ),
            bracket=(-2.0, 2.0),
            tol=1e-10,
        )
        return np.exp(optimum.x)

    @parameterized.parameters(*reference.PRIORS)
    def test_ard(self, prior):
        scales = structured_scales("ard", self.moments, prior)
        expected = [self.best_scale(prior, row) for row in range(3)]
        # As in `test_closed_form_is_the_maximum`.
        self.assertAllClose(scales.rows, expected, rtol=1e-6)

    @parameterized.parameters(*reference.PRIORS)
    def test_add(self, prior):
        scales = structured_scales("add", self.moments, matrix_prior=prior)
        self.assertAllClose(scales.matrix, self.best_scale(prior), rtol=1e-6)

    @parameterized.parameters(*reference.PAIRS)
    def test_ard_add(self, row_prior, matrix_prior):
        def loss(x):
            rows, matrix = np.exp(x[:-1]), np.exp(x[-1])
            densities = np.sum(reference.log_density(row_prior, rows))
            densities += reference.log_density(matrix_prior, matrix)
            return -self.bound(rows[:, None] * matrix) - densities

        scales = structured_scales(
            "ard_add", self.moments, row_prior, matrix_prior
        )
        actual = reference.log_scales(scales)
        optimum = optimize.minimize(
            loss,
            np.zeros(4),
            jac="3-point",
            method="L-BFGS-B",
            options={"ftol": 0.0, "gtol": 1e-9, "maxiter": 5000},
        )
        # Differences of values near 100 over a step of 6e-6: slopes good to
        # 1e-8 or so, over a curvature above 0.01.
        self.assertAllClose(actual, optimum.x, rtol=0, atol=1e-5)
        self.assertLessEqual(loss(actual), optimum.fun + 1e-9)


class ErrorTest(TestCase):
    def test_unknown_structure(self):
        with self.assertRaisesRegex(
            BayesdropError,
            "argument `structure`. Expected one of 'ard', 'add', 'ard_add'. "
            "Received: structure='ardadd'",
        ):
            structured_scales("ardadd", np.ones((2, 2)), "half_cauchy")

    @parameterized.parameters(
        ("ard", "normal", None, "row_prior"),
        ("ard", None, None, "row_prior"),
        ("ard", "half_cauchy", "half_cauchy", "matrix_prior"),
        ("add", "half_cauchy", None, "row_prior"),
        ("add", None, None, "matrix_prior"),
        ("ard_add", "half_cauchy", None, "matrix_prior"),
    )
    def test_wrong_priors(self, structure, row_prior, matrix_prior, name):
        with self.assertRaisesRegex(
            BayesdropError, f"argument `{name}`. Expected .*Received: {name}="
        ):
            structured_scales(
                structure, np.ones((2, 2)), row_prior, matrix_prior
            )

    @parameterized.parameters((), (3,), (2, 3, 4))
    def test_wrong_shape(self, *shape):
        with self.assertRaisesRegex(
            BayesdropError, r"argument `moments`. Expected .*\[rows, columns\]"
        ):
            structured_scales("ard", np.ones(shape), "half_cauchy")
