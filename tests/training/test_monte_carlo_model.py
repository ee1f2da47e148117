# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import os
import pathlib

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop
from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import UnbuiltModelError
from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.training import MonteCarloModel
from tests import zoo
from tests.helpers import TestCase

layers = keras.layers
OBJECTIVES = ("lower_bound", "importance_weighted", "tail_adaptive")
X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = (X.sum(axis=-1, keepdims=True) + np.sin(X[:, :1])).astype("float32")
SAMPLES = 3


def weights_of(logs, objective):
    """Equations 10, 16 and 17, written out for the last axis."""
    if objective == "lower_bound":
        return np.full(logs.shape, 1.0 / logs.shape[-1])
    if objective == "importance_weighted":
        return scipy.special.softmax(logs, axis=-1)
    weights = np.empty(logs.shape)
    for place in np.ndindex(*logs.shape[:-1]):
        gammas = [
            len(logs[place]) / sum(other >= mine for other in logs[place])
            for mine in logs[place]
        ]
        weights[place] = np.array(gammas) / sum(gammas)
    return weights


def value_of(logs, objective):
    if objective == "importance_weighted":
        return scipy.special.logsumexp(logs, axis=-1, b=1 / logs.shape[-1])
    return np.sum(weights_of(logs, objective) * logs, axis=-1)


class KnownNoise(layers.Layer):
    """Multiplies by factors that are known: one per unit and sample.

    Folded, a row is sample `row % samples`; one after another, a call is.
    """

    def __init__(self, factors, by_call=False):
        super().__init__()
        self.factors = keras.ops.convert_to_tensor(factors)
        self.by_call = by_call
        self.calls = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False
        )

    def call(self, inputs, training=None):
        if not training:
            return inputs
        samples = self.factors.shape[0]
        if self.by_call:
            self.calls.assign_add(1)
            return inputs * self.factors[(self.calls - 1) % samples]
        number = keras.ops.arange(keras.ops.shape(inputs)[0]) % samples
        return inputs * keras.ops.take(self.factors, number, axis=0)


def train(model, x, y, weight=None):
    """Takes one step. (Older Keras averages over calls until told not to.)"""
    model.reset_metrics()
    return model.train_on_batch(x, y, weight, return_dict=True)


def evaluate(model, x, y, weight=None):
    model.reset_metrics()
    return model.test_on_batch(x, y, weight, return_dict=True)


def dropout_net(rate=0.5, outputs=1, activation=None, kind=layers.Dropout):
    inputs = keras.Input((3,))
    x = layers.Dense(8, activation="tanh", kernel_regularizer="l2")(inputs)
    x = kind(rate, seed=3)(x)
    return inputs, layers.Dense(outputs, activation=activation)(x)


class GradientTest(TestCase):
    FACTORS = np.random.default_rng(1).uniform(0, 2, (SAMPLES, 3))

    @parameterized.product(
        objective=OBJECTIVES,
        per=("example", "batch"),
        vectorized=(True, False),
        weighted=(True, False),
    )
    def test_step_is_that_of_the_paper(
        self, objective, per, vectorized, weighted
    ):
        """A step of size 1 on a linear model, whose gradient is known."""
        inputs = keras.Input((3,))
        x = KnownNoise(self.FACTORS.astype("float32"), not vectorized)(inputs)
        dense = layers.Dense(1, use_bias=False, kernel_regularizer="l2")
        model = MonteCarloModel(inputs, dense(x))
        model.compile(
            keras.optimizers.SGD(1.0),
            GaussianNLL(2.0),
            mc_samples=SAMPLES,
            mc_objective=objective,
            mc_per=per,
            mc_vectorized=vectorized,
            run_eagerly=True,
        )
        kernel = dense.kernel.numpy()[:, 0].astype("float64")
        scales = np.random.default_rng(2).uniform(0, 2, 12)
        scale = scales if weighted else np.ones(12)
        logs = train(model, X, Y, scales if weighted else None)

        noisy = X[:, None].astype("float64") * self.FACTORS  # [12, samples, 3]
        errors = Y.astype("float64") - noisy @ kernel  # [12, samples]
        likelihoods = scipy.stats.norm.logpdf(errors, 0.0, 0.5**0.5)
        gradients = 2.0 * errors[..., None] * noisy
        if per == "example":
            weights = weights_of(likelihoods, objective) * scale[:, None]
            want = np.einsum("ns,nsd->d", weights, gradients)
            value = scale @ value_of(likelihoods, objective)
        else:
            together = scale @ likelihoods  # [samples]
            want = np.einsum(
                "s,n,nsd->d",
                weights_of(together, objective),
                scale,
                gradients,
            )
            value = value_of(together, objective)
        penalty = 0.01 * np.sum(kernel**2)
        moved = dense.kernel.numpy()[:, 0] - kernel
        # float32: sums of some 36 terms of about 10 each.
        self.assertAllClose(moved, want / 12 - 0.02 * kernel, atol=1e-4)
        self.assertAllClose(logs["mc_loss"], -value / 12, rtol=1e-5)
        self.assertAllClose(logs["loss"], -value / 12 + penalty, rtol=1e-5)
        plain = scipy.stats.norm.logpdf(Y[:, 0], X @ kernel, 0.5**0.5)
        self.assertAllClose(logs["nll"], -scale @ plain / 12, rtol=1e-5)


