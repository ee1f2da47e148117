# SPDX-License-Identifier: Apache-2.0
"""The contract of every prior of weights."""

import itertools

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.priors import HorseshoePrior
from keras_bayesdrop.priors import LogUniformPrior
from keras_bayesdrop.priors import StudentTPrior
from tests.helpers import TestCase
from tests.priors.weight_reference import with_gradients

PRIORS = (
    LogUniformPrior(),
    LogUniformPrior("molchanov"),
    LogUniformPrior("kingma"),
    GaussianPrior(0.7),
    StudentTPrior(3.0, 0.5),
    HorseshoePrior(0.3),
)


def grid(means, log_variances, dtype="float64"):
    pairs = list(itertools.product(means, log_variances))
    mean, log_variance = np.array(pairs).T
    return mean.astype(dtype), log_variance.astype(dtype)


class NoisyKernel(keras.layers.Layer):
    """A dense layer with the KL of its kernel in the loss, for the tests."""

    def __init__(self, prior, **kwargs):
        super().__init__(**kwargs)
        self.prior = prior

    def build(self, input_shape):
        shape = (input_shape[-1], 3)
        self.mean = self.add_weight(shape=shape, initializer="ones")
        self.log_variance = self.add_weight(
            shape=shape, initializer=keras.initializers.Constant(-3.0)
        )

    def call(self, inputs):
        kl = self.prior.kl(self.mean, self.log_variance)
        self.add_loss(1e-3 * keras.ops.sum(kl))
        return keras.ops.matmul(inputs, self.mean)


