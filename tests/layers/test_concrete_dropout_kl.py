# SPDX-License-Identifier: Apache-2.0
"""The KL divergence of `ConcreteDropout`, and rates that it learns."""

import math
from unittest import mock

import keras
import numpy as np
import scipy.integrate
import scipy.special
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.layers import ConcreteDropout
from keras_bayesdrop.layers._dropout import concrete_noise
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.losses import LikelihoodInNats
from keras_bayesdrop.regularizers import DropoutL2
from tests.helpers import TestCase
from tests.layers.concrete import INNER
from tests.layers.concrete import dense_with
from tests.layers.concrete import entropy
from tests.layers.concrete import logit
from tests.layers.concrete import numbers
from tests.layers.concrete import predict
from tests.prediction.replicas import one_step

layers = keras.layers


class KLTest(TestCase):
    def test_by_hand(self):
        layer = dense_with([[1, 2], [3, 4]], length_scale=0.5, init_rate=0.2)
        # Squares sum to 30: 0.25 / (2 * 0.8) * 30 - 2 * H(0.2).
        self.assertAllClose(
            layer.kl_divergence(), 4.6875 - 2 * 0.5004024235, rtol=1e-6
        )
        with tf.GradientTape() as tape:
            kl = layer.kl_divergence()
        kernel, rate = tape.gradient(
            kl, (layer.layer.kernel.value, layer.noise.logit.value)
        )
        # d/dW: l^2 / (1 - rate) * W. d/dlogit: of the first term
        # l^2 / 2 * 30 * rate / (1 - rate), of H rate (1 - rate) log(4).
        self.assertAllClose(kernel, 0.3125 * np.array([[1, 2], [3, 4]]))
        self.assertAllClose(
            rate, 3.75 * 0.25 - 2 * 0.16 * math.log(4), rtol=1e-6
        )

    def test_is_that_of_a_mixture_of_narrow_gaussians(self):
        # One weight, zero with probability `rate` and M otherwise, both of
        # width s; KL to N(0, 1 / l^2) by quadrature. The constant of ours is
        # log(1 / s) - log(1 / l) - 1/2 + l^2 s^2 / 2. The modes are 70 s
        # apart or more, so that they do not overlap.
        scale, width = 0.7, 0.01
        w = np.linspace(-1, 3, 400_001)  # 25 points in a width

        def exact(rate, mode):
            def normal(x, mean, deviation):
                return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (
                    deviation * math.sqrt(2 * math.pi)
                )

            q = rate * normal(w, 0, width) + (1 - rate) * normal(w, mode, width)
            p = normal(w, 0, 1 / scale)
            return scipy.integrate.simpson(scipy.special.rel_entr(q, p), x=w)

        constant = math.log(1 / (width * scale)) - 0.5
        constant += 0.5 * (scale * width) ** 2
        for rate, mode in ((0.1, 0.7), (0.3, 1.9), (0.6, 1.2)):
            layer = dense_with(
                [[(1 - rate) * mode]], length_scale=scale, init_rate=rate
            )
            self.assertAllClose(
                layer.kl_divergence() + constant, exact(rate, mode), rtol=1e-5
            )

    @parameterized.named_parameters(*INNER)
    def test_units_and_kernels(self, make, shape, units):
        layer = ConcreteDropout(make(), 10, length_scale=2.0, init_rate=0.3)
        layer.build(shape)
        kernels = [
            variable
            for variable in layer.layer.trainable_variables
            if "bias" not in variable.path and "pointwise" not in variable.path
        ]
        self.assertLen(kernels, 1)
        squares = np.sum(np.square(np.asarray(kernels[0], "float64")))
        self.assertAllClose(
            layer.kl_divergence(),
            4.0 / (2 * 0.7) * squares - units * entropy(0.3),
            rtol=1e-5,
        )

    @parameterized.parameters(
        (LikelihoodInNats(2), 1.0),
        (GaussianLikelihood(4.0, 2), 0.5),
        (GaussianLikelihood(4.0, 2, "half_mse"), 0.25),
    )
    def test_part_of_the_loss(self, likelihood, factor):
        layer = dense_with(
            [[1, 2], [3, 4]],
            num_train_examples=7,
            length_scale=0.5,
            init_rate=0.2,
            likelihood=likelihood,
        )
        kl = 4.6875 - 2 * 0.5004024235
        (penalty,) = layer.losses
        self.assertAllClose(penalty, factor * kl / (7 * 2), rtol=1e-6)
        # And its share of the weights is the weight decay of fixed dropout.
        decay = DropoutL2(0.2, 0.5, 7, likelihood)
        with tf.GradientTape() as tape:
            (penalty,) = layer.losses
        kernel = layer.layer.kernel.value
        self.assertAllClose(
            tape.gradient(penalty, kernel),
            2 * decay.weight_decay * np.array([[1, 2], [3, 4]]),
            rtol=1e-6,
        )

    @parameterized.parameters(1.0, 5.0)
    def test_penalty_of_the_authors(self, tau):
        rate, length, examples = 0.2, 0.5, 7
        layer = dense_with(
            [[1, 2], [3, 4]],
            num_train_examples=examples,
            length_scale=length,
            init_rate=rate,
            likelihood=GaussianLikelihood(tau),
        )
        # Published: l^2 / (tau N) * sum(W^2) / (1 - p) and 2 / (tau N) * K *
        # (p log p + (1 - p) log(1 - p)).
        weights = length**2 / (tau * examples) * 30 / (1 - rate)
        masks = 2 / (tau * examples) * 2 * -entropy(rate)
        self.assertAllClose(layer.losses[0], weights + masks, rtol=1e-6)

    def test_counts_once_for_a_shared_layer(self):
        layer = ConcreteDropout(layers.Dense(5), 10)
        inputs = keras.Input((5,))
        twice = keras.Model(inputs, layer(layer(inputs)))
        twice(np.ones((2, 5)), training=True)
        self.assertLen(twice.losses, 1)
        steps = keras.Sequential(
            [keras.Input((3, 5)), layers.TimeDistributed(layer)]
        )
        steps(np.ones((2, 3, 5)), training=True)
        self.assertLen(steps.losses, 1)

    @parameterized.parameters(1, 4, 12)
    def test_loss_does_not_depend_on_the_batch_size(self, batch_size):
        x, y = numbers(12, 7), numbers(12, 2)
        layer = ConcreteDropout(layers.Dense(2), 12, length_scale=0.3)
        model = keras.Sequential([keras.Input((7,)), layer])
        model.compile("sgd", "mse")
        total = model.evaluate(x, y, batch_size=batch_size, verbose=0)
        data = np.mean(np.square(model.predict(x, verbose=0) - y))
        self.assertAllClose(total, data + layer.kl_divergence() / 12, rtol=1e-5)

    def test_prediction_leaves_the_losses_alone(self):
        model = keras.Sequential(
            [keras.Input((7,)), ConcreteDropout(layers.Dense(2), 12)]
        )
        before = [float(loss) for loss in model.losses]
        predict(model, numbers(3, 7))
        self.assertEqual([float(loss) for loss in model.losses], before)

    def test_replicas_count_it_once(self):
        dropped = (
            "kbd.layers.ConcreteDropout("
            "keras.layers.Dense({}), 4, length_scale=0.5)"
        )
        alone, together = one_step(
            self, ", ".join(dropped.format(units) for units in (3, 2))
        )
        self.assertAllClose(alone, together, rtol=1e-5)
        # The step of the logit is a tenth of the gradient of KL / 4.
        self.assertNotAllClose(alone[3], abs(logit(0.1)))


