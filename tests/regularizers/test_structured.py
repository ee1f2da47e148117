# SPDX-License-Identifier: Apache-2.0
"""Tests that `ARD`, `ADD` and `ARDADD` have in common."""

import os

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.regularizers import ADD
from keras_bayesdrop.regularizers import ARD
from keras_bayesdrop.regularizers import ARDADD
from tests.helpers import TestCase
from tests.regularizers import structured


def gradient(penalty, weights):
    weights = tf.constant(weights)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        value = penalty(weights)
    return tape.gradient(value, weights).numpy()


def differences(function, weights, step=1e-5):
    """The gradient of a function of a matrix, by central differences."""
    slopes = np.zeros_like(weights)
    for place in np.ndindex(weights.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = weights.copy()
            moved[place] += sign * step
            ends.append(float(function(moved)))
        slopes[place] = (ends[0] - ends[1]) / (2.0 * step)
    return slopes


class PenaltyTest(TestCase):
    @parameterized.parameters(*structured.PENALTIES)
    def test_value(self, penalty, arguments):
        for changes in ({}, {"sigma0": 0.3, "epsilon": 0.2}):
            regularizer = penalty(*arguments, **changes)
            matrix = structured.kernel(4, 3)
            scales = regularizer.scales(matrix)
            expected = structured.nats(regularizer, matrix, scales) / 40.0
            # Float64 throughout; a sum of 12 terms.
            self.assertAllClose(regularizer(matrix), expected, rtol=1e-12)

    @parameterized.parameters(*structured.PENALTIES)
    def test_scales_are_the_best(self, penalty, arguments):
        regularizer = penalty(*arguments, sigma0=0.6)
        matrix = structured.kernel(4, 3)
        scales = regularizer.scales(matrix)
        best = structured.nats(regularizer, matrix, scales)
        rng = np.random.default_rng(3)
        for _ in range(20):
            moved = GroupScales(
                *(
                    part
                    if part is None
                    else part * np.exp(0.1 * rng.normal(size=part.shape))
                    for part in scales
                )
            )
            self.assertLess(best, structured.nats(regularizer, matrix, moved))

    @parameterized.parameters(*structured.PENALTIES)
    def test_gradient(self, penalty, arguments):
        regularizer = penalty(*arguments, sigma0=0.6)
        matrix = structured.kernel(4, 3)
        scales = regularizer.scales(matrix)
        actual = gradient(regularizer, matrix)
        std = structured.prior_std(regularizer, scales, 3)
        self.assertAllClose(actual, matrix / std**2 / 40.0, rtol=1e-12)
        # Values near 1 with 16 digits over a step of 1e-5: 1e-11; truncation
        # of the step squared times the third derivative, some 10: 1e-9.
        held = differences(
            lambda w: structured.nats(regularizer, w, scales) / 40.0, matrix
        )
        self.assertAllClose(actual, held, rtol=0, atol=2e-9)

    @parameterized.parameters(*structured.PENALTIES[::2])
    def test_gradient_is_the_total_one(self, penalty, arguments):
        # The scales follow the weights, and the penalty is flat in them.
        regularizer = penalty(*arguments, sigma0=0.6)
        matrix = structured.kernel(3, 2)
        compiled = tf.function(regularizer)
        total = differences(lambda w: compiled(tf.constant(w)), matrix)
        # As above; scales that are off by 3e-9 add its square.
        self.assertAllClose(
            gradient(regularizer, matrix), total, rtol=0, atol=2e-8
        )

    @parameterized.product(
        case=structured.PENALTIES[::3],
        loss=("mse", "half_mse", "nll"),
        outputs=(1, 3),
    )
    def test_loss_and_penalty_are_the_posterior(self, case, loss, outputs):
        # N times the loss, in nats, has the gradient of minus the log of the
        # joint density of targets, weights and scales.
        penalty, arguments = case
        precision, rows = 2.5, 40
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(rows, 4)), rng.normal(size=(rows, outputs))
        start = rng.normal(size=(4, outputs))
        regularizer = penalty(
            *arguments,
            likelihood=structured.likelihood_of(loss, precision, outputs),
        )
        std = structured.prior_std(
            regularizer, regularizer.scales(start), outputs
        )
        expected = precision * x.T @ (x @ start - y) + start / std**2
        kernel = tf.constant(start)
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            mse = tf.reduce_mean(tf.square(tf.matmul(x, kernel) - y))
            data, in_nats = {
                "mse": (mse, precision / 2.0),
                "half_mse": (0.5 * mse, precision),
                "nll": (0.5 * precision * mse, 1.0),
            }[loss]
            total = rows * outputs * in_nats * (data + regularizer(kernel))
        self.assertAllClose(
            tape.gradient(total, kernel), expected, rtol=1e-9, atol=1e-9
        )

    @parameterized.parameters(*structured.PENALTIES)
    def test_weights_of_zero(self, penalty, arguments):
        regularizer = penalty(*arguments)
        for weights in (
            np.zeros((4, 3), "float32"),
            np.float32([[0.0] * 3] * 2 + [[1.0, 2.0, 3.0]] * 2),
            np.full((4, 3), 1e-30, "float32"),
        ):
            self.assertTrue(np.isfinite(regularizer(weights)))
            slopes = gradient(regularizer, weights)
            self.assertTrue(np.all(np.isfinite(slopes)))
            self.assertAllEqual(
                slopes[:2] * (weights[:2] == 0.0), [[0] * 3] * 2
            )

    @parameterized.parameters(*structured.PENALTIES)
    def test_float32(self, penalty, arguments):
        regularizer = penalty(*arguments)
        matrix = structured.kernel(20, 10).astype("float32")
        exact = gradient(regularizer, matrix.astype("float64"))
        # Scales good to 1e-6, see the tests of the priors, enter squared.
        self.assertAllClose(
            gradient(regularizer, matrix), exact, rtol=3e-6, atol=0
        )


