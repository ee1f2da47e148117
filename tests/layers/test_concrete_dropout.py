# SPDX-License-Identifier: Apache-2.0
"""Dropout with a learned rate: its noise, its KL, and its predictions."""

import math
import os
import pathlib
import re
import subprocess
import sys
from unittest import mock

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.layers import ConcreteDropout
from keras_bayesdrop.layers._dropout import concrete_noise
from keras_bayesdrop.layers._dropout import dropped_kernel
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.losses import LikelihoodInNats
from keras_bayesdrop.regularizers import DropoutL2
from tests.docs.pages import blocks_of
from tests.helpers import TestCase
from tests.helpers import flat
from tests.prediction.replicas import one_step

ROOT = pathlib.Path(__file__).resolve().parents[2]
layers = keras.layers
ENGINES = ("reference",) + (("fused",) * (not op_library.library().problem))

# Layer, shape of an input, units that have a mask of their own.
DENSE = (lambda: layers.Dense(3), (2, 7), 7)
TIME = (lambda: layers.Dense(3), (2, 4, 7), 7)
CONV_1D = (lambda: layers.Conv1D(3, 2), (2, 6, 5), 5)
CONV_2D = (lambda: layers.Conv2D(3, 2), (2, 6, 4, 5), 5)
GROUPS = (lambda: layers.Conv2D(3, 2, groups=3), (2, 6, 4, 6), 6)
CONV_3D = (lambda: layers.Conv3D(3, 2), (2, 6, 4, 3, 5), 5)
DEPTHWISE_1D = (
    lambda: layers.DepthwiseConv1D(2, depth_multiplier=2),
    (2, 6, 5),
    5,
)
DEPTHWISE_2D = (lambda: layers.DepthwiseConv2D(2), (2, 6, 4, 5), 5)
SEPARABLE_1D = (lambda: layers.SeparableConv1D(3, 2), (2, 6, 5), 5)
SEPARABLE_2D = (lambda: layers.SeparableConv2D(3, 2), (2, 6, 4, 5), 5)
# Contracted over the last axis, over two, and with a kernel for each head.
EINSUM = (
    lambda: layers.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d"),
    (2, 4, 7),
    7,
)
EINSUM_HEADS = (
    lambda: layers.EinsumDense("bthe,hed->btd", (4, 3)),
    (2, 4, 3, 5),
    15,
)
EINSUM_EACH = (
    lambda: layers.EinsumDense("...he,hed->...hd", (3, 2)),
    (2, 4, 3, 5),
    15,
)
INNER = (
    ("dense", *DENSE),
    ("time", *TIME),
    ("conv_1d", *CONV_1D),
    ("conv_2d", *CONV_2D),
    ("groups", *GROUPS),
    ("conv_3d", *CONV_3D),
    ("depthwise_1d", *DEPTHWISE_1D),
    ("depthwise_2d", *DEPTHWISE_2D),
    ("separable_1d", *SEPARABLE_1D),
    ("separable_2d", *SEPARABLE_2D),
    ("einsum", *EINSUM),
    ("einsum_heads", *EINSUM_HEADS),
    ("einsum_each", *EINSUM_EACH),
)


def logit(rate):
    return math.log(rate / (1 - rate))


def entropy(rate):
    return -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def dense_with(kernel, **kwargs):
    """Returns a built `ConcreteDropout(Dense)` of that kernel, no bias."""
    kernel = np.asarray(kernel, "float32")
    inner = layers.Dense(kernel.shape[1], use_bias=False)
    layer = ConcreteDropout(inner, **{"num_train_examples": 10, **kwargs})
    layer.build((None, kernel.shape[0]))
    inner.kernel.assign(kernel)
    return layer


def predict(model, x, **kwargs):
    settings = {"num_samples": 9, "seed": 3, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, return_samples=True, **flat(**settings)
    ).samples


def traces(model):
    """Returns how many programs were traced for a model so far."""
    return programs.made(model)