class LikeKerasTest(TestCase):
    @parameterized.product(objective=OBJECTIVES, vectorized=(True, False))
    def test_one_sample_is_the_training_of_keras(self, objective, vectorized):
        ours = MonteCarloModel(*dropout_net())
        plain = keras.Model(*dropout_net())
        plain.set_weights(ours.get_weights())
        ours.compile(
            "sgd",
            GaussianNLL(2.0),
            mc_samples=1,
            mc_objective=objective,
            mc_vectorized=vectorized,
            run_eagerly=True,
        )
        plain.compile("sgd", GaussianNLL(2.0), run_eagerly=True)
        for _ in range(2):
            made = train(ours, X, Y)
            want = train(plain, X, Y)
            self.assertAllClose(made["loss"], want["loss"], rtol=1e-5)
        for one, other in zip(ours.weights, plain.weights, strict=True):
            self.assertAllClose(one, other, rtol=1e-5)
        made = ours.evaluate(X, Y, verbose=0, return_dict=True)
        want = plain.evaluate(X, Y, verbose=0)
        penalty = sum(ours.losses)
        self.assertAllClose(made["nll"] + penalty, want, rtol=1e-5)
        self.assertAllClose(made["loss"], made["mc_loss"] + penalty, rtol=1e-5)
        self.assertAllClose(ours.compute_loss(X, Y, ours(X)), want, rtol=1e-5)

    @parameterized.named_parameters(
        ("labels", "binary_crossentropy", "sigmoid", (12, 4)),
        ("counts", "poisson", "exponential", (12, 4)),
        ("steps", "sparse_categorical_crossentropy", "softmax", (12, 5)),
        ("masked", "sparse_categorical_crossentropy", "softmax", (12, 5)),
    )
    def test_averages_over_the_values_that_keras_does(
        self, loss, activation, shape
    ):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, shape)
        if loss.startswith("sparse"):
            tokens = rng.integers(1, 9, shape)
            masked = "masked" in self._testMethodName
            tokens[:, 3:] = 0 if masked else 1
            x, inputs = tokens, keras.Input((5,), dtype="int32")
            hidden = layers.Embedding(9, 4, mask_zero=masked)(inputs)
            weight = rng.uniform(size=shape)
        else:
            x, inputs = X, keras.Input((3,))
            hidden, weight = inputs, rng.uniform(size=12)
        outputs = layers.Dense(4, activation=activation)(hidden)
        ours = MonteCarloModel(inputs, outputs)
        plain = keras.Model(inputs, outputs)
        ours.compile("sgd", loss, mc_samples=2, run_eagerly=True)
        plain.compile("sgd", loss, run_eagerly=True)
        for scale in (None, weight):
            made = evaluate(ours, x, y, scale)
            want = evaluate(plain, x, y, scale)["loss"]
            self.assertAllClose(made["loss"], want, rtol=1e-5)
            trained = train(ours, x, y, scale)
            self.assertAllClose(trained["loss"], want, rtol=1e-5)

    def test_class_weights(self):
        y = (Y[:, 0] > 0).astype("int32")
        ours = MonteCarloModel(*dropout_net(0.0, activation="sigmoid"))
        plain = keras.Model(ours.input, ours.output)
        ours.compile("sgd", "binary_crossentropy", mc_samples=2)
        plain.compile("sgd", "binary_crossentropy")
        weights = {0: 1.0, 1: 5.0}
        want = plain.fit(X, y, class_weight=weights, epochs=1, verbose=0)
        scale = np.where(y == 1, 5.0, 1.0)
        before = ours.evaluate(
            X, y, sample_weight=scale, verbose=0, return_dict=True
        )
        made = ours.fit(X, y, class_weight=weights, epochs=1, verbose=0)
        self.assertAllClose(made.history["loss"], [before["loss"]], rtol=1e-5)
        self.assertGreater(want.history["loss"][0], before["loss"])


