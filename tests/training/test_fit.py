# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation of `MonteCarloModel` by `fit` and `evaluate`."""

import itertools
import json
import os
import pathlib

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
from absl.testing import parameterized

import keras_bayesdrop
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.training import MonteCarloModel
from tests.helpers import TestCase
from tests.training.monte_carlo import FACTORS
from tests.training.monte_carlo import OBJECTIVES
from tests.training.monte_carlo import SAMPLES
from tests.training.monte_carlo import KnownNoise
from tests.training.monte_carlo import X
from tests.training.monte_carlo import Y
from tests.training.monte_carlo import dropout_net
from tests.training.monte_carlo import evaluate
from tests.training.monte_carlo import train

layers = keras.layers


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
            noise = KnownNoise(FACTORS.astype("float32"))
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
            (X, Y),
            num_samples=4,
            head=keras_bayesdrop.Regression(noise_precision=2.0),
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
        logs = best.evaluate(X, Y, verbose=0, return_dict=True)
        self.assertAllClose(logs["mc_loss"], losses[0], rtol=1e-6)

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
        plain = keras.Model(*dropout_net(0.2))
        keras.config.set_dtype_policy("float32")
        model = MonteCarloModel.from_model(plain)
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
