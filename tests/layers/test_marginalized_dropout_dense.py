# SPDX-License-Identifier: Apache-2.0
"""Training with the mean over all masks: against the masks, one by one."""

import os

import keras
import numpy as np
import scipy.special
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import MarginalizedDropoutDense
from keras_bayesdrop.theory import ensemble_network
from keras_bayesdrop.theory import expected_gradient
from tests.helpers import TestCase
from tests.layers.test_contract import Probe
from tests.theory.masks import all_masks

MSE = ("mse", None)
BINARY = ("binary_crossentropy", "sigmoid")
BINARY_LOGITS = ("binary_crossentropy", None)
CLASSES = ("categorical_crossentropy", "softmax")
CLASSES_LOGITS = ("categorical_crossentropy", None)
KINDS = (
    ("mse", *MSE),
    ("binary", *BINARY),
    ("binary_logits", *BINARY_LOGITS),
    ("classes", *CLASSES),
    ("classes_logits", *CLASSES_LOGITS),
)
UNIT = {
    "mse": "linear",
    "binary_crossentropy": "logistic",
    "categorical_crossentropy": "softmax",
}


def _loss(loss, activation):
    """The loss of Keras, in float64."""
    settings = {"dtype": "float64"}
    if loss == "mse":
        return keras.losses.MeanSquaredError(**settings)
    settings["from_logits"] = activation is None
    if loss == "binary_crossentropy":
        return keras.losses.BinaryCrossentropy(**settings)
    return keras.losses.CategoricalCrossentropy(**settings)


def _problem(size):
    """Inputs [4, 5], probabilities [4, 3], a kernel and a bias."""
    rng = np.random.default_rng(0)
    targets = scipy.special.softmax(rng.normal(size=(4, 3)), axis=1)
    kernel = size * rng.normal(size=(5, 3))
    return rng.normal(size=(4, 5)), targets, kernel, rng.normal(size=3)


def _layer(loss, activation, kernel, bias, rate=0.3, **kwargs):
    layer = MarginalizedDropoutDense(
        3, rate, loss=loss, activation=activation, dtype="float64", **kwargs
    )
    layer.build((None, 5))
    layer.dense.set_weights([kernel, bias])
    return layer


