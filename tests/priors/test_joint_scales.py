# SPDX-License-Identifier: Apache-2.0
"""The joint optimum of row scales and a matrix scale."""

import decimal
import itertools
from decimal import Decimal

import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from scipy import optimize

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale
from keras_bayesdrop.priors import structured_scales
from tests.helpers import TestCase
from tests.priors import scale_reference as reference


def joint_objective(row_prior, matrix_prior, x, row_moments, columns):
    """The density of weights and scales at the logs `x` of the scales."""
    rows, matrix = np.exp(x[:-1]), np.exp(x[-1])
    scales = rows * matrix
    gaussian = -columns * np.log(scales) - row_moments / (2.0 * scales**2)
    return (
        np.sum(gaussian)
        + np.sum(reference.log_density(row_prior, rows))
        + reference.log_density(matrix_prior, matrix)
    )


def joint_gradient(row_prior, matrix_prior, x, row_moments, columns):
    """Its gradient in `x`, by hand."""
    ratios = row_moments * np.exp(-2.0 * (x[:-1] + x[-1])) - columns

    def score(prior, log_tau):
        return float(
            reference.decimal_score(prior, Decimal(float(np.exp(2 * log_tau))))
        )

    return np.array(
        [
            *(r + score(row_prior, y) for r, y in zip(ratios, x, strict=False)),
            np.sum(ratios) + score(matrix_prior, x[-1]),
        ]
    )


