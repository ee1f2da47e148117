# SPDX-License-Identifier: Apache-2.0
"""Mean entropy of random probabilities."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.moments.entropy import mean_entropy
from tests.helpers import flat

layers = keras.layers


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.7])
@pytest.mark.parametrize("mean", [0.02, 0.5, 0.9])
def test_of_beta_distributions_is_exact(mean, share):
    """`share` is that of the largest possible variance."""
    n = 1.0 / share - 1.0
    beta = scipy.stats.beta(mean * n, (1.0 - mean) * n)

    def one_sided(x):
        return -x * np.log(x)

    want = beta.expect(one_sided, epsabs=1e-10, limit=400)
    want += beta.expect(lambda x: one_sided(1.0 - x), epsabs=1e-10, limit=400)
    variance = np.full(2, share * mean * (1.0 - mean))
    average = mean_entropy(
        tf.constant([mean, 1.0 - mean], tf.float64), tf.constant(variance)
    )
    np.testing.assert_allclose(average, want, rtol=1e-5, atol=1e-7)


def test_of_a_dirichlet_distribution_is_exact():
    """Each probability has a Beta distribution."""
    alpha = np.array([0.2, 1.0, 3.0, 0.7])
    dirichlet = scipy.stats.dirichlet(alpha)
    total = alpha.sum()
    want = np.sum(
        alpha
        / total
        * (
            scipy.special.digamma(total + 1.0)
            - scipy.special.digamma(alpha + 1.0)
        )
    )
    average = mean_entropy(
        tf.constant(dirichlet.mean()), tf.constant(dirichlet.var())
    )
    np.testing.assert_allclose(average, want, rtol=1e-12)
    p = dirichlet.rvs(200_000, random_state=0)
    entropy = scipy.special.entr(p).sum(axis=1)
    error = entropy.std() / np.sqrt(len(p))
    assert abs(average - entropy.mean()) < 4 * error


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_between_none_and_the_entropy_of_the_means(dtype):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.3), size=200)
    p[:3] = [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0.2] * 5]
    p = p.astype(dtype)
    entropy = scipy.special.entr(p).sum(axis=1)
    rounding = 4e-6 if dtype == "float32" else 1e-10
    before = entropy
    for share in (0.0, 1e-30, 1e-6, 0.1, 0.9, 1.0):
        variance = (share * p * (1 - p)).astype(dtype)
        average = mean_entropy(tf.constant(p), tf.constant(variance))
        assert average.dtype == dtype
        average = np.asarray(average)
        if share < 1e-7:
            np.testing.assert_allclose(average, entropy, atol=rounding)
        assert (average <= before + rounding).all() and (average >= 0).all()
        before = average
    np.testing.assert_allclose(before, np.zeros(200), atol=rounding)


def test_to_second_order_for_little_noise():
    """E H ~ H - sum{ Var p / (2 p) }, with as many digits as Var."""
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]])
    variance = np.array([[1e-9, 2e-9, 1e-9], [3e-10, 1e-10, 1e-10]])
    entropy = scipy.special.entr(p).sum(axis=1)
    information = entropy - mean_entropy(tf.constant(p), tf.constant(variance))
    want = (variance / (2 * p)).sum(axis=1)
    np.testing.assert_allclose(information, want, rtol=1e-5)


@pytest.mark.parametrize("last", ["softmax", "sigmoid"])
@pytest.mark.parametrize("method", ["moments", "rao_blackwell"])
def test_mutual_information_goes_with_that_of_samples(method, last):
    """The classifier has logits that vary by several units."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((20,)),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.4),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.4),
            layers.Dense(1 if last == "sigmoid" else 6, activation=last),
        ]
    )
    x = 6.0 * np.random.default_rng(0).normal(size=(60, 20))

    def predict(**kwargs):
        return kbd.predict_with_uncertainty(
            model, x.astype("float32"), seed=0, verbose=0, **flat(**kwargs)
        )

    sampled = predict(num_samples=2000, masks="independent")
    prediction = predict(method=method, num_samples=200, covariance="full")
    one = np.ravel(prediction.mutual_information)
    other = np.ravel(sampled.mutual_information)
    assert np.mean(other) > 0.1
    assert np.corrcoef(one, other)[0, 1] > 0.98
    assert 0.95 < np.mean(one) / np.mean(other) < 1.06
