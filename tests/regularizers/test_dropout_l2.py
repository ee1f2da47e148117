# SPDX-License-Identifier: Apache-2.0
import itertools
import os

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from scipy import integrate
from scipy import stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.losses import LikelihoodInNats
from keras_bayesdrop.regularizers import DropoutL2
from keras_bayesdrop.regularizers import model_precision
from tests.helpers import TestCase
from tests.regularizers.structured import likelihood_of

ARGUMENTS = {
    "rate": 0.3,
    "length_scale": 0.7,
    "num_train_examples": 11,
    "likelihood": GaussianLikelihood(2.5),
}


def nats(rate, length_scale):
    """The regularizer whose penalty is the KL itself: N = 1, no tau."""
    return DropoutL2(rate, length_scale, 1, "nll")


class KLTest(TestCase):
    @parameterized.product(rate=(0.1, 0.5, 0.8), length_scale=(0.6, 2.0))
    def test_kl_by_quadrature_up_to_a_constant(self, rate, length_scale):
        # One weight. Keras scales what it keeps, so the two components are
        # N(w / (1 - rate), s^2) and N(0, s^2).
        width = 0.02
        prior = stats.norm(0.0, 1.0 / length_scale)

        def kl(kernel):
            centres = (kernel / (1.0 - rate), 0.0)

            def integrand(weight):
                log_q = np.logaddexp(
                    np.log1p(-rate)
                    + stats.norm.logpdf(weight, centres[0], width),
                    np.log(rate) + stats.norm.logpdf(weight, 0.0, width),
                )
                return np.exp(log_q) * (log_q - prior.logpdf(weight))

            # The components are 25 widths apart or more: integrate around
            # each, where the other is below exp(-60).
            return sum(
                integrate.quad(
                    integrand,
                    centre - 10 * width,
                    centre + 10 * width,
                    epsabs=1e-11,
                    epsrel=1e-11,
                )[0]
                for centre in centres
            )

        kernels = (0.51, -0.9, 1.7, 3.0)
        penalty = nats(rate, length_scale)
        constants = [
            kl(kernel) - float(penalty(np.array([[kernel]])))
            for kernel in kernels
        ]
        self.assertAllClose(constants, [constants[0]] * 4, rtol=0, atol=1e-8)
        # The constant is the one of the corrected proposition 1: the width
        # against the prior, less the entropy of the mask.
        ratio = (length_scale * width) ** 2
        entropy = stats.bernoulli(rate).entropy()
        self.assertAllClose(
            constants[0],
            0.5 * (ratio - np.log(ratio) - 1.0) - entropy,
            rtol=0,
            atol=1e-8,
        )

    def test_kl_of_whole_rows_by_sampling(self):
        # 5 rows of 3 weights; a row is dropped as one. The KL of two kernels
        # is compared under the same noise.
        rate, length_scale, width, draws = 0.3, 0.7, 0.01, 40_000
        rng = np.random.default_rng(0)
        keep = rng.random((draws, 5, 1)) >= rate
        noise = width * rng.normal(size=(draws, 5, 3))

        def log_ratio(kernel):
            mean = kernel / (1.0 - rate)
            weights = keep * mean + noise
            log_q = np.logaddexp(
                np.log1p(-rate)
                + stats.norm.logpdf(weights, mean, width).sum(axis=2),
                np.log(rate)
                + stats.norm.logpdf(weights, 0.0, width).sum(axis=2),
            )
            log_p = stats.norm.logpdf(weights, 0.0, 1.0 / length_scale)
            return log_q.sum(axis=1) - log_p.sum(axis=(1, 2))

        first, second = rng.normal(size=(2, 5, 3))
        difference = log_ratio(first) - log_ratio(second)
        penalty = nats(rate, length_scale)
        expected = float(penalty(first)) - float(penalty(second))
        # 4 standard errors of the mean of the differences.
        error = 4.0 * difference.std() / np.sqrt(draws)
        self.assertLess(error, 0.05 * abs(expected))
        self.assertAllClose(difference.mean(), expected, rtol=0, atol=error)


