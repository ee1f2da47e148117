# SPDX-License-Identifier: Apache-2.0
"""Dense layers with a structured prior: their noise, KL and gradients."""

import keras
import numpy as np
import scipy.optimize
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.layers._random import draw_signs
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.sparsity import prune
from tests.helpers import TestCase
from tests.layers import bayesian
from tests.layers.bayesian import IN
from tests.layers.bayesian import OUT
from tests.layers.bayesian import PRIORS
from tests.layers.bayesian import filled_layer

ESTIMATORS = ("flipout", "local")
CALLS = 4000


def draws(layer, x, calls=CALLS):
    """Outputs [calls, rows, ...] of training, each call with noise anew."""

    @tf.function(autograph=False)
    def run():
        return tf.map_fn(
            lambda _: layer(x, training=True),
            tf.range(calls),
            fn_output_signature=layer.compute_dtype,
        )

    return np.array(run(), "float64")


class NoiseTest(TestCase):
    @parameterized.product(
        estimator=ESTIMATORS, policy=("float32", "mixed_float16", "float64")
    )
    def test_outputs_have_the_moments_of_weight_draws(self, estimator, policy):
        layer = filled_layer(estimator=estimator, dtype=policy)
        x = np.array([[0.5, -1.0, 2.0, 0.0], [1.0, 0.7, 1.5, -1.0]])
        y = draws(layer, x).reshape(CALLS, -1)
        theta, variance = bayesian.posterior(layer)
        mean = (x @ theta + np.array(layer.bias)).reshape(-1)
        spread = (x**2 @ variance).reshape(-1)
        # Outputs below 16 and their sums, in float16: within 2^-6 of the truth.
        rounding = 2.0**-6 if policy == "mixed_float16" else 0.0
        error = np.abs(y.mean(0) - mean)
        # 5 standard errors of each mean.
        allowed = 5 * np.sqrt(spread / CALLS) + rounding
        self.assertTrue(np.all(error <= allowed), msg=error / allowed)
        centred = y - mean
        error = np.abs(centred.T @ centred / CALLS - np.diag(spread))
        # Each deviation is Gaussian: the variance of a product of two is at
        # most the root of the product of their fourth moments, 3 v w. In
        # flipout two examples have the same draw up to signs, and come near.
        allowed = 5 * np.sqrt(3 * np.outer(spread, spread) / CALLS) + rounding
        self.assertTrue(np.all(error <= allowed), msg=error / allowed)

    def test_signs_are_plus_and_minus_one(self):
        for jit_compile in (True, False):
            seed = keras.random.SeedGenerator(3)
            draw = tf.function(
                lambda seed=seed: draw_signs((100, 1000), "float32", seed),
                jit_compile=jit_compile,
            )
            first, second = (np.array(draw()).reshape(-1) for _ in range(2))
            self.assertAllEqual(np.unique(first), [-1.0, 1.0])
            # 5 standard errors of a mean of 100_000 signs: 0.016.
            self.assertLess(abs(first.mean()), 0.016)
            self.assertLess(abs(np.mean(first * second)), 0.016)
            self.assertLess(abs(np.mean(first[1:] * first[:-1])), 0.016)

    def test_flipout_is_one_draw_up_to_signs(self):
        # One input and no means: r * s * sigma * e, of one size in a batch.
        layer = BayesianDense(2, 50, kernel_initializer="zeros")
        y = np.array(layer(np.ones((4000, 1)), training=True))
        sizes = np.abs(y)
        self.assertAllEqual(sizes, np.tile(sizes[:1], (4000, 1)))
        # 5 standard errors of a mean of 4000 signs: 0.079.
        signs = np.sign(y)
        self.assertTrue(np.all(np.abs(signs.mean(0)) < 0.079))
        self.assertLess(abs(np.mean(signs[:, 0] * signs[:, 1])), 0.079)
        # The next call has another.
        again = np.abs(layer(np.ones((1, 1)), training=True))
        self.assertFalse(np.any(again == sizes[0]))

    def test_flipout_has_gaussian_draws(self):
        # Sizes of |sigma * e| over calls: mean of e^2 is 1, of e^4 is 3.
        layer = BayesianDense(
            1, 50, kernel_initializer="zeros", noise_initializer="zeros"
        )
        z = draws(layer, np.ones((1, 1)), 20_000).reshape(-1)
        # Variances of e^2 and e^4: 2 and 96; 5 standard errors.
        self.assertAllClose(np.mean(z**2), 1.0, atol=5 * (2 / 2e4) ** 0.5)
        self.assertAllClose(np.mean(z**4), 3.0, atol=5 * (96 / 2e4) ** 0.5)

    @parameterized.parameters(*ESTIMATORS)
    def test_positions(self, estimator):
        layer = filled_layer(estimator=estimator)
        y = np.array(layer(np.ones((200, 2, IN)), training=True))
        # In flipout an example has one draw of the weights.
        same = np.all(np.isclose(y[:, 0], y[:, 1], rtol=1e-5))
        self.assertEqual(same, estimator == "flipout")
        self.assertNotAllClose(y[0], y[1])

    @parameterized.parameters(*ESTIMATORS)
    def test_gradients_are_those_of_the_draws(self, estimator):
        # With the same seed a draw is a smooth function of the parameters:
        # central differences in float64, error of the order of step^2.
        layer = filled_layer(estimator=estimator, dtype="float64")
        x = np.random.default_rng(1).normal(size=(5, IN))

        def loss():
            layer.seed_generator.state.assign([3, 0])
            return tf.reduce_sum(tf.sin(layer(x, training=True)))

        assert_slopes(self, layer, loss)