class ExpectationTest(TestCase):
    """All masks of three units, and all samples of these: exact means."""

    ROWS = 4000

    def setUp(self):
        super().setUp()
        x = np.array([1.0, -2.0, 0.5])
        self.x = np.tile(x.astype("float32"), (self.ROWS, 1))
        self.y = np.full((self.ROWS, 1), 0.7, "float32")
        masks = np.array(list(itertools.product((0.0, 2.0), repeat=3)))
        kernel = np.array([0.5, 0.3, -0.4])
        self.logs = scipy.stats.norm.logpdf(0.7, masks @ (kernel * x), 0.5)
        inputs = keras.Input((3,))
        dense = layers.Dense(1, use_bias=False)
        outputs = dense(layers.Dropout(0.5)(inputs))
        dense.kernel.assign(kernel[:, None])
        self.model = MonteCarloModel(inputs, outputs)

    def expected(self, objective, samples):
        """Returns mean and standard deviation over all draws of masks."""
        draws = np.array(list(itertools.product(self.logs, repeat=samples)))
        values = value_of(draws, objective)
        return values.mean(), values.std()

    @parameterized.product(objective=OBJECTIVES, samples=(1, 3))
    def test_fit_and_evaluate_have_the_exact_mean(self, objective, samples):
        self.model.compile(
            keras.optimizers.SGD(0.0),
            GaussianNLL(4.0),
            mc_samples=samples,
            mc_objective=objective,
            run_eagerly=True,
        )
        mean, deviation = self.expected(objective, samples)
        # Rows are independent: 4 standard errors of their mean.
        tolerance = 4 * deviation / self.ROWS**0.5
        for step in (train, evaluate):
            logs = step(self.model, self.x, self.y)
            self.assertAllClose(logs["mc_loss"], -mean, atol=tolerance)
            self.assertAllClose(logs["loss"], logs["mc_loss"])

    def test_bound_tightens(self):
        marginal = scipy.special.logsumexp(self.logs, b=1 / 8)
        means = [
            self.expected("importance_weighted", n)[0] for n in (1, 2, 3, 4)
        ]
        self.assertEqual(means, sorted(means))
        self.assertLess(means[-1], marginal)
        lower = self.expected("lower_bound", 3)[0]
        self.assertAllClose(means[0], lower)
        self.assertGreater(means[1], lower + 0.1)

    def test_batches_go_on_with_the_noise(self):
        """What is evaluated depends on the rows, not on their batches."""
        self.model.compile("sgd", GaussianNLL(4.0), mc_samples=20)
        x, y = self.x[:64], self.y[:64]
        results = [
            self.model.evaluate(x, y, batch_size=size, verbose=0)
            for size in (64, 64, 16)
        ]
        self.assertEqual(results[0], results[1])
        self.assertAllClose(results[0], results[2], rtol=1e-5)

    def test_evaluation_is_that_of_predict_with_uncertainty(self):
        self.model.compile(
            "sgd",
            GaussianNLL(4.0),
            mc_samples=20,
            mc_objective="importance_weighted",
            run_eagerly=True,
        )
        x, y = self.x[:50], self.y[:50]
        prediction = keras_bayesdrop.predict_with_uncertainty(
            self.model,
            x,
            20,
            masks="independent",
            seed=0,
            noise_precision=4.0,
            return_samples=True,
            verbose=0,
        )
        want = keras_bayesdrop.metrics.negative_log_likelihood(y, prediction)
        made = evaluate(self.model, x, y)
        self.assertAllClose(made["mc_loss"], want, rtol=1e-5)


class PenaltyTest(TestCase):
    @parameterized.parameters(True, False)
    def test_counted_once(self, vectorized):
        """Of weights, of activities, and of losses added in a call."""

        class Adds(layers.Layer):
            def call(self, inputs):
                self.add_loss(keras.ops.mean(inputs))
                return inputs

        inputs = keras.Input((3,))
        x = layers.Dense(2, kernel_regularizer="l1")(inputs)
        model = MonteCarloModel(inputs, Adds()(x))
        model.compile(
            keras.optimizers.SGD(0.0),
            GaussianNLL(1.0),
            mc_samples=4,
            mc_vectorized=vectorized,
            run_eagerly=True,
        )
        kernel = model.layers[1].kernel.numpy()
        want = 0.01 * np.abs(kernel).sum() + np.mean(X @ kernel)
        y = np.zeros((12, 2))
        for step in (train, evaluate):
            logs = step(model, X, y)
            penalty = logs["loss"] - logs["mc_loss"]
            # A difference of numbers near 3 in float32.
            self.assertAllClose(penalty, want, atol=2e-6)

    def test_activity_regularizers(self):
        inputs = keras.Input((3,))
        outputs = layers.Dense(2, activity_regularizer="l2")(inputs)
        model = MonteCarloModel(inputs, outputs)
        arguments = {
            "optimizer": keras.optimizers.SGD(0.0),
            "loss": GaussianNLL(1.0),
            "mc_samples": 3,
            "run_eagerly": True,
        }
        model.compile(mc_vectorized=False, **arguments)
        y = np.zeros((12, 2))
        want = train(model, X, y)["loss"]
        try:
            model.compile(**arguments)
        except BayesdropError as error:  # Keras before 3.14 sums over rows
            self.assertIn("mc_vectorized=False", str(error))
        else:
            self.assertAllClose(train(model, X, y)["loss"], want, rtol=1e-5)

    def test_kl_layers(self):
        inputs = keras.Input((3,))
        dropped = keras_bayesdrop.layers.ConcreteDropout(
            layers.Dense(1), num_train_examples=12, length_scale=1.0
        )
        model = MonteCarloModel(inputs, dropped(inputs))
        model.compile(
            keras.optimizers.SGD(0.0),
            GaussianNLL(1.0),
            mc_samples=4,
            run_eagerly=True,
        )
        logs = train(model, X, Y)
        want = float(dropped.kl_divergence()) / 12
        self.assertAllClose(logs["loss"] - logs["mc_loss"], want, atol=2e-6)