class ObjectiveTest(TestCase):
    @parameterized.product(
        loss=("mse", "half_mse", "nll"), rate=(0.0, 0.35), outputs=(1, 2)
    )
    def test_gradient_is_that_of_the_evidence_bound(self, loss, rate, outputs):
        # A linear model of 3 inputs, 11 examples, and all 8 masks.
        precision, length_scale, rows = 2.5, 0.7, 11
        rng = np.random.default_rng(3)
        x = rng.normal(size=(rows, 3))
        y = rng.normal(size=(rows, outputs))
        start = rng.normal(size=(3, outputs))
        masks = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
        chances = np.prod(np.where(masks > 0, 1.0 - rate, rate), axis=1)

        def bound(kernel):
            """Negative evidence bound per example, in the paper's variables.

            Weights are mask * M, M = kernel / (1 - rate), in log-densities of
            scipy; the KL is p / 2 * l^2 * sum(M^2), p = 1 - rate.
            """
            means = kernel / (1.0 - rate)
            log_likelihood = sum(
                chance
                * stats.norm.logpdf(
                    y, x @ (mask[:, None] * means), precision**-0.5
                ).sum()
                for mask, chance in zip(masks, chances, strict=True)
            )
            kl = 0.5 * (1.0 - rate) * length_scale**2 * np.sum(means**2)
            return (kl - log_likelihood) / rows

        step = 1e-5
        expected = np.zeros_like(start)
        for index in np.ndindex(start.shape):
            shift = np.zeros_like(start)
            shift[index] = step
            expected[index] = bound(start + shift) - bound(start - shift)
        expected /= 2 * step

        dense = keras.layers.Dense(
            outputs,
            use_bias=False,
            dtype="float64",
            kernel_regularizer=DropoutL2(
                rate,
                length_scale,
                rows,
                likelihood_of(loss, precision, outputs),
            ),
        )
        dense.build((None, 3))
        dense.kernel.assign(start)

        def error(mask):
            mse = keras.losses.MeanSquaredError(dtype="float64")(
                y, dense(x * mask / (1.0 - rate))
            )
            # The last is the part of -log N(y; f, 1 / tau) that varies.
            return {"mse": 1.0, "half_mse": 0.5, "nll": 0.5 * precision}[
                loss
            ] * mse

        with tf.GradientTape() as tape:
            total = sum(
                chance * error(mask)
                for mask, chance in zip(masks, chances, strict=True)
            )
            total += dense.losses[0]
        gradient = tape.gradient(total, dense.kernel.value)
        scale = {"mse": 2.0 / precision, "half_mse": 1.0 / precision, "nll": 1}
        # Central differences of a quadratic are exact up to rounding, 1e-16
        # times values near 10 over a step of 1e-5: 1e-10.
        self.assertAllClose(
            gradient, scale[loss] / outputs * expected, rtol=0, atol=1e-8
        )

    @parameterized.product(
        loss=("mse", "half_mse"), rate=(0.0, 0.4), outputs=(1, 3)
    )
    def test_model_precision_is_the_inverse(self, loss, rate, outputs):
        decay = DropoutL2(
            rate, 0.7, 11, GaussianLikelihood(2.5, outputs, loss)
        ).weight_decay
        precision = model_precision(
            rate, 0.7, decay, 11, loss=loss, num_outputs=outputs
        )
        self.assertAllClose(precision, 2.5, rtol=1e-14, atol=0)

    def test_values(self):
        # l^2 / ((1 - rate) * N * tau), by hand: 4 / (0.8 * 50 * 2) = 0.05.
        penalty = DropoutL2(0.2, 2.0, 50, GaussianLikelihood(2.0))
        self.assertAllClose(penalty.weight_decay, 0.05, rtol=1e-14, atol=0)
        kernel = np.array([[1.0, -2.0], [3.0, 0.5]], "float32")
        self.assertAllClose(penalty(kernel), 0.05 * 14.25, rtol=1e-6, atol=0)
        self.assertAllClose(
            penalty(kernel),
            keras.regularizers.L2(penalty.weight_decay)(kernel),
            rtol=1e-6,
            atol=0,
        )
        self.assertAllClose(
            model_precision(0.1, 1.0, 1e-3, 500), 2.2222222, rtol=1e-7
        )

    def test_total_loss_does_not_depend_on_batch_size(self):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(21, 3)).astype("float32")
        y = rng.normal(size=(21, 1)).astype("float32")
        penalty = DropoutL2(0.3, 0.7, 21, GaussianLikelihood(2.5))
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(1, kernel_regularizer=penalty),
            ]
        )
        model.compile("sgd", "mse")
        kernel, bias = model.get_weights()
        expected = np.mean((x @ kernel + bias - y) ** 2)
        expected += 0.49 / (0.7 * 21 * 2.5) * np.sum(kernel**2)
        for batch_size in (1, 4, 7, 21, 64):
            total = model.evaluate(x, y, batch_size=batch_size, verbose=0)
            self.assertAllClose(total, expected, rtol=1e-5, atol=0)


