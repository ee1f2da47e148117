# SPDX-License-Identifier: Apache-2.0
"""One step of `MonteCarloModel`: gradients, expectations and penalties."""

import itertools

import keras
import numpy as np
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
from tests.training.monte_carlo import value_of
from tests.training.monte_carlo import weights_of

layers = keras.layers


class GradientTest(TestCase):
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
        x = KnownNoise(FACTORS.astype("float32"), not vectorized)(inputs)
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

        noisy = X[:, None].astype("float64") * FACTORS  # [12, samples, 3]
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
            logs = train(ours, X, Y)
            want = train(plain, X, Y)
            self.assertAllClose(logs["loss"], want["loss"], rtol=1e-5)
        for one, other in zip(ours.weights, plain.weights, strict=True):
            self.assertAllClose(one, other, rtol=1e-5)
        logs = ours.evaluate(X, Y, verbose=0, return_dict=True)
        want = plain.evaluate(X, Y, verbose=0)
        penalty = sum(ours.losses)
        self.assertAllClose(logs["nll"] + penalty, want, rtol=1e-5)
        self.assertAllClose(logs["loss"], logs["mc_loss"] + penalty, rtol=1e-5)
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
            logs = evaluate(ours, x, y, scale)
            want = evaluate(plain, x, y, scale)["loss"]
            self.assertAllClose(logs["loss"], want, rtol=1e-5)
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
        history = ours.fit(X, y, class_weight=weights, epochs=1, verbose=0)
        self.assertAllClose(
            history.history["loss"], [before["loss"]], rtol=1e-5
        )
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
        """The noise of `evaluate` depends on the rows, not on their batches."""
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
            seed=0,
            return_samples=True,
            verbose=0,
            method=keras_bayesdrop.Sampling(
                masks="independent", draws="independent"
            ),
            head=keras_bayesdrop.Regression(noise_precision=4.0),
        )
        want = keras_bayesdrop.metrics.negative_log_likelihood(y, prediction)
        logs = evaluate(self.model, x, y)
        self.assertAllClose(logs["mc_loss"], want, rtol=1e-5)


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