class ContractTest(TestCase):
    @parameterized.named_parameters(
        ("dense", *DENSE),
        ("conv_2d", *CONV_2D),
        ("separable_1d", *SEPARABLE_1D),
        ("einsum_heads", *EINSUM_HEADS),
    )
    def test_keras_contract(self, make, shape, units):
        inner = make()
        inner.build(shape)
        trained = len(inner.trainable_variables)
        self.run_layer_test(
            ConcreteDropout,
            init_kwargs={"layer": make(), "num_train_examples": 10, "seed": 1},
            input_shape=shape,
            expected_output_shape=inner.compute_output_shape(shape),
            expected_num_trainable_weights=trained + 1,
            expected_num_non_trainable_weights=1,
            expected_num_seed_generators=1,
            expected_num_losses=1,
            supports_masking=inner.supports_masking,
            run_mixed_precision_check=False,
        )

    def test_config(self):
        settings = {
            "num_train_examples": 10,
            "length_scale": 0.5,
            "init_rate": 0.3,
            "temperature": 0.2,
            "sampling": "concrete",
            "seed": 4,
        }
        likelihood = GaussianLikelihood(2.0, 3, "half_mse")
        layer = ConcreteDropout(
            layers.Dense(3), likelihood=likelihood, **settings
        )
        config = layer.get_config()
        self.assertEqual({key: config[key] for key in settings}, settings)
        again = ConcreteDropout.from_config(config)
        self.assertEqual(again.likelihood, likelihood)
        self.assertEqual(again.layer.units, 3)

    def test_masks_pass_through(self):
        x = np.ones((2, 3, 4), "float32")
        x[0, 1] = 0.0
        layer = ConcreteDropout(layers.Dense(5), 10)
        y = layer(layers.Masking()(x), training=True)
        self.assertAllEqual(y._keras_mask, np.any(x != 0, axis=-1))

    @parameterized.product(
        policy=("mixed_float16", "mixed_bfloat16", "bfloat16", "float64")
    )
    def test_dtypes(self, policy):
        layer = ConcreteDropout(
            layers.Dense(3, dtype=policy), 10, init_rate=0.01, dtype=policy
        )
        y = layer(np.ones((4, 7)), training=True)
        self.assertEqual(y.dtype.name, policy.removeprefix("mixed_"))
        wide = "float64" if policy == "float64" else "float32"
        self.assertEqual(layer.noise.logit.dtype, wide)
        self.assertEqual(layer.losses[0].dtype.name, "float32")
        # A unit counts as dropped where z > 1/2, so u > 1 - rate. 4 standard
        # errors of 140_000 draws: 4 * sqrt(0.01 * 0.99 / 140_000) = 0.00106.
        # Drawn in bfloat16, the rate would be 0.0156 or 0.0078.
        noise = layer.noise(np.ones((20_000, 7)), training=True)
        dropped = keras.ops.convert_to_numpy(keras.ops.cast(noise, "float32"))
        self.assertAllClose((dropped < 0.5).mean(), 0.01, atol=0.00107, rtol=0)

    @parameterized.product(policy=("mixed_float16", "mixed_bfloat16"))
    def test_fits_in_mixed_precision(self, policy):
        inner = layers.Dense(1, dtype=policy)
        model = keras.Sequential(
            [keras.Input((7,)), ConcreteDropout(inner, 10, dtype=policy)]
        )
        model.compile("adam", "mse", run_eagerly=True)
        history = model.fit(numbers(16, 7), np.ones((16, 1)), verbose=0)
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        self.assertNotEqual(
            float(model.layers[0].noise.logit), np.float32(logit(0.1))
        )