class JointTest(TestCase):
    @parameterized.parameters(
        *((pair, 6) for pair in reference.PAIRS),
        *((pair, 1) for pair in reference.PAIRS[::4]),
    )
    def test_maximum_by_another_optimizer(self, pair, columns):
        rng = np.random.default_rng(1)
        moments = rng.exponential(size=(4, columns))
        moments *= [[1e-2], [1.0], [1.0], [30.0]]
        scales = structured_scales("ard_add", moments, *pair)
        actual = reference.log_scales(scales)
        sums = np.sum(moments, axis=1)

        def loss(x):
            return -joint_objective(*pair, x, sums, columns)

        def slope(x):
            return -joint_gradient(*pair, x, sums, columns)

        for start in (np.zeros(5), rng.normal(size=5), rng.normal(size=5) - 2):
            optimum = optimize.minimize(
                loss,
                start,
                jac=slope,
                method="L-BFGS-B",
                options={"ftol": 0.0, "gtol": 1e-9, "maxiter": 5000},
            )
            # It stops when no step lowers a loss of size F by more than its
            # rounding, 2^-52 * F: sqrt(1e-15 * 100 / curvature) away, and
            # the curvature of these problems is above 0.1.
            self.assertAllClose(actual, optimum.x, rtol=0, atol=3e-6)
            self.assertLessEqual(loss(actual), optimum.fun + 1e-9)
        # The stationary point itself, where rounding plays no part: the
        # scales are good to 3e-9, and the slopes change by at most
        # 2 * (rows * columns + scores) < 100 for each unit of log(tau).
        self.assertAllClose(slope(actual), np.zeros(5), rtol=0, atol=3e-7)

    @parameterized.parameters(
        (InverseGammaScale(3.0, 3.0), InverseGammaScale(2.0, 1.0)),
        (HalfCauchyScale(1.0), HalfCauchyScale(0.5)),
    )
    def test_plain_sweeps_rise_to_the_same_place(self, row_prior, matrix_prior):
        def best(prior, moments, count):  # closed forms, as printed
            if isinstance(prior, InverseGammaScale):
                return (moments + 2 * prior.b) / (count + 2 * prior.a + 2)
            eta2 = prior.eta**2
            h = moments - count * eta2
            root = np.sqrt(h * h + 4 * (count + 2) * moments * eta2)
            return (h + root) / (2 * (count + 2))

        moments = np.random.default_rng(2).exponential(size=(5, 4))
        sums = np.sum(moments, axis=1)
        matrix = 1.0
        values = []
        for sweep in range(2000):
            rows = best(row_prior, sums / matrix, 4)
            matrix = best(matrix_prior, np.sum(sums / rows), 20)
            if sweep > 100 and sweep % 100:
                continue
            values.append(
                joint_objective(
                    row_prior,
                    matrix_prior,
                    0.5 * np.log([*rows, matrix]),
                    sums,
                    4,
                )
            )
        # Monotone up to the rounding of values near 100.
        self.assertGreater(np.min(np.diff(values)), -1e-12)
        scales = structured_scales("ard_add", moments, row_prior, matrix_prior)
        # log(T) is good to 3e-9.
        self.assertAllClose(np.square(scales.rows), rows, rtol=1e-8)
        self.assertAllClose(np.square(scales.matrix), matrix, rtol=1e-8)

    @parameterized.product(
        pair=(
            (InverseGammaScale(3.0, 3.0), InverseGammaScale(3.0, 3.0)),
            (HalfCauchyScale(1.0), HalfCauchyScale(1.0)),
            (InverseGammaScale(3.0, 3.0), HalfCauchyScale(1.0)),
            (HalfCauchyScale(1.0), InverseGammaScale(3.0, 3.0)),
        ),
        shape=((13, 2), (1, 3)),
    )
    def test_float32_with_moments_spread_over_24_decades(self, pair, shape):
        row_prior, matrix_prior = pair
        rows, columns = shape
        # One row alone: the worst case, where both scales are 1e6 and the
        # scores of the half-Cauchy differ by 1e-6.
        powers = np.linspace(-12, 12, rows) if rows > 1 else [12.0]
        moments = np.tile(10.0 ** np.reshape(powers, (-1, 1)), (1, columns))
        moments = moments.astype("float32")
        sums = [Decimal(float(m)) * columns for m in moments[:, 0]]

        def best_row(prior, m):
            if isinstance(prior, InverseGammaScale):
                a, b = Decimal(prior.a), Decimal(prior.b)
                return (m + 2 * b) / (columns + 2 * a + 2)
            h = m - columns
            root = (h * h + 4 * (columns + 2) * m).sqrt()
            return (h + root) / (2 * (columns + 2))

        def slope(matrix):
            gained = sum(
                m / matrix / best_row(row_prior, m / matrix) for m in sums
            )
            score = reference.decimal_score(matrix_prior, matrix)
            return gained - rows * columns + score

        matrix = reference.bisect(slope)
        with decimal.localcontext(decimal.Context(prec=50)):
            exact = [best_row(row_prior, m / matrix) for m in sums]
        compiled = tf.function(
            lambda m: structured_scales("ard_add", m, *pair), jit_compile=True
        )
        for scales in (
            structured_scales("ard_add", moments, *pair),
            compiled(tf.constant(moments)),
        ):
            self.assertEqual(scales.rows.dtype, tf.float32)
            # Rounded are the sum of a row, twice at most, and the root, whose
            # square has twice its error: 4 * 2^-24 = 2.4e-7.
            self.assertLess(
                reference.relative_error(
                    np.square(np.float64(scales.rows)), exact
                ),
                3e-7,
            )
            self.assertLess(
                reference.relative_error(
                    [np.square(np.float64(scales.matrix))], [matrix]
                ),
                3e-7,
            )

    @parameterized.parameters(*reference.PAIRS)
    def test_rows_of_zeros(self, row_prior, matrix_prior):
        for moments in (
            np.zeros((4, 2)),
            np.array([[0.0, 0.0]] * 3 + [[1, 2]]),
        ):
            scales = structured_scales(
                "ard_add", moments.astype("float32"), row_prior, matrix_prior
            )
            values = np.append(scales.rows, scales.matrix)
            self.assertTrue(np.all(np.isfinite(values)))
            self.assertTrue(np.all(values >= 0.0))
            if not isinstance(row_prior, InverseGammaScale):
                self.assertAllEqual(scales.rows[:3], [0.0] * 3)

    def test_no_gradient_flows_through_scales(self):
        for structure, scale_priors in (
            ("ard", ("half_cauchy", None)),
            ("add", (None, "half_cauchy")),
            ("ard_add", ("half_cauchy", "half_cauchy")),
        ):
            moments = tf.constant([[1.0, 2.0], [3.0, 4.0]])
            with tf.GradientTape() as tape:
                tape.watch(moments)
                scales = structured_scales(structure, moments, *scale_priors)
                total = tf.reduce_sum(scales.variance)
            self.assertIsNone(tape.gradient(total, moments))

    def test_moments_of_a_posterior(self):
        # With a posterior N(mu, s^2) of each weight the scales maximise
        # E log N(w; 0, tau^2) + log p(tau), here by quadrature.
        mean, std = np.array([[0.3, -1.2]]), np.array([[0.5, 0.1]])
        prior = HalfCauchyScale(0.7)
        nodes, weights = np.polynomial.hermite_e.hermegauss(8)
        draws = mean[..., None] + std[..., None] * nodes
        weights = weights / np.sum(weights)

        def loss(x):
            tau = np.exp(x)
            inside = -np.log(tau) - draws**2 / (2.0 * tau**2)
            return -np.sum(inside @ weights) - reference.log_density(prior, tau)

        optimum = optimize.minimize_scalar(loss, bracket=(-1, 1), tol=1e-10)
        scales = structured_scales("ard", mean**2 + std**2, prior)
        self.assertAllClose(scales.rows, [np.exp(optimum.x)], rtol=1e-6)