class LearningTest(TestCase):
    @parameterized.parameters(0.1, 0.67)
    def test_gradient_of_the_expected_loss(self, temperature):
        # One unit: loss(u) = (w x keep(u) / (1 - rate) - y)^2. The batch is a
        # midpoint rule over u, so that its mean is the expectation over u.
        weight, x, y, rate = 0.7, 1.3, 0.5, 0.3
        layer = ConcreteDropout(
            layers.Dense(1, use_bias=False, dtype="float64"),
            5,
            length_scale=0.4,
            init_rate=rate,
            temperature=temperature,
            dtype="float64",
        )
        layer.build((None, 1))
        layer.layer.kernel.assign([[weight]])

        def expected(a):
            """The expectation plus KL / 5, for the logit `a`."""

            def loss(v):
                """Of v = logit(u), whose density is u (1 - u)."""
                keep = scipy.special.expit(-(a + v) / temperature)
                u = scipy.special.expit(v)
                error = weight * x * keep * (1 + math.exp(a)) - y
                return error**2 * u * (1 - u)

            p = scipy.special.expit(a)
            kl = 0.08 * (1 + math.exp(a)) * weight**2 - entropy(p)
            value, _ = scipy.integrate.quad(
                loss, -40, 40, points=[-a], epsabs=1e-13, limit=200
            )
            return value + kl / 5

        points = 2**16
        u = ((np.arange(points) + 0.5) / points)[:, None]
        with mock.patch.object(
            concrete_noise, "uniform", lambda *_: tf.constant(u)
        ):
            with tf.GradientTape() as tape:
                outputs = layer(np.full((points, 1), x), training=True)
                loss = tf.reduce_mean(tf.square(outputs - y))
                loss += tf.cast(layer.losses[0], tf.float64)
            gradient = tape.gradient(loss, layer.noise.logit.value)
        a, step = logit(rate), 1e-4
        # The rule errs by about 1 / (24 * points^2) times the second
        # derivative, below 1e-7; the penalty is added in float32.
        self.assertAllClose(loss, expected(a), rtol=1e-6)
        slope = (expected(a + step) - expected(a - step)) / (2 * step)
        self.assertAllClose(gradient, slope, rtol=1e-5)

    def test_rate_follows_the_data(self):
        # Weights begin at zero. Where the inputs matter, the rate falls;
        # where they do not, there is only the entropy, and it rises.
        x = numbers(512, 4)
        moved = []
        for target in (4.0 * x.sum(axis=1), np.zeros(512)):
            layer = ConcreteDropout(
                layers.Dense(1, kernel_initializer="zeros"),
                512,
                init_rate=0.3,
                likelihood=GaussianLikelihood(1.0),
                seed=0,
            )
            model = keras.Sequential([keras.Input((4,)), layer])
            model.compile(keras.optimizers.Adam(0.05), "mse", jit_compile=False)
            model.fit(x, target, epochs=8, batch_size=64, verbose=0)
            moved.append(layer.rate)
        self.assertLess(moved[0], 0.2)
        self.assertGreater(moved[1], 0.4)

    def test_convolutions_fit_under_xla(self):
        model = keras.Sequential(
            [
                keras.Input((6, 6, 3)),
                ConcreteDropout(layers.Conv2D(4, 3), 8, seed=1),
                ConcreteDropout(layers.SeparableConv2D(4, 3), 8, seed=2),
                layers.Flatten(),
                layers.Dense(1),
            ]
        )
        model.compile("adam", "mse", jit_compile=True)
        model.fit(numbers(8, 6, 6, 3), np.ones((8, 1)), verbose=0)
        for layer in model.layers[:2]:
            self.assertNotEqual(
                float(layer.noise.logit), np.float32(logit(0.1))
            )

    def test_weight_of_the_kl(self):
        layer = dense_with([[1, 2], [3, 4]])
        whole = float(layer.losses[0])
        self.assertEqual(float(layer.kl_weight), 1.0)
        self.assertEqual(layer.non_trainable_weights, [layer.kl_weight])
        layer.kl_weight.assign(0.25)
        self.assertAllClose(layer.losses[0], 0.25 * whole, rtol=1e-6)
        self.assertAllClose(layer.kl_divergence(), 10 * whole, rtol=1e-6)