class NoiseOfABatchTest(TestCase):
    def make(self, vectorized):
        inputs = keras.Input((3,))
        noise = keras_bayesdrop.MCDropout(0.5, noise_shape=(1, None))
        outputs = layers.Dense(1, use_bias=False)(noise(inputs))
        model = MonteCarloModel(inputs, outputs)
        model.compile(
            keras.optimizers.SGD(0.0),
            GaussianNLL(1.0),
            mc_samples=8,
            mc_objective="importance_weighted",
            mc_per="batch",
            mc_vectorized=vectorized,
            run_eagerly=True,
        )
        return model

    def test_folded_samples_would_be_the_same(self):
        with pytest.raises(BayesdropError, match="mc_vectorized=False"):
            self.make(True)

    def test_noise_on_weights(self):
        inputs = keras.Input((3,))
        dropped = keras_bayesdrop.layers.DropConnectDense(1, 0.5)
        model = MonteCarloModel(inputs, dropped(inputs))
        with pytest.raises(BayesdropError, match="draws once"):
            model.compile("sgd", GaussianNLL(1.0), mc_samples=2)
        model.compile(
            "sgd",
            GaussianNLL(1.0),
            mc_samples=6,
            mc_objective="importance_weighted",
            mc_vectorized=False,
            run_eagerly=True,
        )
        for step in (train, evaluate):
            logs = step(model, X, Y)
            self.assertNotAllClose(logs["mc_loss"], logs["nll"])
        inactive = keras_bayesdrop.layers.DropConnectDense(1, 0.0)
        model = MonteCarloModel(inputs, inactive(inputs))
        model.compile("sgd", GaussianNLL(1.0), mc_samples=2)

    def test_one_after_another_they_differ(self):
        """The data set has 8 likelihoods, and equation 15 averages some."""
        model = self.make(False)
        kernel = model.layers[-1].kernel.numpy()
        masks = np.array(list(itertools.product((0.0, 2.0), repeat=3)))
        errors = Y - (X[:, None] * masks) @ kernel[:, 0]
        exact = scipy.stats.norm.logpdf(errors).sum(axis=0)
        logs = train(model, X, Y)
        value = -12 * logs["mc_loss"]
        # Of 8 draws at least two differ, but for a chance of 8^-7.
        choices = np.array(exact)
        same = np.isclose(value, choices, atol=1e-3)
        self.assertFalse(same.any())
        self.assertLess(value, choices.max())
        self.assertGreater(value, choices.min())