class NoiseTest(TestCase):
    def test_training_applies_the_relaxed_mask(self):
        layer = ConcreteDropout(
            layers.Dense(1), 10, init_rate=0.3, temperature=0.4, seed=5
        )
        x = numbers(40, 7)
        layer.build(x.shape)
        u = keras.random.uniform(x.shape, seed=keras.random.SeedGenerator(5))
        u = keras.ops.convert_to_numpy(u).astype("float64")
        z = 1 / (1 + np.exp(-(logit(0.3) + np.log(u / (1 - u))) / 0.4))
        # The exponent is below 17 / 0.4 and right to 2^-23 of itself: 5e-6.
        self.assertAllClose(
            layer.noise(x, training=True), x * (1 - z) / 0.7, rtol=2e-5
        )
        self.assertAllClose(layer.rate, 0.3, rtol=1e-7)

    def test_off_outside_of_training(self):
        layer = ConcreteDropout(layers.Dense(3), 10)
        x = numbers(4, 7)
        y = layer(x)
        self.assertAllEqual(y, layer.layer(x))
        self.assertAllEqual(y, layer(x, training=False))
        self.assertNotAllClose(y, layer(x, training=True))

    def test_extreme_uniform_numbers_are_harmless(self):
        layer = dense_with(np.ones((3, 1)))
        u = tf.constant([[0.0, 2.0**-23, 1.0 - 2.0**-24]])
        with mock.patch.object(concrete_noise, "uniform", lambda *_: u):
            with tf.GradientTape() as tape:
                y = layer.noise(tf.ones((1, 3)), training=True)
            gradient = tape.gradient(y, layer.noise.logit.value)
        # The first two are kept, the last dropped; only 1 / (1 - rate) moves:
        # d(1 + exp(logit)) = rate / (1 - rate) = 1/9 for each.
        self.assertAllClose(y, [[10 / 9, 10 / 9, 0.0]], rtol=1e-6)
        self.assertAllClose(gradient, 2 / 9, rtol=1e-6)

    @parameterized.named_parameters(
        ("conv_1d", *CONV_1D), ("conv_2d", *CONV_2D), ("conv_3d", *CONV_3D)
    )
    def test_convolutions_drop_whole_maps(self, make, shape, units):
        layer = ConcreteDropout(make(), 10, temperature=2.0, seed=1)
        x = np.ones(shape, "float32")
        layer.build(shape)
        y = np.asarray(layer.noise(x, training=True))
        flat = y.reshape(shape[0], -1, units)
        self.assertAllEqual(flat, np.broadcast_to(flat[:, :1], flat.shape))
        self.assertLen(np.unique(flat[:, 0]), shape[0] * units)

    @parameterized.named_parameters(("time", *TIME), ("einsum", *EINSUM))
    def test_dense_layers_drop_entries(self, make, shape, units):
        # Hot enough that no two masks are rounded to the same number.
        layer = ConcreteDropout(make(), 10, temperature=2.0, seed=1)
        layer.build(shape)
        y = np.asarray(layer.noise(np.ones(shape, "float32"), training=True))
        self.assertLen(np.unique(y), math.prod(shape))

    def test_channels_first(self):
        inner = layers.Conv2D(3, 2, data_format="channels_first")
        layer = ConcreteDropout(inner, 10)
        layer.build((None, 5, 6, 4))
        self.assertEqual(layer.noise.noise_shape, (None, None, 1, 1))
        self.assertEqual(dropped_kernel.count_units(inner, (None, 5, 6, 4)), 5)

    def test_same_seed_same_training(self):
        x = numbers(4, 7)
        one, two = (dense_with(np.ones((7, 2)), seed=8) for _ in range(2))
        for _ in range(2):
            self.assertAllEqual(one(x, training=True), two(x, training=True))

    def test_without_xla_the_numbers_are_those_of_keras(self):
        ours = concrete_noise.uniform(
            (3, 5), "float32", keras.random.SeedGenerator(2)
        )
        theirs = keras.random.uniform(
            (3, 5), seed=keras.random.SeedGenerator(2)
        )
        self.assertAllEqual(ours, theirs)


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


