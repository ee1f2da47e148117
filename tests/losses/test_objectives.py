# SPDX-License-Identifier: Apache-2.0
import fractions

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.losses.objectives import OBJECTIVES
from keras_bayesdrop.losses.objectives import SAMPLE_WEIGHTS
from keras_bayesdrop.losses.objectives import importance_weighted
from keras_bayesdrop.losses.objectives import lower_bound
from keras_bayesdrop.losses.objectives import tail_adaptive_weights
from tests.helpers import TestCase


class ObjectiveTest(TestCase):
    def test_by_hand(self):
        logs = np.log(np.array([[1.0, 2.0, 3.0, 4.0]]))
        self.assertAllClose(lower_bound(logs), [np.log(24.0) / 4])
        self.assertAllClose(importance_weighted(logs), [np.log(2.5)])

    def test_tail_adaptive_weights_by_hand(self):
        """Of four, two tie in second place: both have three at least."""
        logs = np.array([-1.0, -5.0, -3.0, -3.0])
        # 4 / 1, 4 / 4, 4 / 3, 4 / 3, which sum to 23 / 3.
        gammas = [fractions.Fraction(4, n) for n in (1, 4, 3, 3)]
        want = [float(gamma / sum(gammas)) for gamma in gammas]
        self.assertAllClose(want, [12 / 23, 3 / 23, 4 / 23, 4 / 23])
        self.assertAllClose(tail_adaptive_weights(logs), want, rtol=1e-12)
        many = np.stack([logs, logs[::-1]])
        self.assertAllClose(
            tail_adaptive_weights(many), [want, want[::-1]], rtol=1e-12
        )

    def test_tail_adaptive_weights_of_equals(self):
        self.assertAllClose(tail_adaptive_weights(np.zeros(5)), [0.2] * 5)

    @parameterized.parameters(*OBJECTIVES)
    def test_gradient_is_the_weights(self, name):
        logs = tf.constant([[-1.0, -2.5, -2.5, -0.3]], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(logs)
            value = OBJECTIVES[name](logs)
        likelihood = np.exp(logs.numpy())
        want = {
            "lower_bound": np.full((1, 4), 0.25),
            "importance_weighted": likelihood / likelihood.sum(),
            "tail_adaptive": np.array([[6.0, 3.0, 3.0, 12.0]]) / 24.0,
        }
        gradient = tape.gradient(value, logs)
        self.assertAllClose(gradient, want[name], rtol=1e-12)
        self.assertAllClose(SAMPLE_WEIGHTS[name](logs), want[name], rtol=1e-12)

    @parameterized.product(name=tuple(OBJECTIVES), shift=(-1e4, 0.0, 1e4))
    def test_far_from_one(self, name, shift):
        """exp of -1e4 is zero in any precision, and of 1e4 infinite."""
        near = np.array([-2.0, 0.0, 1.0, 5.0])
        want = np.asarray(OBJECTIVES[name](near)) + shift
        logs = tf.constant(near + shift, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(logs)
            value = OBJECTIVES[name](logs)
        # At 1e4 a float32 has steps of 1e-3.
        self.assertAllClose(value, want, atol=2e-3)
        gradient = tape.gradient(value, logs)
        self.assertAllClose(np.sum(gradient), 1.0, rtol=1e-5)

    @parameterized.parameters(*OBJECTIVES)
    def test_one_sample_is_itself(self, name):
        logs = np.array([[-3.0], [-1e4]], "float32")
        self.assertAllClose(OBJECTIVES[name](logs), logs[:, 0])

    @parameterized.parameters(*OBJECTIVES)
    def test_what_is_not_a_number_shows(self, name):
        """A lost training run must not look like a good one."""
        logs = np.array([-1.0, np.nan, -2.0], "float32")
        self.assertTrue(np.isnan(OBJECTIVES[name](logs)))

    def test_expectation_is_a_bound_that_tightens(self):
        """For l ~ N(0, 1), log E[exp(l)] = 1/2 and E[l] = 0."""
        draws = 20000
        logs = keras.random.normal((draws, 16), dtype="float64", seed=1)
        means, errors = [], []
        for samples in (1, 2, 4, 16):
            values = np.asarray(importance_weighted(logs[:, :samples]))
            means.append(values.mean())
            errors.append(values.std() / np.sqrt(draws))
        self.assertLess(abs(means[0]), 4 * errors[0])
        self.assertLess(means[-1], 0.5 + 4 * errors[-1])
        for lower, upper, error in zip(means, means[1:], errors, strict=False):
            # The error of the difference is at most that of both together.
            self.assertGreater(upper - lower, 8 * error)
        # A single estimate is not below: the errata of equation 15.
        some = np.asarray(importance_weighted(logs[:, :2]))
        self.assertGreater(np.mean(some > 0.5), 0.1)