class FitTest(TestCase):
    @parameterized.parameters(
        *zip(OBJECTIVES, ("batch", "example", "batch"), strict=True)
    )
    def test_compiled_step_is_the_eager_one(self, objective, per):
        """With known noise, by XLA: weights, and all that is logged."""
        results = []
        for arguments in ({"run_eagerly": True}, {"jit_compile": True}):
            inputs = keras.Input((3,))
            noise = KnownNoise(GradientTest.FACTORS.astype("float32"))
            dense = layers.Dense(
                1, kernel_initializer="ones", kernel_regularizer="l2"
            )
            model = MonteCarloModel(inputs, dense(noise(inputs)))
            model.compile(
                keras.optimizers.SGD(0.1),
                GaussianNLL(2.0),
                metrics=["mae"],
                mc_samples=SAMPLES,
                mc_objective=objective,
                mc_per=per,
                **arguments,
            )
            history = model.fit(
                X, Y, batch_size=6, epochs=2, shuffle=False, verbose=0
            ).history
            results.append([history, dense.kernel.numpy()])
        (eager, kernel), (compiled, other) = results
        self.assertEqual(set(eager), {"loss", "mc_loss", "nll", "mae"})
        # Sums in another order, in float32, over four steps.
        self.assertAllClose(other, kernel, rtol=1e-4)
        for name, values in eager.items():
            self.assertAllClose(compiled[name], values, rtol=1e-4)

    def test_callbacks_act(self):
        """They read the logs, stop, save and restore as with any model."""
        model = MonteCarloModel(*dropout_net(0.3))
        path = os.path.join(self.get_temp_dir(), "best.keras")
        model.compile(
            keras.optimizers.SGD(0.0),
            GaussianNLL(2.0),
            mc_samples=4,
            mc_objective="importance_weighted",
        )
        begun = model.get_weights()

        def spoil(epoch, logs):
            """Moves the weights, so that the first epoch stays the best."""
            model.layers[-1].bias.assign_add([10.0])

        monitor = keras_bayesdrop.callbacks.UncertaintyMonitor(
            (X, Y), num_samples=4, noise_precision=2.0
        )
        history = model.fit(
            X,
            Y,
            epochs=10,
            validation_data=(X, Y),
            verbose=0,
            callbacks=[
                keras.callbacks.EarlyStopping(
                    "val_mc_loss",
                    patience=2,
                    mode="min",
                    restore_best_weights=True,
                ),
                keras.callbacks.ModelCheckpoint(
                    path, "val_mc_loss", mode="min", save_best_only=True
                ),
                monitor,
                keras.callbacks.LambdaCallback(on_epoch_end=spoil),
            ],
        )
        losses = history.history["val_mc_loss"]
        self.assertLen(losses, 3)
        self.assertGreater(losses[1], losses[0] + 10.0)
        # What the monitor logs has names of its own.
        own = ("loss", "mc_loss", "nll")
        self.assertEqual(
            set(history.history),
            {
                *own,
                *(f"val_{name}" for name in own),
                *("val_mc_nll", "val_mc_rmse", "val_epistemic"),
            },
        )
        for one, other in zip(model.get_weights(), begun, strict=True):
            self.assertAllEqual(one, other)
        best = keras.saving.load_model(path)
        made = best.evaluate(X, Y, verbose=0, return_dict=True)
        self.assertAllClose(made["mc_loss"], losses[0], rtol=1e-6)

    def test_deterministic_and_monte_carlo_values(self):
        """`nll` and metrics have no noise; `mc_loss` has, and neither penalty.

        One unit, kept or dropped: the network without noise predicts 1, and
        with it 2 or 0.
        """
        inputs = keras.Input((1,))
        dense = layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = MonteCarloModel(inputs, dense(layers.Dropout(0.5)(inputs)))
        rows = 4000
        x, y = np.ones((rows, 1)), np.full((rows, 1), 1.5)
        model.compile(
            keras.optimizers.SGD(0.0),
            GaussianNLL(1.0),
            metrics=["mae"],
            mc_samples=1,
        )
        logs = model.fit(
            x, y, batch_size=rows, validation_data=(x, y), verbose=0
        ).history
        constant = 0.5 * np.log(2.0 * np.pi)
        for prefix in ("", "val_"):
            nll, mae = logs[f"{prefix}nll"][0], logs[f"{prefix}mae"][0]
            self.assertAllClose(nll, constant + 0.125, rtol=1e-6)
            self.assertAllClose(mae, 0.5, rtol=1e-6)
            # Half of 1.5^2 or of 0.5^2: mean 0.625, deviation 0.5; 4 standard
            # errors of 4000 draws are 0.032.
            mc_loss = logs[f"{prefix}mc_loss"][0]
            self.assertAllClose(mc_loss, constant + 0.625, rtol=0, atol=0.032)
            self.assertEqual(logs[f"{prefix}loss"][0], mc_loss)

    @parameterized.named_parameters(
        ("plain", {}),
        ("xla", {"jit_compile": True}),
        ("several_steps", {"steps_per_execution": 3}),
    )
    def test_lowers_the_objective(self, arguments):
        model = MonteCarloModel(*dropout_net(0.2, kind=layers.Dropout))
        model.compile(
            keras.optimizers.Adam(0.03),
            GaussianNLL(1.0),
            metrics=["mae"],
            mc_samples=5,
            mc_objective="importance_weighted",
            **arguments,
        )
        stop = keras.callbacks.EarlyStopping(
            "val_mc_loss", patience=100, mode="min"
        )
        history = model.fit(
            X,
            Y,
            batch_size=5,
            epochs=20,
            validation_data=(X, Y),
            callbacks=[stop],
            verbose=0,
        ).history
        names = ("loss", "mc_loss", "nll", "mae")
        want = {*names, *(f"val_{name}" for name in names)}
        self.assertEqual(set(history), want)
        for name in ("loss", "nll", "val_loss", "val_mc_loss"):
            self.assertLess(history[name][-1], history[name][0] - 0.5)
        # Metrics are those of what `predict` returns.
        mae = np.abs(model.predict(X, verbose=0) - Y).mean()
        self.assertAllClose(history["val_mae"][-1], mae, rtol=1e-5)

    def test_mixed_precision_is_fitted_under_xla(self):
        keras.config.set_dtype_policy("mixed_float16")
        inputs, outputs = dropout_net(0.2)
        model = MonteCarloModel(inputs, outputs)
        keras.config.set_dtype_policy("float32")
        model.compile(
            keras.optimizers.Adam(0.03),
            GaussianNLL(1.0),
            mc_samples=4,
            mc_objective="importance_weighted",
            jit_compile=True,
        )
        self.assertEqual(model(X).dtype, "float16")
        losses = model.fit(X, Y, epochs=15, verbose=0).history["mc_loss"]
        self.assertTrue(np.all(np.isfinite(losses)))
        self.assertLess(losses[-1], losses[0] - 0.3)
        self.assertEqual(
            {variable.dtype for variable in model.trainable_variables},
            {"float32"},
        )

    @parameterized.parameters("mixed_float16", "mixed_bfloat16")
    def test_mixed_precision(self, policy):
        keras.config.set_dtype_policy(policy)
        made = keras.Model(*dropout_net(0.2))
        keras.config.set_dtype_policy("float32")
        model = MonteCarloModel.from_model(made)
        model.compile("sgd", GaussianNLL(1e3), mc_samples=4, run_eagerly=True)
        scaled = isinstance(
            model.optimizer, keras.optimizers.LossScaleOptimizer
        )
        self.assertEqual(scaled, policy == "mixed_float16")
        # An error of 20 has a squared error of 4e5 / 2, beyond float16.
        logs = train(model, X, Y + 20.0)
        self.assertTrue(np.isfinite(logs["loss"]))
        self.assertGreater(logs["mc_loss"], 65504.0)

    def test_same_on_two_replicas(self):
        program = pathlib.Path(__file__).with_name("two_replicas.py")
        printed = self.run_in_new_process(program.read_text("utf-8"))
        one, two = json.loads(printed.splitlines()[-1])
        # Sums in another order, in float32, over 3 steps.
        self.assertAllClose(one, two, rtol=1e-4)


