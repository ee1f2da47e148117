# SPDX-License-Identifier: Apache-2.0
"""`MonteCarloModel`: saving, other models, several outputs, bad input."""

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
from tests.training.monte_carlo import FACTORS
from tests.training.monte_carlo import SAMPLES
from tests.training.monte_carlo import KnownNoise
from tests.training.monte_carlo import X
from tests.training.monte_carlo import Y
from tests.training.monte_carlo import dropout_net
from tests.training.monte_carlo import evaluate
from tests.training.monte_carlo import train
from tests.training.monte_carlo import value_of

layers = keras.layers


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
            seed=0,
            return_samples=True,
            verbose=0,
            method=keras_bayesdrop.Sampling(
                masks="independent", draws="independent"
            ),
        )
        axes = tuple(range(2, prediction.samples.ndim))
        logs = scipy.stats.norm.logpdf(1.0, prediction.samples).sum(axes)
        want = -value_of(logs.T, "importance_weighted").mean()
        logs = evaluate(model, x, y)
        # As many values as an example has, but for the last axis.
        values = np.prod(y.shape[1:-1])
        self.assertAllClose(logs["mc_loss"], want / values, rtol=1e-4)
        trained = train(model, x, y)
        self.assertNotAllClose(trained["mc_loss"], trained["nll"])


class SeveralOutputsTest(TestCase):
    def make(self, as_dict=False, **arguments):
        inputs = keras.Input((3,))
        factors = FACTORS.astype("float32")
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
        noisy = X[:, None] * FACTORS
        value, label = (model.get_layer(name) for name in ("value", "label"))
        means = noisy @ value.kernel.numpy() + value.bias.numpy()
        first = scipy.stats.norm.logpdf(Y, means[..., 0], 0.5**0.5)
        logits = noisy @ label.kernel.numpy() + label.bias.numpy()
        classes = scipy.special.log_softmax(logits, axis=-1)
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
                match=r"not a known negative log-likelihood. Expected a "
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