class SavingTest(TestCase):
    def make(self):
        inner = keras.Sequential(
            [
                keras.Input((7,)),
                ConcreteDropout(layers.Dense(6, activation="relu"), 10),
                layers.Reshape((6, 1)),
                ConcreteDropout(layers.Conv1D(3, 2), 10, seed=3),
                layers.Flatten(),
            ]
        )
        inputs = keras.Input((7,))
        dense = ConcreteDropout(layers.Dense(2), 10, name="last")
        model = keras.Model(inputs, dense(inner(inputs)))
        for index, layer in enumerate((inner.layers[0], dense)):
            layer.noise.logit.assign(-0.5 - index)
            layer.kl_weight.assign(0.5)
        return model

    def test_clone(self):
        model = self.make()
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        x = numbers(3, 7)
        self.assertAllEqual(predict(clone, x), predict(model, x))
        self.assertIsNot(clone.get_layer("last"), model.get_layer("last"))
        # The penalty of the clone is that of its own variables.
        clone.get_layer("last").noise.logit.assign(3.0)
        self.assertNotAllClose(clone.losses[-1], model.losses[-1])

    def test_saved_model_loads_in_a_new_process(self):
        model = self.make()
        folder = self.get_temp_dir()
        path = os.path.join(folder, "model.keras")
        model.save(path)
        np.save(os.path.join(folder, "x.npy"), numbers(3, 7))
        program = """
import os
import sys
import keras
import numpy as np
import keras_bayesdrop as kbd
folder = sys.argv[1]
model = keras.models.load_model(os.path.join(folder, "model.keras"))
last = model.get_layer("last")
print(last.rate, float(last.kl_weight.numpy()), float(sum(model.losses)))
predicted = kbd.predict_with_uncertainty(
    model, np.load(os.path.join(folder, "x.npy")), 9, seed=3,
    return_samples=True, verbose=0,
)
np.save(os.path.join(folder, "samples.npy"), predicted.samples)
"""
        rate, weight, losses = self.run_in_new_process(program, folder).split()
        self.assertEqual(float(rate), model.get_layer("last").rate)
        self.assertEqual(float(weight), 0.5)
        self.assertAllClose(float(losses), float(sum(model.losses)))
        self.assertAllClose(
            np.load(os.path.join(folder, "samples.npy")),
            predict(model, numbers(3, 7)),
            rtol=1e-5,
        )