class SavingTest(TestCase):
    def test_round_trip(self):
        model = MonteCarloModel(*dropout_net(outputs=2, activation="softmax"))
        labels = np.arange(12) % 2
        model.compile(
            keras.optimizers.Adam(0.01),
            keras.losses.SparseCategoricalCrossentropy(),
            metrics=["accuracy"],
            mc_samples=3,
            mc_objective="tail_adaptive",
            mc_per="batch",
            mc_vectorized=False,
        )
        model.fit(X, labels, verbose=0)
        path = str(self.get_temp_dir()) + "/model.keras"
        model.save(path)
        again = keras.saving.load_model(path)
        self.assertIs(type(again), MonteCarloModel)
        self.assertEqual(again.get_compile_config(), model.get_compile_config())
        self.assertFalse(again.mc_vectorized)
        self.assertEqual(again.mc_samples, 3)
        want = model.evaluate(X, labels, verbose=0)
        self.assertAllClose(again.evaluate(X, labels, verbose=0), want)
        steps = [int(each.optimizer.iterations) for each in (model, again)]
        self.assertEqual(steps, [1, 1])
        again.fit(X, labels, verbose=0)
        bare = keras.saving.load_model(path, compile=False)
        self.assertAllClose(bare.predict(X, verbose=0), model(X))
        self.assertFalse(bare.compiled)

    def test_compile_again(self):
        model = MonteCarloModel(*dropout_net())
        for samples in (2, 4):
            model.compile(
                "sgd", GaussianNLL(1.0), mc_samples=samples, run_eagerly=True
            )
            model.train_on_batch(X, Y)
        self.assertEqual(model.metrics_names, ["loss", "mc_loss", "nll"])
        self.assertEqual(model.mc_samples, 4)