def _gradient(layer, loss, x, targets):
    """Gradient of the loss of training, by the kernel and by the inputs."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, training=True)
        (penalty,) = layer.losses
        total = loss(targets, outputs) + penalty
    return total, tape.gradient(total, [layer.dense.kernel.value, x])


def _over_masks(layer, loss, x, targets, rate=0.3):
    """The same with dropout, averaged over all masks."""
    masks, chances = all_masks(np.full(5, rate))
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = sum(
            chance * loss(targets, layer.dense(x * (mask / (1 - rate))))
            for mask, chance in zip(masks, chances, strict=True)
        )
    return total, tape.gradient(total, [layer.dense.kernel.value, x])


class MarginalizedDropoutDenseTest(TestCase):
    def test_squared_error_is_exact_eq_148(self):
        x, targets, kernel, bias = _problem(1.0)
        layer, loss = _layer(*MSE, kernel, bias), _loss(*MSE)
        penalised, gradients = _gradient(layer, loss, x, targets)
        expected, exact = _over_masks(layer, loss, x, targets)
        self.assertAllClose(penalised, expected, rtol=1e-12, atol=0)
        for each, right in zip(gradients, exact, strict=True):
            self.assertAllClose(each, right, rtol=0, atol=1e-12)
        plain = loss(targets, layer(x))
        self.assertGreater(float(expected - plain), 0.1)

    @parameterized.named_parameters(*KINDS)
    def test_gradient_is_the_expected_one_eq_147_and_164(
        self, loss, activation
    ):
        x, targets, kernel, bias = _problem(0.5)
        for hold in (True, False):
            layer = _layer(loss, activation, kernel, bias, hold_curvature=hold)
            with tf.GradientTape() as tape:
                layer(x, training=True)
                (penalty,) = layer.losses
            gradient = tape.gradient(penalty, layer.dense.kernel.value)
            expected = expected_gradient(
                x,
                targets,
                [kernel],
                0.3,
                biases=[bias],
                unit=UNIT[loss],
                hold_curvature=hold,
            ).penalty[0, 1]
            # Keras averages over the 3 outputs, and has no half in "mse".
            units = {"mse": 2 / 3, "binary_crossentropy": 1 / 3}.get(loss, 1.0)
            self.assertAllClose(gradient, units * expected, rtol=1e-12, atol=0)

    @parameterized.named_parameters(*KINDS[1:])
    def test_logistic_units_are_right_to_first_order_eq_165(
        self, loss, activation
    ):
        errors, without = [], []
        for size in (1 / 32, 1 / 64):
            x, targets, kernel, bias = _problem(size)
            layer = _layer(loss, activation, kernel, bias)
            compiled = _loss(loss, activation)
            _, (gradient, _) = _gradient(layer, compiled, x, targets)
            _, (exact, _) = _over_masks(layer, compiled, x, targets)
            still = _layer(loss, activation, kernel, bias, rate=0.0)
            with tf.GradientTape() as tape:
                total = compiled(targets, still(x, training=True))
            plain = tape.gradient(total, still.dense.kernel.value)
            errors.append(np.abs(gradient - exact).max())
            without.append(np.abs(plain - exact).max())
        # Half the kernel, a fourth of the error; half of it without penalty.
        self.assertBetween(errors[0] / errors[1], 3.6, 4.4)
        self.assertBetween(without[0] / without[1], 1.8, 2.2)
        self.assertLess(errors[1], without[1] / 10)

    @parameterized.named_parameters(*KINDS[1:])
    def test_free_curvature_is_the_expected_loss_to_second_order(
        self, loss, activation
    ):
        errors = []
        for size in (1 / 32, 1 / 64):
            x, targets, kernel, bias = _problem(size)
            layer = _layer(
                loss, activation, kernel, bias, rate=0.5, hold_curvature=False
            )
            compiled = _loss(loss, activation)
            penalised, _ = _gradient(layer, compiled, x, targets)
            exact, _ = _over_masks(layer, compiled, x, targets, rate=0.5)
            errors.append(abs(float(penalised - exact)))
        # The third moment is zero at this rate: of fourth order, 1/16.
        self.assertBetween(errors[0] / errors[1], 14, 18)

    @parameterized.named_parameters(*KINDS)
    def test_keras_contract(self, loss, activation):
        for shape in ((2, 5), (2, 4, 5)):
            self.run_layer_test(
                MarginalizedDropoutDense,
                init_kwargs={
                    "units": 3,
                    "rate": 0.4,
                    "loss": loss,
                    "activation": activation,
                    "seed": 1,
                },
                input_shape=shape,
                expected_output_shape=(*shape[:-1], 3),
                expected_num_trainable_weights=2,
                expected_num_non_trainable_weights=0,
                expected_num_seed_generators=1,
                expected_num_losses=0,
                supports_masking=True,
            )

    def test_arguments_of_dense(self):
        layer = MarginalizedDropoutDense(
            3,
            0.4,
            use_bias=False,
            kernel_initializer="ones",
            kernel_regularizer=keras.regularizers.L2(0.1),
            name="out",
            trainable=False,
        )
        loaded = MarginalizedDropoutDense.from_config(layer.get_config())
        self.assertEqual(loaded.get_config(), layer.get_config())
        self.assertEqual((loaded.name, loaded.trainable), ("out", False))
        self.assertAllEqual(loaded(np.ones((2, 5))), np.full((2, 3), 5.0))
        self.assertLen(loaded.weights, 1)

    def test_penalty_is_in_training_only_and_is_the_mean_over_the_batch(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(6, 2, 5)).astype("float32")
        layer = MarginalizedDropoutDense(3, 0.25)
        for training in (None, False):
            layer(x, training=training)
            self.assertEqual(layer.losses, [])
        layer(x, training=True)
        (penalty,) = layer.losses
        kernel = layer.dense.kernel.numpy()
        self.assertAllClose(penalty, np.mean(x**2 @ kernel**2) / 3, rtol=1e-5)
        still = MarginalizedDropoutDense(3, 0.0)
        still(x, training=True)
        self.assertEqual(still.losses, [])

    @parameterized.named_parameters(*KINDS[:2], KINDS[-1])
    def test_fits_under_xla(self, loss, activation):
        x, targets, _, _ = _problem(1.0)
        layer = MarginalizedDropoutDense(
            3, 0.5, loss=loss, activation=activation
        )
        model = keras.Sequential([keras.Input((5,)), layer])
        compiled = _loss(loss, activation)
        model.compile("sgd", compiled, jit_compile=True)
        data = float(compiled(targets, model(x)))
        model(x, training=True)
        (penalty,) = model.losses
        before = layer.dense.kernel.numpy()
        total = model.fit(x, targets, batch_size=4, verbose=0).history["loss"]
        self.assertAllClose(total[0], data + float(penalty), rtol=1e-5)
        self.assertNotAllClose(layer.dense.kernel.numpy(), before)

    def test_minimum_of_a_regression_is_that_of_ridge_regression_eq_148(self):
        rng = np.random.default_rng(1)
        x, t = rng.normal(size=(8, 5)), rng.normal(size=(8, 3))
        rate = 0.4
        decay = rate / (1 - rate) * np.diag(np.sum(x**2, 0))
        best = np.linalg.solve(x.T @ x + decay, x.T @ t)
        layer = _layer(*MSE, best, np.zeros(3), rate)
        _, (gradient, _) = _gradient(layer, _loss(*MSE), x, t)
        self.assertAllClose(gradient, np.zeros((5, 3)), rtol=0, atol=1e-12)

    @parameterized.parameters("mixed_float16", "mixed_bfloat16", "float64")
    def test_dtypes(self, policy):
        layer = MarginalizedDropoutDense(3, 0.5, dtype=policy)
        # Squares of 300 are beyond float16.
        y = layer(np.full((2, 5), 300.0, "float32"), training=True)
        self.assertEqual(y.dtype.name, policy.removeprefix("mixed_"))
        (penalty,) = layer.losses
        self.assertTrue(np.isfinite(float(penalty)))
        wide = "float64" if policy == "float64" else "float32"
        self.assertEqual(penalty.dtype.name, wide)

    def test_predictions_drop_units(self):
        x = np.random.default_rng(2).normal(size=(3, 5)).astype("float32")
        layer = MarginalizedDropoutDense(2, 0.3)
        model = keras.Sequential([keras.Input((5,)), layer])
        self.assertAllClose(model.predict(x, verbose=0), layer.dense(x))
        kernel = layer.dense.kernel.numpy()
        variance = 0.3 / 0.7 * x**2 @ kernel**2
        predicted = kbd.predict_with_uncertainty(
            model, x, method="moments", verbose=0
        )
        self.assertAllClose(predicted.variance, variance, rtol=1e-5)
        samples = kbd.predict_with_uncertainty(
            model, x, 4000, seed=0, verbose=0
        )
        # A sum of bounded terms: its fourth moment is at most some 4 V^2, so
        # that 5 standard errors are 5 * sqrt(3 / 4000) = 0.14 of V.
        self.assertAllClose(samples.variance, variance, rtol=0.14, atol=0)

    def test_predictions_of_a_model_with_its_own_code(self):
        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.out = MarginalizedDropoutDense(2, 0.5)

            def call(self, x):
                return self.out(x)

        model, x = Own(), np.ones((3, 5), "float32")
        model(x)
        predicted = kbd.predict_with_uncertainty(
            model, x, 20, seed=0, verbose=0
        )
        self.assertTrue(np.all(predicted.std > 0))

    def test_plain_form(self):
        x = np.ones((3, 5), "float32")
        layer = MarginalizedDropoutDense(2, 0.5)
        model = keras.Sequential([keras.Input((5,)), layer])
        plain = ensemble_network(model)
        self.assertEqual([type(e) for e in plain.layers], [keras.layers.Dense])
        self.assertAllClose(plain(x), layer.dense(x))

    def test_saving(self):
        x = np.ones((3, 5), "float32")
        model = keras.Sequential(
            [
                keras.Input((5,)),
                MarginalizedDropoutDense(
                    2,
                    0.5,
                    loss="binary_crossentropy",
                    hold_curvature=False,
                    activation="sigmoid",
                ),
            ]
        )
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAllEqual(loaded(x), model(x))
        self.assertFalse(loaded.layers[0].hold_curvature)

    def test_masks_pass_through(self):
        x = np.ones((2, 3, 5), "float32")
        x[1, 2] = 0.0
        model = keras.Sequential(
            [keras.layers.Masking(), MarginalizedDropoutDense(2, 0.5), Probe()]
        )
        self.assertAllEqual(model(x), np.any(x != 0, axis=-1))

    @parameterized.parameters(
        ({"rate": 1.0}, r"`rate`.*\[0, 1\).*rate=1.0"),
        ({"loss": "nll"}, "`loss`.*'mse'.*'nll'"),
        ({"activation": "relu"}, "`activation`.*linear with loss='mse'.*relu"),
        (
            {"loss": "binary_crossentropy", "activation": "softmax"},
            "`activation`.*sigmoid or linear.*softmax",
        ),
    )
    def test_wrong_arguments(self, arguments, message):
        with self.assertRaisesRegex(BayesdropError, message):
            MarginalizedDropoutDense(**{"units": 2, "rate": 0.5, **arguments})