class NoJointOptimumTest(TestCase):
    @parameterized.parameters(
        *(
            (LogUniformScale(first), LogUniformScale(second))
            for first, second in itertools.product(
                reference.VARIABLES, repeat=2
            )
        ),
        (LogUniformScale(), HalfCauchyScale()),
        (LogUniformScale("log_scale"), HalfCauchyScale()),
    )
    def test_never(self, row_prior, matrix_prior):
        # Refused before anything is known of the weights.
        with self.assertRaisesRegex(
            BayesdropError,
            "no joint optimum: .* Expected priors .* Received: row_prior="
            r".*, matrix_prior=[A-Za-z]*\([^)]*\)$",
        ):
            structured_scales("ard_add", None, row_prior, matrix_prior)

    @parameterized.parameters(
        # The score of the matrix at infinity is -(2 * 3 + 2) = -8, and each
        # log-uniform row over the variance has -2: four rows are too many.
        (LogUniformScale(), InverseGammaScale(3.0, 3.0), 3, 4),
        # -8 again, and -1 for a row of the half-Cauchy over the variance.
        (
            HalfCauchyScale(variable="variance"),
            InverseGammaScale(3.0, 3.0),
            7,
            8,
        ),
    )
    def test_with_too_many_rows(self, row_prior, matrix_prior, fits, too_many):
        priors = (row_prior, matrix_prior)
        moments = np.ones((fits, 2))
        scales = structured_scales("ard_add", moments, *priors)
        x = reference.log_scales(scales)
        slopes = joint_gradient(*priors, x, np.sum(moments, axis=1), 2)
        self.assertAllClose(slopes, np.zeros(fits + 1), rtol=0, atol=3e-7)
        with self.assertRaisesRegex(
            BayesdropError,
            "matrix scale gets larger .*Expected priors .*Received: .*"
            f"{too_many} rows and 2 columns",
        ):
            structured_scales("ard_add", np.ones((too_many, 2)), *priors)
        # There the density rises without end, as the message says.
        values = [
            joint_objective(
                *priors,
                np.array([-t] * too_many + [t]),
                np.full(too_many, 2.0),
                2,
            )
            for t in (5.0, 10.0, 20.0)
        ]
        self.assertGreaterEqual(np.min(np.diff(values)), -1e-9)

    def test_with_too_few_rows(self):
        # At T = 0 one row adds 1, and the matrix over the variance takes it.
        priors = (
            HalfCauchyScale(1.0, "log_scale"),
            HalfCauchyScale(1.0, "variance"),
        )
        with self.assertRaisesRegex(BayesdropError, "scale gets smaller"):
            structured_scales("ard_add", np.ones((1, 2)), *priors)
        structured_scales("ard_add", np.ones((2, 2)), *priors)