class FromModelTest(TestCase):
    def check(self, source, model):
        self.assertIs(type(model).call, private_keras.Functional.call)
        self.assertAllEqual(
            model.predict(X, verbose=0), source.predict(X, verbose=0)
        )
        one, other = (
            keras_bayesdrop.predict_with_uncertainty(
                each, X, 5, seed=1, verbose=0
            )
            for each in (source, model)
        )
        self.assertAllClose(one.mean, other.mean)
        self.assertAllClose(one.variance, other.variance)
        self.assertEqual(
            [id(v) for v in source.weights], [id(v) for v in model.weights]
        )

    def test_functional(self):
        source = keras.Model(*dropout_net())
        self.check(source, MonteCarloModel.from_model(source))

    def test_sequential(self):
        source = keras.Sequential(
            [keras.Input((3,)), layers.Dropout(0.3), layers.Dense(2)]
        )
        model = MonteCarloModel.from_model(source, name="mine")
        self.check(source, model)
        self.assertEqual(model.name, "mine")

    def test_own_call(self):
        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = layers.Dense(1)
                self.dropout = layers.Dropout(0.5)

            def call(self, inputs, training=None):
                return self.dense(self.dropout(inputs, training=training))

        source = Own()
        with pytest.raises(UnbuiltModelError):
            MonteCarloModel.from_model(source)
        source(X)
        with pytest.raises(BayesdropError, match=r"Expected `inputs`"):
            MonteCarloModel.from_model(source)
        model = MonteCarloModel.from_model(source, keras.Input((3,)))
        self.check(source, model)
        model.compile("sgd", GaussianNLL(1.0), mc_samples=2, run_eagerly=True)
        logs = model.fit(X, Y, validation_data=(X, Y), verbose=0).history
        # Two samples differ from the network without noise.
        self.assertNotAllClose(logs["val_mc_loss"], logs["val_nll"])

    @parameterized.parameters(
        "batch_norm", "dict_inputs", "lstm", "nested_three_deep", "transformer"
    )
    def test_noise_inside(self, name):
        source, x = zoo.ZOO[name].build()
        model = MonteCarloModel.from_model(source)
        y = np.ones(source(x).shape, "float32")
        model.compile(
            "sgd",
            GaussianNLL(1.0),
            mc_samples=4,
            mc_objective="importance_weighted",
            run_eagerly=True,
        )
        prediction = keras_bayesdrop.predict_with_uncertainty(
            model,
            x,
            4,
            masks="independent",
            seed=0,
            return_samples=True,
            verbose=0,
        )
        axes = tuple(range(2, prediction.samples.ndim))
        logs = scipy.stats.norm.logpdf(1.0, prediction.samples).sum(axes)
        want = -value_of(logs.T, "importance_weighted").mean()
        made = evaluate(model, x, y)
        # As many values as an example has, but for the last axis.
        values = np.prod(y.shape[1:-1])
        self.assertAllClose(made["mc_loss"], want / values, rtol=1e-4)
        trained = train(model, x, y)
        self.assertNotAllClose(trained["mc_loss"], trained["nll"])


class SeveralOutputsTest(TestCase):
    def make(self, as_dict=False, **arguments):
        inputs = keras.Input((3,))
        factors = GradientTest.FACTORS.astype("float32")
        x = KnownNoise(factors)(inputs)
        value = layers.Dense(1, name="value")(x)
        label = layers.Dense(2, activation="softmax", name="label")(x)
        outputs = [value, label]
        if as_dict:
            outputs = {"value": value, "label": label}
        model = MonteCarloModel(inputs, outputs)
        model.compile(
            keras.optimizers.SGD(0.0),
            loss={
                "label": "sparse_categorical_crossentropy",
                "value": GaussianNLL(2.0),
            },
            mc_samples=SAMPLES,
            mc_objective="importance_weighted",
            run_eagerly=True,
            **arguments,
        )
        return model

    def logs_of(self, model):
        """Returns log-likelihoods [12, samples] of both outputs."""
        noisy = X[:, None] * GradientTest.FACTORS
        value, label = (model.get_layer(name) for name in ("value", "label"))
        made = noisy @ value.kernel.numpy() + value.bias.numpy()
        first = scipy.stats.norm.logpdf(Y, made[..., 0], 0.5**0.5)
        made = noisy @ label.kernel.numpy() + label.bias.numpy()
        classes = scipy.special.log_softmax(made, axis=-1)
        return first, classes[np.arange(12), :, np.arange(12) % 2]

    @parameterized.parameters(True, False)
    def test_likelihoods_are_multiplied(self, as_dict):
        model = self.make(as_dict)
        labels = np.arange(12) % 2
        y = {"value": Y, "label": labels} if as_dict else [Y, labels]
        first, second = self.logs_of(model)
        want = -value_of(first + second, "importance_weighted").mean()
        logs = train(model, X, y)
        self.assertAllClose(logs["mc_loss"], want, rtol=1e-5)

    def test_weights(self):
        model = self.make(loss_weights={"value": 0.5, "label": 2.0})
        labels = np.arange(12) % 2
        known = np.arange(12) % 3 > 0
        first, second = self.logs_of(model)
        together = 0.5 * first + 2.0 * second * known[:, None]
        want = -value_of(together, "importance_weighted").mean()
        logs = train(model, X, [Y, labels], [np.ones(12), known])
        self.assertAllClose(logs["mc_loss"], want, rtol=1e-5)

    def test_an_output_without_loss(self):
        model = self.make()
        model.compile(
            "sgd",
            [GaussianNLL(2.0), None],
            mc_samples=SAMPLES,
            run_eagerly=True,
        )
        want = -self.logs_of(model)[0].mean()
        y = [Y, np.zeros(12)]
        with pytest.warns(UserWarning, match="label/kernel"):
            logs = train(model, X, y)
        self.assertAllClose(logs["mc_loss"], want, rtol=1e-5)

    def test_wrong_structures(self):
        model = self.make()
        for y in (Y, [Y], {"value": Y}):
            with pytest.raises(BayesdropError, match="does not fit"):
                model.compute_loss(X, y, model(X))
        with pytest.raises(BayesdropError, match="does not fit"):
            model.compile("sgd", {"other": GaussianNLL(1.0)})
        with pytest.raises(BayesdropError, match="does not fit"):
            model.compile("sgd", [GaussianNLL(1.0)])

    def test_losses_that_average_differently(self):
        inputs = keras.Input((3,))
        outputs = [
            layers.Dense(n, activation="sigmoid")(inputs) for n in (1, 4)
        ]
        model = MonteCarloModel(inputs, outputs)
        model.compile("sgd", "binary_crossentropy", run_eagerly=True)
        y = [np.zeros((12, 1)), np.zeros((12, 4))]
        with pytest.raises(BayesdropError, match="different values"):
            model.train_on_batch(X, y)