class KerasContractTest(TestCase):
    @parameterized.parameters(*structured.PENALTIES)
    def test_config(self, penalty, arguments):
        regularizer = penalty(
            *arguments,
            sigma0=0.5,
            epsilon=1e-3,
            likelihood=GaussianLikelihood(2.0, num_outputs=3),
        )
        self.run_class_serialization_test(regularizer)
        again = keras.regularizers.deserialize(
            keras.regularizers.serialize(regularizer)
        )
        self.assertIsInstance(again, penalty)
        self.assertEqual(again.likelihood, regularizer.likelihood)
        self.assertEqual(again.row_prior, regularizer.row_prior)
        self.assertEqual(again.matrix_prior, regularizer.matrix_prior)
        matrix = structured.kernel(4, 3)
        self.assertAllEqual(again(matrix), regularizer(matrix))

    @parameterized.parameters(
        *((*case, "float32") for case in structured.PENALTIES[::3]),
        *((*case, "mixed_float16") for case in structured.PENALTIES[1::3]),
    )
    def test_fits_under_xla_and_is_saved(self, penalty, arguments, dtype):
        regularizer = penalty(*arguments)
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(
                    2, kernel_regularizer=regularizer, dtype=dtype
                ),
            ]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=True)
        x = np.random.default_rng(0).normal(size=(40, 3))
        history = model.fit(x, x[:, :2], epochs=2, verbose=0)
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        kernel = model.layers[0].kernel
        (loss,) = loaded.losses
        self.assertEqual(loss.dtype.name, "float32")
        # The same arithmetic, compiled and not.
        self.assertAllClose(loss, regularizer(kernel), rtol=1e-6)

    @parameterized.parameters(*structured.PENALTIES[::4])
    def test_low_precision(self, penalty, arguments):
        # 90_000 ones overflow float16, whose largest number is 65_504.
        regularizer = penalty(*arguments)
        value = regularizer(np.ones((300, 300), "float16"))
        self.assertEqual(value.dtype, tf.float32)
        self.assertAllClose(
            value, regularizer(np.ones((300, 300))), rtol=1e-5, atol=0
        )


class ErrorTest(TestCase):
    @parameterized.product(
        penalty=(ARD, ADD, ARDADD),
        wrong=(
            ("num_train_examples", 0),
            ("num_train_examples", 10.5),
            ("sigma0", 0.0),
            ("sigma0", float("nan")),
            ("epsilon", 0.0),
            ("epsilon", 1e-13),
            ("likelihood", "mae"),
            ("likelihood", 1.0),
        ),
    )
    def test_wrong_arguments(self, penalty, wrong):
        name, value = wrong
        priors = ["half_cauchy"] * (2 if penalty is ARDADD else 1)
        with self.assertRaisesRegex(
            BayesdropError, f"argument `{name}`. Expected .*Received: {name}="
        ):
            penalty(*priors, **{"num_train_examples": 40, name: value})

    @parameterized.parameters(
        (ARD, ("normal",), "row_prior"),
        (ARD, (None,), "row_prior"),
        (ADD, (1.0,), "matrix_prior"),
        (ARDADD, ("horseshoe", "half_cauchy"), "row_prior"),
        (ARDADD, ("half_cauchy", "horseshoe"), "matrix_prior"),
    )
    def test_unknown_prior(self, penalty, priors, name):
        with self.assertRaisesRegex(
            BayesdropError,
            f"argument `{name}`. Expected .* a `ScalePrior`.*Received: {name}=",
        ):
            penalty(*priors, 40)

    @parameterized.product(
        penalty=(ARD, ADD, ARDADD),
        name=("loss", "noise_precision", "num_outputs"),
    )
    def test_old_spelling(self, penalty, name):
        priors = ["half_cauchy"] * (2 if penalty is ARDADD else 1)
        with self.assertRaisesRegex(
            BayesdropError, f"`{name}` .*Expected likelihood=.*: {name}=2"
        ):
            penalty(*priors, 40, **{name: 2})
        with self.assertRaisesRegex(TypeError, "unexpected keyword .*'scale'"):
            penalty(*priors, 40, scale=1.0)

    @parameterized.parameters(1.0, None, True, "rows")
    def test_wrong_axis(self, axis):
        with self.assertRaisesRegex(
            BayesdropError, "argument `axis`. Expected .*Received: axis="
        ):
            ARD("half_cauchy", 40, axis=axis)

    @parameterized.parameters(((3,), -2), ((3,), 0), ((), -2), ((3, 2), 2))
    def test_weights_without_rows(self, shape, axis):
        for regularizer in (
            ARD("half_cauchy", 40, axis=axis),
            ARDADD("half_cauchy", "half_cauchy", 40, axis=axis),
        ):
            with self.assertRaisesRegex(
                BayesdropError,
                "no rows .*Expected a kernel of rank 2 .*Received: weights of "
                "shape",
            ):
                regularizer(np.ones(shape))