class PredictionTest(TestCase):
    @parameterized.product(
        engine=ENGINES, masks=("shared", "independent"), rank=(2, 3)
    )
    def test_is_dropout_of_the_learned_rate(self, engine, masks, rank):
        shape = (7,) if rank == 2 else (4, 7)
        learned = [
            ConcreteDropout(layers.Dense(6, activation="relu"), 10),
            ConcreteDropout(layers.Dense(2), 10),
        ]
        model = keras.Sequential([keras.Input(shape), *learned])
        learned[0].noise.logit.assign(-0.7)
        learned[1].noise.logit.assign(0.3)
        fixed = keras.Sequential(
            [
                keras.Input(shape),
                layers.Dropout(learned[0].rate),
                learned[0].layer,
                layers.Dropout(learned[1].rate),
                learned[1].layer,
            ]
        )
        x = numbers(5, *shape)
        self.assertAllEqual(
            predict(model, x, engine=engine, masks=masks),
            predict(fixed, x, engine=engine, masks=masks),
        )

    def test_is_spatial_dropout_before_a_convolution(self):
        layer = ConcreteDropout(layers.Conv2D(3, 2), 10, init_rate=0.4)
        model = keras.Sequential([keras.Input((5, 4, 6)), layer])
        fixed = keras.Sequential(
            [
                keras.Input((5, 4, 6)),
                layers.SpatialDropout2D(layer.rate),
                layer.layer,
            ]
        )
        x = numbers(3, 5, 4, 6)
        for masks in ("shared", "independent"):
            self.assertAllEqual(
                predict(model, x, masks=masks), predict(fixed, x, masks=masks)
            )

    @parameterized.product(engine=ENGINES, masks=("shared", "independent"))
    def test_masks_follow_training_without_a_new_trace(self, engine, masks):
        # The kernel is the identity, so that outputs show the masks.
        layer = dense_with(np.eye(16), init_rate=0.1)
        model = keras.Sequential([keras.Input((16,)), layer])
        x = np.ones((4, 16), "float32")

        def masks_of(rate):
            layer.noise.logit.assign(logit(rate))
            return predict(model, x, engine=engine, masks=masks) > 0

        masks_of(0.1)
        before = traces(model)
        self.assertGreater(before, 0)
        drawn = {rate: masks_of(rate) for rate in (0.2, 0.6, 0.9)}
        self.assertEqual(traces(model), before)
        for rate, mask in drawn.items():
            fixed = keras.Sequential(
                [keras.Input((16,)), layers.Dropout(rate), layers.ReLU()]
            )
            layer.noise.logit.assign(logit(rate))
            # Within the rounding of the logit, no word lies between.
            expected = predict(fixed, x, engine="reference", masks=masks) > 0
            self.assertAllEqual(mask, expected)

    def test_rate_learned_by_fit_is_predicted_with(self):
        layer = ConcreteDropout(layers.Dense(1), 8, init_rate=0.4)
        model = keras.Sequential([keras.Input((7,)), layer])
        model.compile(keras.optimizers.Adam(0.1), "mse")
        x = numbers(8, 7)
        predict(model, x)
        model.fit(x, np.ones((8, 1)), epochs=5, verbose=0)
        self.assertGreater(abs(layer.rate - 0.4), 0.01)
        fixed = keras.Sequential(
            [keras.Input((7,)), layers.Dropout(layer.rate), layer.layer]
        )
        self.assertAllEqual(predict(model, x), predict(fixed, x))

    @parameterized.product(
        sampling=("bernoulli", "concrete"), masks=("shared", "independent")
    )
    def test_samples_are_functions_of_counters(self, sampling, masks):
        model = keras.Sequential(
            [
                keras.Input((7,)),
                ConcreteDropout(layers.Dense(5), 10, sampling=sampling),
                ConcreteDropout(layers.Dense(2), 10, sampling=sampling),
            ]
        )
        x = numbers(6, 7)
        whole = predict(model, x, masks=masks)
        self.assertGreater(whole.std(axis=0).min(), 0)
        parts = predict(model, x, masks=masks, batch_size=4)
        self.assertAllClose(parts, whole, rtol=1e-5, atol=1e-6)
        if masks == "shared":
            function = kbd.sample_function(model, seed=3, sample=2)
            self.assertAllClose(function(x), whole[2], rtol=1e-5, atol=1e-6)

    def test_relaxed_samples_have_the_moments_of_the_relaxation(self):
        rate, temperature = 0.3, 0.5
        layer = dense_with(
            [[1.0]],
            init_rate=rate,
            temperature=temperature,
            sampling="concrete",
        )
        model = keras.Sequential([keras.Input((1,)), layer])
        drawn = predict(model, np.ones((1, 1)), num_samples=20_000)

        def moment(power):
            def part(v):
                u = scipy.special.expit(v)
                keep = scipy.special.expit(-(logit(rate) + v) / temperature)
                return (keep / (1 - rate)) ** power * u * (1 - u)

            return scipy.integrate.quad(part, -40, 40, limit=200)[0]

        mean, variance = moment(1), moment(2) - moment(1) ** 2
        # 4 standard errors; values lie in [0, 1 / 0.7], so that the square of
        # the variance bounds its own variance by the range: 4 * 1.43^2 / 141.
        self.assertAllClose(
            drawn.mean(), mean, rtol=0, atol=4 * math.sqrt(variance / 20_000)
        )
        self.assertAllClose(drawn.var(), variance, rtol=0, atol=0.058)

    def test_inside_code_of_the_user(self):
        class Residual(keras.Model):
            def __init__(self):
                super().__init__()
                self.dropped = ConcreteDropout(
                    layers.Dense(7), 10, init_rate=0.4
                )

            def call(self, x):
                return x + self.dropped(x)

        model = Residual()
        x = numbers(4, 7)
        model(x)
        inputs = keras.Input((7,))
        fixed = layers.Dropout(model.dropped.rate)(inputs)
        fixed = keras.Model(inputs, inputs + model.dropped.layer(fixed))
        self.assertAllClose(
            predict(model, x), predict(fixed, x), rtol=1e-5, atol=1e-6
        )
        self.assertLen(model.losses, 1)

    def test_explained(self):
        layer = ConcreteDropout(layers.Dense(2), 10, init_rate=0.25)
        model = keras.Sequential([keras.Input((7,)), layer])
        (row,) = kbd.inspect(model).stochastic
        self.assertEqual(row.path, f"{layer.name}/noise")
        self.assertEqual(row.noise, "Bernoulli, learned rate 0.25")