class BadInputTest(TestCase):
    @parameterized.named_parameters(
        ("no_samples", {"mc_samples": 0}, "`mc_samples`"),
        ("half_a_sample", {"mc_samples": 2.5}, "`mc_samples`"),
        ("objective", {"mc_objective": "elbo"}, "`mc_objective`"),
        ("per", {"mc_per": "epoch"}, "`mc_per`"),
        ("vectorized", {"mc_vectorized": 1}, "`mc_vectorized`"),
        ("loss", {"loss": "mse"}, "GaussianNLL"),
        ("no_loss", {"loss": None}, "No output has a loss"),
        ("weights", {"loss_weights": "2"}, "`loss_weights`"),
    )
    def test_compile(self, changed, message):
        model = MonteCarloModel(*dropout_net())
        arguments = {"optimizer": "sgd", "loss": GaussianNLL(1.0), **changed}
        with pytest.raises(BayesdropError, match=message):
            model.compile(**arguments)
        self.assertFalse(model.compiled)

    @parameterized.parameters(0, -1, 2.5, True, None, "3")
    def test_number_of_samples(self, samples):
        model = MonteCarloModel(*dropout_net())
        with pytest.raises(
            BayesdropError,
            match=r"argument `mc_samples`. Expected an integer of at least 1. "
            "Received: mc_samples=",
        ):
            model.compile("sgd", GaussianNLL(1.0), mc_samples=samples)

    def test_loss_that_is_no_likelihood(self):
        model = MonteCarloModel(*dropout_net())
        for loss in ("mae", keras.losses.Huber(), lambda y, p: 0.0):
            with pytest.raises(
                BayesdropError,
                match=r"not known as a negative log-likelihood. Expected a "
                r"loss with a `log_prob` .*`BinaryCrossentropy`.*Received: ",
            ):
                model.compile("sgd", loss)

    def test_no_targets(self):
        model = MonteCarloModel(*dropout_net())
        model.compile("sgd", GaussianNLL(1.0), run_eagerly=True)
        with pytest.raises(BayesdropError, match="`y` is missing"):
            model.evaluate(X, verbose=0)

    def test_weights_that_do_not_fit(self):
        model = MonteCarloModel(*dropout_net())
        model.compile("sgd", GaussianNLL(1.0), run_eagerly=True)
        with pytest.raises(BayesdropError, match="`sample_weight`"):
            model.test_on_batch(X, Y, np.ones((12, 4)))

    def test_nothing_to_train(self):
        inputs = keras.Input((3,))
        model = MonteCarloModel(inputs, layers.Dropout(0.5)(inputs))
        model.compile("sgd", GaussianNLL(1.0), run_eagerly=True)
        with pytest.warns(UserWarning, match="any trainable weights"):
            model.train_on_batch(X, X)
        self.assertIsInstance(model(X), tf.Tensor)