class ContractTest(TestCase):
    @parameterized.product(
        prior=PRIORS, dtype=("float16", "bfloat16", "float32", "float64")
    )
    def test_dtype_and_shape(self, prior, dtype):
        mean = tf.cast(tf.reshape(tf.linspace(-2.0, 2.0, 12), (3, 1, 4)), dtype)
        log_variance = tf.cast(
            tf.reshape(tf.linspace(1.0, -9.0, 12), (3, 1, 4)), dtype
        )
        kl = prior.kl(mean, log_variance)
        wide = "float64" if dtype == "float64" else "float32"
        self.assertEqual(kl.dtype, wide)
        self.assertEqual(kl.shape, (3, 1, 4))
        # Nothing is computed in half precision: widening first is the same.
        same = prior.kl(tf.cast(mean, wide), tf.cast(log_variance, wide))
        self.assertAllEqual(kl, same)

    @parameterized.parameters(*PRIORS)
    def test_float64_wins_over_float32(self, prior):
        kl = prior.kl(tf.zeros(2, "float64"), tf.zeros(2, "float32"))
        self.assertEqual(kl.dtype, "float64")

    @parameterized.parameters(*PRIORS)
    def test_shapes_broadcast(self, prior):
        # As for a variance that a row of weights shares.
        mean = np.array([[0.1, -2.0, 0.0], [1.0, 0.3, 4.0]])
        log_variance = np.array([[-3.0], [0.5]])
        shared = with_gradients(prior.kl, mean, log_variance)
        whole = with_gradients(
            prior.kl, mean, np.broadcast_to(log_variance, (2, 3))
        )
        self.assertAllClose(shared[0], whole[0], rtol=1e-14, atol=0)
        self.assertAllClose(shared[1], whole[1], rtol=1e-14, atol=0)
        total = whole[2].sum(axis=1, keepdims=True)
        self.assertAllClose(shared[2], total, rtol=1e-12, atol=0)

    @parameterized.parameters(*PRIORS)
    def test_gradients_by_finite_differences(self, prior):
        mean, log_variance = grid((-3.0, 0.02, 1.1), (-8.0, -1.0, 0.7, 3.0))
        _, by_mean, by_log_variance = with_gradients(
            prior.kl, mean, log_variance
        )
        step = 1e-4
        difference = prior.kl(mean + step, log_variance)
        difference -= prior.kl(mean - step, log_variance)
        # An error of step^2 / 6 times the third derivative, which is at most
        # about sigma^-3 = e^12: 3e-4 where the gradient itself is 50.
        self.assertAllClose(
            difference / (2 * step), by_mean, rtol=1e-4, atol=1e-6
        )
        difference = prior.kl(mean, log_variance + step)
        difference -= prior.kl(mean, log_variance - step)
        self.assertAllClose(
            difference / (2 * step), by_log_variance, rtol=1e-6, atol=1e-7
        )

    @parameterized.parameters(*PRIORS)
    def test_second_derivatives_by_finite_differences(self, prior):
        # Many gradients are written by hand. They must be differentiable
        # too.
        mean, log_variance = grid((0.05, 1.1), (-1.0, 0.7))

        def gradients(mean, log_variance):
            with tf.GradientTape() as tape:
                tape.watch((mean, log_variance))
                value = prior.kl(mean, log_variance)
            return tape.gradient(value, (mean, log_variance))

        step = 1e-4
        for which in (0, 1):
            _, by_mean, by_log_variance = with_gradients(
                lambda m, v, which=which: gradients(m, v)[which],
                mean,
                log_variance,
            )
            for second, shift in (
                (by_mean, (step, 0.0)),
                (by_log_variance, (0.0, step)),
            ):
                ends = [
                    with_gradients(
                        prior.kl,
                        mean + sign * shift[0],
                        log_variance + sign * shift[1],
                    )[1 + which]
                    for sign in (1.0, -1.0)
                ]
                difference = (ends[0] - ends[1]) / (2 * step)
                # An error of step^2 / 6 times a fourth derivative below 100.
                self.assertAllClose(second, difference, rtol=1e-6, atol=2e-7)

    @parameterized.product(
        prior=PRIORS,
        how=(("float32", False), ("float32", True), ("float64", False)),
    )
    def test_extreme_arguments_give_no_nan(self, prior, how):
        dtype, jit_compile = how
        means = (0.0, 1e-37, -1e-20, 1e-4, -1.0, 1e5, 1e15)
        log_variances = (-1e4, -300.0, -90.0, -20.0, 0.0, 20.0, 80.0)
        if not isinstance(prior, GaussianPrior):  # whose KL is then infinite
            log_variances += (300.0, 1e4)
        arguments = grid(means, log_variances, dtype)
        for each in with_gradients(
            prior.kl, *arguments, jit_compile=jit_compile
        ):
            self.assertAllEqual(np.isfinite(each), np.ones(len(each), bool))

    @parameterized.product(
        kl=("exact", "molchanov", "kingma"), jit_compile=(False, True)
    )
    def test_extreme_log_alpha_gives_no_nan(self, kl, jit_compile):
        log_alpha = np.array(
            [-1e4, -300.0, -90.0, -10.0, -8.0, 0.0, 8.0, 10.0, 90.0, 1e4],
            "float32",
        )
        for each in with_gradients(
            LogUniformPrior(kl).kl_of_log_alpha,
            log_alpha,
            jit_compile=jit_compile,
        ):
            self.assertAllEqual(np.isfinite(each), np.ones(10, bool))

    @parameterized.parameters(*PRIORS[3:])
    def test_a_proper_prior_has_no_negative_kl(self, prior):
        mean, log_variance = grid(
            np.linspace(-1.0, 1.0, 21), np.linspace(-8.0, 3.0, 23)
        )
        kl = prior.kl(mean, log_variance)
        self.assertGreater(float(np.min(kl)), -1e-12)

    @parameterized.parameters(*PRIORS)
    def test_fit_with_xla_and_mixed_precision(self, prior):
        keras.config.set_dtype_policy("mixed_bfloat16")
        inputs = keras.Input((4,))
        model = keras.Model(inputs, NoisyKernel(prior)(inputs))
        model.compile("adam", "mse", jit_compile=True)
        before = [each.numpy() for each in model.trainable_weights]
        x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
        history = model.fit(x, x[:, :3], epochs=2, batch_size=16, verbose=0)
        self.assertTrue(np.isfinite(history.history["loss"]).all())
        for old, new in zip(before, model.trainable_weights, strict=True):
            self.assertTrue((old != new.numpy()).all())