def assert_slopes(test, layer, function, step=1e-5):
    """Compares gradients by the parameters with central differences."""
    variables = (layer.kernel, layer.log_noise)
    with tf.GradientTape() as tape:
        value = function()
    slopes = tape.gradient(value, [each.value for each in variables])
    for variable, slope in zip(variables, slopes, strict=True):
        start = np.array(variable)
        numeric = np.zeros(start.size)
        for k in range(start.size):
            ends = []
            for sign in (1, -1):
                moved = start.copy()
                moved.reshape(-1)[k] += sign * step
                variable.assign(moved)
                ends.append(float(function()))
            numeric[k] = (ends[0] - ends[1]) / (2 * step)
        variable.assign(start)
        test.assertAllClose(
            np.reshape(slope, -1), numeric, rtol=1e-5, atol=1e-6
        )


def by_tfp(layer, scales):
    """The KL at fixed scales, by TensorFlow Probability in float64."""
    tfd = tfp.distributions
    theta, variance = bayesian.posterior(layer)
    kl = tfd.kl_divergence(
        tfd.Normal(theta, np.sqrt(variance)),
        tfd.Normal(np.float64(0.0), bayesian.prior_std(layer, scales)),
    )
    return float(np.sum(kl))


class KLTest(TestCase):
    @parameterized.parameters(*PRIORS)
    def test_at_given_scales(self, structure, prior):
        layer = filled_layer(structure, prior, sigma0=0.6, scales="variable")
        scales = GroupScales(
            None if layer.row_scales is None else [0.3, 1.0, 2.0, 0.5],
            None if layer.matrix_scale is None else 0.8,
        )
        # Before the first M-step the prior is a plain one.
        ones = layer.learned_scales()
        for part in ones:
            self.assertTrue(part is None or np.all(part == 1.0))
        plain = filled_layer(None, sigma0=0.6)
        self.assertAllClose(
            layer.kl_divergence(), plain.kl_divergence(), rtol=1e-6
        )
        if scales.rows is not None:
            layer.row_scales.assign(scales.rows)
        if scales.matrix is not None:
            layer.matrix_scale.assign(scales.matrix)
        kl = by_tfp(layer, scales)
        self.assertAllClose(layer.kl_divergence(), kl, rtol=1e-5)
        (loss,) = layer.losses
        nats = kl - bayesian.log_density(layer, scales)
        self.assertAllClose(float(loss), nats / 50, rtol=1e-5)

    def test_without_structure(self):
        layer = filled_layer(None, sigma0=0.6)
        none = GroupScales(None, None)
        self.assertEqual(layer.learned_scales(), none)
        kl = by_tfp(layer, none)
        self.assertAllClose(layer.kl_divergence(), kl, rtol=1e-5)
        (loss,) = layer.losses
        self.assertAllClose(float(loss), kl / 50, rtol=1e-5)

    @parameterized.parameters(*PRIORS)
    def test_scales_are_the_best(self, structure, prior):
        layer = filled_layer(structure, prior, sigma0=0.6, dtype="float64")
        theta, variance = bayesian.posterior(layer)
        rows = IN if layer.row_prior is not None else 0

        def unpack(logs):
            tau = np.exp(logs)
            return GroupScales(
                tau[:rows] if rows else None,
                tau[-1] if layer.matrix_prior is not None else None,
            )

        def nats(logs):
            scales = unpack(logs)
            v = bayesian.prior_std(layer, scales) ** 2
            kl = 0.5 * np.sum(
                (theta**2 + variance) / v - 1 - np.log(variance / v)
            )
            return kl - bayesian.log_density(layer, scales)

        count = rows + (layer.matrix_prior is not None)
        optimum = scipy.optimize.minimize(
            nats, np.zeros(count), method="BFGS", options={"gtol": 1e-7}
        )
        # Flat at the optimum: the scales to the root of the precision.
        for mine, best in zip(
            layer.learned_scales(), unpack(optimum.x), strict=True
        ):
            self.assertEqual(mine is None, best is None)
            if mine is not None:
                self.assertAllClose(mine, best, rtol=1e-5)
        (loss,) = layer.losses
        # The penalty of Keras is in float32.
        self.assertAllClose(float(loss), optimum.fun / 50, rtol=1e-6)

    @parameterized.parameters(*PRIORS)
    def test_gradient_is_that_with_scales_held_fixed(self, structure, prior):
        layer = filled_layer(structure, prior, sigma0=0.6, dtype="float64")
        held = filled_layer(
            structure, prior, sigma0=0.6, dtype="float64", scales="variable"
        )
        held.update_scales()
        slopes = []
        for each in (layer, held):
            variables = [each.kernel.value, each.log_noise.value]
            with tf.GradientTape() as tape:
                kl = each.kl_divergence()
            slopes.append(tape.gradient(kl, variables))
        for mine, fixed in zip(*slopes, strict=True):
            self.assertAllClose(mine, fixed, rtol=1e-12)
        # d KL / d theta = theta / V, and V does not move with theta.
        theta, variance = bayesian.posterior(layer)
        v = bayesian.prior_std(layer, held.learned_scales()) ** 2
        self.assertAllClose(slopes[0][0], theta / v, rtol=1e-6)
        self.assertAllClose(slopes[0][1], 0.5 * (variance / v - 1), rtol=1e-6)

    @parameterized.parameters(*PRIORS)
    def test_gradient_of_the_loss_is_the_total_one(self, structure, prior):
        # What moves with the scales cancels, since they are at the optimum
        # of what is differentiated: KL and log-density together.
        layer = filled_layer(structure, prior, sigma0=0.6, dtype="float64")
        assert_slopes(self, layer, layer.penalty_nats)

    def test_no_scale_is_zero(self):
        for prior in ("half_cauchy", "log_uniform"):
            layer = filled_layer("ard", prior)
            layer.kernel.assign(np.zeros((IN, OUT)))
            layer.log_noise.assign(np.full((IN, OUT), -150.0))
            with tf.GradientTape() as tape:
                (loss,) = layer.losses
            kernel, noise = layer.kernel.value, layer.log_noise.value
            for slope in tape.gradient(loss, [kernel, noise]):
                self.assertTrue(np.all(np.isfinite(slope)))
            self.assertTrue(np.isfinite(float(loss)))
            # Noise that is less than any prior has is pushed up.
            self.assertTrue(np.all(np.array(slope) < 0))


