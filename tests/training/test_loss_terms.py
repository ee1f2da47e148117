# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import scipy.stats
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.losses import HeteroscedasticGaussianNLL
from keras_bayesdrop.training._loss_terms import check_likelihood_loss
from keras_bayesdrop.training._loss_terms import terms_of
from tests.helpers import TestCase

losses = keras.losses
RNG = np.random.default_rng(0)
PROBABILITIES = RNG.uniform(0.1, 0.9, (5, 3)).astype("float32")
CLASSES = PROBABILITIES / PROBABILITIES.sum(axis=-1, keepdims=True)
BITS = RNG.integers(0, 2, (5, 3))
LABELS = RNG.integers(0, 3, 5)
RATES = RNG.uniform(0.5, 4.0, (5, 2)).astype("float32")
COUNTS = RNG.poisson(2.0, (5, 2))


def log_prob(loss, y_true, y_pred):
    terms = terms_of(
        check_likelihood_loss(loss), y_true, keras.ops.convert_to_tensor(y_pred)
    )
    return np.asarray(terms.log_prob)


class TermsTest(TestCase):
    # Keras clips probabilities at 1e-7, which matters to none of these, and
    # computes in float32: a relative error of about 1e-6 after the log.

    @parameterized.parameters(
        "binary_crossentropy",
        losses.BinaryCrossentropy(),
        losses.binary_crossentropy,
        losses.BinaryCrossentropy,
    )
    def test_bernoulli(self, loss):
        want = scipy.stats.bernoulli.logpmf(BITS, PROBABILITIES).sum(axis=-1)
        got = log_prob(loss, BITS, PROBABILITIES)
        self.assertAllClose(got, want, rtol=1e-5)

    def test_bernoulli_from_logits(self):
        logits = scipy.special.logit(PROBABILITIES)
        want = scipy.stats.bernoulli.logpmf(BITS, PROBABILITIES).sum(axis=-1)
        loss = losses.BinaryCrossentropy(from_logits=True)
        self.assertAllClose(log_prob(loss, BITS, logits), want, rtol=1e-5)

    @parameterized.parameters(
        ((5, 1), (5,)), ((5, 1), (5, 1)), ((5,), (5,)), ((5, 1, 1), (5, 1))
    )
    def test_bernoulli_of_one_value(self, output_shape, target_shape):
        p, y = PROBABILITIES[:, 0], BITS[:, 0]
        got = log_prob(
            "binary_crossentropy",
            y.reshape(target_shape),
            p.reshape(output_shape),
        )
        want = scipy.stats.bernoulli.logpmf(y, p)
        self.assertAllClose(got.reshape(-1), want, rtol=1e-5)
        self.assertEqual(got.size, 5)

    def test_categorical(self):
        want = np.log(CLASSES[np.arange(5), LABELS])
        hot = np.eye(3)[LABELS]
        for loss, y in (
            ("categorical_crossentropy", hot),
            (losses.CategoricalCrossentropy(), hot),
            ("sparse_categorical_crossentropy", LABELS),
            (losses.SparseCategoricalCrossentropy(), LABELS[:, None]),
        ):
            self.assertAllClose(log_prob(loss, y, CLASSES), want, rtol=1e-5)
        logits = losses.SparseCategoricalCrossentropy(from_logits=True)
        got = log_prob(logits, LABELS, np.log(CLASSES) + 3.0)
        self.assertAllClose(got, want, rtol=1e-5)

    def test_poisson_up_to_a_constant_of_the_targets(self):
        got = log_prob("poisson", COUNTS, RATES)
        want = scipy.stats.poisson.logpmf(COUNTS, RATES).sum(axis=-1)
        missing = scipy.special.gammaln(COUNTS + 1).sum(axis=-1)
        self.assertAllClose(got, want + missing, rtol=1e-5, atol=1e-5)

    def test_own_loss(self):
        class Laplace:
            def log_prob(self, y_true, y_pred):
                distance = keras.ops.abs(y_true - y_pred)
                return keras.ops.sum(-distance - np.log(2.0), axis=-1)

        want = scipy.stats.laplace.logpdf(RATES, CLASSES[:, :2]).sum(axis=-1)
        got = log_prob(Laplace(), RATES, CLASSES[:, :2])
        self.assertAllClose(got, want, rtol=1e-5)

    def test_half_precision_outputs_are_widened(self):
        half = keras.ops.cast(CLASSES, "float16")
        got = log_prob("sparse_categorical_crossentropy", LABELS, half)
        self.assertEqual(got.dtype, "float32")
        exact = np.asarray(half).astype("float64")
        exact /= exact.sum(axis=-1, keepdims=True)
        want = np.log(exact[np.arange(5), LABELS])
        self.assertAllClose(got, want, rtol=1e-5)

    def test_ignored_class_is_masked(self):
        loss = losses.SparseCategoricalCrossentropy(ignore_class=1)
        terms = terms_of(loss, LABELS, keras.ops.convert_to_tensor(CLASSES))
        self.assertAllEqual(terms.mask, LABELS != 1)
        self.assertIn(1, LABELS)


class CheckTest(TestCase):
    @parameterized.parameters(
        "mse",
        "mean_squared_error",
        losses.MeanSquaredError(),
        losses.MeanSquaredError,
        losses.mean_squared_error,
    )
    def test_squared_error_has_no_scale(self, loss):
        with pytest.raises(BayesdropError, match=r"GaussianNLL\(noise_prec"):
            check_likelihood_loss(loss)

    @parameterized.parameters(
        "mae",
        "no_such_loss",
        losses.Huber(),
        losses.BinaryFocalCrossentropy(),
        lambda y_true, y_pred: 0.0,
        3,
    )
    def test_not_a_likelihood(self, loss):
        with pytest.raises(
            BayesdropError,
            match=r"not a known .*Expected .*`Poisson`.* Received: ",
        ):
            check_likelihood_loss(loss)

    def test_changed_subclass_must_say_what_it_is(self):
        class Mine(losses.BinaryCrossentropy):
            def call(self, y_true, y_pred):
                return 2.0 * super().call(y_true, y_pred)

        with pytest.raises(BayesdropError, match="log_prob"):
            check_likelihood_loss(Mine())

    def test_weighted_terms(self):
        check_likelihood_loss(HeteroscedasticGaussianNLL())
        with pytest.raises(BayesdropError, match=r"Expected beta=0.*beta=0\.5"):
            check_likelihood_loss(HeteroscedasticGaussianNLL(beta=0.5))

    def test_smoothed_labels(self):
        with pytest.raises(BayesdropError, match="label_smoothing"):
            check_likelihood_loss(
                losses.BinaryCrossentropy(label_smoothing=0.1)
            )

    def test_reductions(self):
        check_likelihood_loss(GaussianNLL(1.0, reduction="mean"))
        for reduction in ("sum", "none", None, "mean_with_sample_weight"):
            with pytest.raises(BayesdropError, match="reduction"):
                check_likelihood_loss(GaussianNLL(1.0, reduction=reduction))
