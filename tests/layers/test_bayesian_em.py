# SPDX-License-Identifier: Apache-2.0
"""Variational EM where both of its steps are exact: linear regression.

With y = X w + noise of precision beta and prior variances V, the best Gaussian
with independent weights has, in closed form,

    theta = (beta X'X + 1 / V)^-1 beta X' y
    sigma^2[i] = 1 / (beta (X'X)[i, i] + 1 / V[i])

since the expected log-likelihood is a quadratic function of `theta` plus one
of each `sigma^2`.
"""

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tests.helpers import TestCase
from tests.layers import bayesian
from tests.layers.bayesian import IN
from tests.layers.bayesian import OUT
from tests.layers.bayesian import PRIORS

BETA = 4.0
RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, IN))
KERNEL = RNG.normal(size=(IN, OUT)) + 1.0
NOISE = RNG.normal(size=(30, OUT)) / np.sqrt(BETA)


def targets(*sizes):
    """Targets to which each input contributes by its size."""
    return X @ (KERNEL * np.reshape(sizes, (IN, 1))) + NOISE


def e_step(layer, y):
    """Assigns the best posterior for the scales that the layer holds."""
    v = bayesian.prior_std(layer, layer.learned_scales()) ** 2
    gram = BETA * X.T @ X
    theta = np.stack(
        [
            np.linalg.solve(gram + np.diag(1 / v[:, j]), BETA * X.T @ y[:, j])
            for j in range(OUT)
        ],
        axis=1,
    )
    layer.kernel.assign(theta)
    layer.log_noise.assign(-np.log(np.diag(gram)[:, None] + 1 / v))


def lower_bound(layer, y):
    """The evidence lower bound, without constants; penalties in float64."""
    theta, log_variance = layer.kernel.value, layer.log_noise.value
    squares = tf.reduce_sum((y - X @ theta) ** 2)
    squares += tf.reduce_sum(X**2 @ tf.exp(log_variance))
    return -0.5 * BETA * squares - layer.penalty_nats()


def em_layer(structure, prior, scales):
    return bayesian.filled_layer(
        structure,
        prior,
        scales=scales,
        sigma0=0.7,
        dtype="float64",
        use_bias=False,
    )


def run_em(layer, y, rounds):
    """Returns the bound after every step."""
    m_step = tf.function(layer.update_scales, autograph=False)
    bound = tf.function(lambda: lower_bound(layer, y), autograph=False)
    bounds = []
    for _ in range(rounds):
        e_step(layer, y)
        bounds.append(float(bound()))
        m_step()
        bounds.append(float(bound()))
    return bounds


class EMTest(TestCase):
    @parameterized.parameters(*PRIORS)
    def test_the_bound_rises_in_every_step(self, structure, prior):
        layer = em_layer(structure, prior, "variable")
        # The last input is of no use: its scale has a long way to go.
        rises = np.diff(run_em(layer, targets(2.0, 1.0, 0.5, 0.0), 15))
        # The joint scales are solved to 3e-9, where the bound is flat.
        self.assertTrue(np.all(rises > -1e-9), msg=rises.min())
        self.assertGreater(rises[0], 0.01)

    @parameterized.parameters(*PRIORS)
    def test_it_comes_to_rest_where_in_line_scales_do(self, structure, prior):
        y = targets(2.0, 1.0, 1.0, 1.0)
        layer, inline = (
            em_layer(structure, prior, scales)
            for scales in ("variable", "inline")
        )
        bounds = run_em(layer, y, 40)
        inline.kernel.assign(layer.kernel)
        inline.log_noise.assign(layer.log_noise)
        variables = [inline.kernel.value, inline.log_noise.value]
        with tf.GradientTape() as tape:
            bound = lower_bound(inline, y)
        self.assertAllClose(float(bound), bounds[-1], rtol=1e-9)
        for slope in tape.gradient(bound, variables):
            self.assertLess(np.abs(slope).max(), 1e-6)