class BadInputTest(TestCase):
    @parameterized.parameters(
        ({"num_train_examples": 0}, "num_train_examples"),
        ({"num_train_examples": None}, "num_train_examples"),
        ({"num_train_examples": 10.0}, "num_train_examples"),
        ({"length_scale": 0.0}, "length_scale"),
        ({"init_rate": 0.0}, "init_rate"),
        ({"init_rate": 1.0}, "init_rate"),
        ({"init_rate": True}, "init_rate"),
        ({"init_rate": "0.1"}, "init_rate"),
        ({"init_rate": float("nan")}, "init_rate"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"sampling": "hard"}, "sampling"),
        ({"likelihood": "mae"}, "likelihood"),
        ({"likelihood": "mse"}, "likelihood"),
        ({"likelihood": 1.0}, "likelihood"),
        ({"likelihood": None}, "likelihood"),
    )
    def test_arguments(self, arguments, name):
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{name}`. Expected .*. "
            f"Received: {name}=",
        ):
            ConcreteDropout(
                layers.Dense(3), **{"num_train_examples": 10, **arguments}
            )

    @parameterized.parameters(
        layers.LSTM(3), layers.Conv2DTranspose(3, 2), layers.ReLU(), None, 3
    )
    def test_layers_it_does_not_know(self, layer):
        with self.assertRaisesRegex(
            BayesdropError,
            "Invalid value for argument `layer`. Expected .*Dense.*Received: ",
        ):
            ConcreteDropout(layer, 10)

    @parameterized.parameters("ab,cd->abcd", "ab,ac->ac")
    def test_equations_without_input_units(self, equation):
        with self.assertRaisesRegex(
            BayesdropError, "no input units.*Expected.*Received: equation="
        ):
            ConcreteDropout(layers.EinsumDense(equation, (2, 3)), 10)


class PageTest(TestCase):
    def test_figures_are_those_of_the_results(self):
        script = ROOT / "benchmarks" / "learned_dropout_page.py"
        done = subprocess.run(
            [sys.executable, str(script), "--check"], check=False
        )
        self.assertEqual(
            done.returncode,
            0,
            "The figures in docs/learned_dropout.md are not those of "
            "benchmarks/results. Run: python "
            "benchmarks/learned_dropout_page.py",
        )

    @pytest.mark.filterwarnings("ignore:The log-uniform prior is")
    def test_code_runs(self):
        blocks = blocks_of("learned_dropout.md")
        self.assertEqual(len(blocks), 2)
        x, y = numbers(40, 8), np.arange(40) % 10
        names = {"x": x, "y": y, "x_new": x[:5]}
        for block in blocks:
            exec(re.sub(r"\bepochs=\d+", "epochs=2, verbose=0", block), names)
        self.assertEqual(names["p"].mean.shape, (5, 10))
        self.assertEqual(type(names["small"].layers[-1]), layers.Dense)