class KerasContractTest(TestCase):
    @parameterized.parameters(
        GaussianLikelihood(2.5),
        GaussianLikelihood(2.5, loss="half_mse"),
        "nll",
        LikelihoodInNats(3),
    )
    def test_config(self, likelihood):
        penalty = DropoutL2(**{**ARGUMENTS, "likelihood": likelihood})
        self.run_class_serialization_test(penalty)
        again = keras.regularizers.deserialize(
            keras.regularizers.serialize(penalty)
        )
        self.assertIsInstance(again, DropoutL2)
        self.assertEqual(again.weight_decay, penalty.weight_decay)
        self.assertEqual(again.likelihood, penalty.likelihood)

    @parameterized.parameters("float32", "mixed_float16", "float16")
    def test_saved_inside_a_layer(self, dtype):
        penalty = DropoutL2(**ARGUMENTS)
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(2, kernel_regularizer=penalty, dtype=dtype),
            ]
        )
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        kernel = model.get_weights()[0].astype("float32")
        for network in (model, loaded):
            network(np.ones((2, 3), "float32"))
            (loss,) = network.losses
            self.assertEqual(loss.dtype.name, "float32")
            self.assertAllClose(
                loss, penalty.weight_decay * np.sum(kernel**2), rtol=1e-6
            )

    def test_large_kernel_in_low_precision(self):
        # 90_000 ones overflow float16, whose largest number is 65_504.
        penalty = DropoutL2(**ARGUMENTS)
        kernel = np.ones((300, 300), "float16")
        self.assertAllClose(
            penalty(kernel), 90_000 * penalty.weight_decay, rtol=1e-6
        )

    @parameterized.parameters("float32", "mixed_float16")
    def test_fits_under_xla(self, dtype):
        model = keras.Sequential(
            [
                keras.layers.Dense(
                    2, kernel_regularizer=DropoutL2(**ARGUMENTS), dtype=dtype
                )
            ]
        )
        model.compile("sgd", "mse", jit_compile=True)
        history = model.fit(
            np.ones((5, 3)), np.ones((5, 2)), epochs=2, verbose=0
        )
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))


class ErrorTest(TestCase):
    @parameterized.parameters(
        ("rate", 1.0),
        ("rate", -0.1),
        ("rate", None),
        ("length_scale", 0.0),
        ("length_scale", float("inf")),
        ("length_scale", "1"),
        ("num_train_examples", 0),
        ("num_train_examples", 10.5),
        ("num_train_examples", True),
        ("likelihood", "mse"),
        ("likelihood", 2.5),
        ("likelihood", None),
    )
    def test_wrong_arguments(self, name, value):
        with self.assertRaisesRegex(
            BayesdropError,
            f"Invalid value for argument `{name}`. Expected .*"
            f"Received: {name}=",
        ):
            DropoutL2(**{**ARGUMENTS, name: value})

    def test_likelihood_is_required(self):
        with self.assertRaisesRegex(
            BayesdropError, "`likelihood`. Expected 'nll', .*likelihood=None"
        ):
            DropoutL2(0.3, 0.7, 11)

    @parameterized.parameters("loss", "noise_precision", "num_outputs")
    def test_old_spelling(self, name):
        with self.assertRaisesRegex(
            BayesdropError, f"`{name}` .*Expected likelihood=.*: {name}=2"
        ):
            DropoutL2(0.3, 0.7, num_train_examples=11, **{name: 2})

    def test_unknown_keyword(self):
        with self.assertRaisesRegex(
            TypeError, r"DropoutL2\.__init__\(\) .*'scale'"
        ):
            DropoutL2(**ARGUMENTS, scale=1.0)

    @parameterized.parameters(
        ("rate", 1.0),
        ("length_scale", -1.0),
        ("weight_decay", 0.0),
        ("num_train_examples", 0),
        ("loss", "nll"),
        ("num_outputs", -2),
    )
    def test_wrong_arguments_of_model_precision(self, name, value):
        arguments = {
            "rate": 0.3,
            "length_scale": 0.7,
            "weight_decay": 1e-4,
            "num_train_examples": 11,
        }
        with self.assertRaisesRegex(
            BayesdropError, f"argument `{name}`. Expected .*Received: {name}="
        ):
            model_precision(**{**arguments, name: value})