class ScalesTest(TestCase):
    def test_update_assigns_the_best(self):
        for structure, prior in PRIORS:
            held = filled_layer(structure, prior, scales="variable")
            inline = filled_layer(structure, prior)
            self.assertTrue(held.scales_in_variables)
            self.assertFalse(inline.scales_in_variables)
            held.update_scales()
            for mine, best in zip(
                held.learned_scales(), inline.learned_scales(), strict=True
            ):
                self.assertEqual(mine is None, best is None)
                if mine is not None:
                    self.assertAllClose(mine, best, rtol=1e-6)
            self.assertAllClose(held.losses, inline.losses, rtol=1e-6)

    def test_spelling_and_defaults(self):
        layer = BayesianDense(OUT, 50, structure="ard-add")
        self.assertEqual(layer.structure, "ard_add")
        names = [
            type(p).__name__ for p in (layer.row_prior, layer.matrix_prior)
        ]
        self.assertEqual(names, ["InverseGammaScale"] * 2)
        self.assertEqual((layer.row_prior.a, layer.row_prior.b), (3.0, 3.0))

    def test_pruning_keeps_the_weights_below_the_threshold(self):
        layer = filled_layer()
        model = keras.Sequential([keras.Input((IN,)), layer])
        noise = np.full((IN, OUT), -20.0)
        noise[1, 2] = noise[2, 0] = 9.0
        layer.log_noise.assign(noise)
        self.assertAllClose(layer.sparsity(), 2 / 12)
        small = prune(model)
        kernel = np.array(layer.kernel)
        kernel[1, 2] = kernel[2, 0] = 0.0
        self.assertIs(type(small.layers[-1]), keras.layers.Dense)
        self.assertAllEqual(small.layers[-1].kernel, kernel)
