# SPDX-License-Identifier: Apache-2.0
"""Learned noise without samples, or with fewer, against many samples."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.helpers import flat

layers = keras.layers

SAMPLES = 10_000
X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")


def network(spread):
    """A network whose log variances are near normal, of some spread."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(100, activation="tanh"),
            layers.Dropout(0.3),
            layers.Dense(100, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(4),
        ]
    )
    rng = np.random.default_rng(2)
    weights = [
        rng.normal(size=w.shape) / np.sqrt(max(len(w), 3))
        for w in model.get_weights()
    ]
    weights[-2][:, 2:] *= spread
    model.set_weights(weights)
    return model


def predict(model, **arguments):
    settings = {"seed": 1, "verbose": 0, **arguments}
    return kbd.predict_with_uncertainty(model, X, **flat(**settings))


@pytest.mark.parametrize(
    ("spread", "limit"),
    # Log variances of a deviation of 0.2 to 0.5; the same, of which a third
    # is clipped; of 1 to 2.5, where exp is far from linear, clipped or not.
    [(1.0, 20.0), (1.0, 0.3), (5.0, 20.0), (5.0, 1.0)],
)
def test_against_many_samples(spread, limit):
    model = network(spread)
    head = kbd.Heteroscedastic(log_variance_limit=limit)
    whole = predict(model, head=head, num_samples=SAMPLES, return_samples=True)
    noise = whole.noise_samples.astype(float)
    error = noise.std(0) / np.sqrt(SAMPLES)
    spreads = np.log(noise).std(0)
    assert spreads.max() > 0.1
    p = predict(model, head=head, method="moments")
    assert p.stats.method == "moments" and p.samples is None
    # Beyond chance, log variances are not quite normal, and their moments
    # not exact: 2 % per unit of variance, and 2 %.
    slack = (0.02 + 0.02 * spreads.max() ** 2) * whole.aleatoric
    assert (np.abs(p.aleatoric - whole.aleatoric) < 4 * error + slack).all()
    np.testing.assert_allclose(p.variance, whole.variance, rtol=0.1)
    # Taking exp of the mean log variance is another number.
    naive = np.exp(np.log(noise).mean(0))
    if spread == 5.0 and limit == 20.0:
        assert (np.abs(naive - whole.aleatoric) > 4 * error + slack).all()


@pytest.mark.parametrize("limit", [20.0, 1.0])
def test_rao_blackwell_against_many_samples(limit):
    model = network(3.0)
    head = kbd.Heteroscedastic(log_variance_limit=limit)
    whole = predict(model, head=head, num_samples=SAMPLES, return_samples=True)
    error = whole.noise_samples.std(0) / np.sqrt(SAMPLES)
    p = predict(model, head=head, num_samples=4000, method="rao_blackwell")
    assert p.stats.method == "rao_blackwell"
    # Given a sample of the first noise the rest is a sum of 100 terms, almost
    # normal. Two samples of other sizes, the second with less variance.
    bound = 5 * error + 0.01 * whole.aleatoric
    assert (np.abs(p.aleatoric - whole.aleatoric) < bound).all()
    np.testing.assert_allclose(p.variance, whole.variance, rtol=0.1)
    assert (p.sampled_variance < p.variance).all()
    np.testing.assert_array_equal(p.total, p.variance + p.noise_variance)


def test_rao_blackwell_with_a_tolerance():
    head = kbd.Heteroscedastic()
    method = kbd.RaoBlackwell(tolerance=0.02, draws="independent")
    p = predict(network(1.0), head=head, num_samples=500, method=method)
    assert p.noise_variance.shape == (5, 2)
    assert p.num_samples_used.min() < 500
    error = np.sqrt(p.sampled_variance / p.num_samples_used[:, None])
    assert (error <= 0.02 * np.sqrt(p.total) * (1 + 1e-5)).all()


def test_moments_of_certain_log_variances():
    """Noise that reaches the mean alone leaves the noise variance exact."""
    inputs = keras.Input((3,))
    mean = layers.Dense(2, name="mu")(layers.Dropout(0.5)(inputs))
    log_variance = layers.Dense(2, name="s")(inputs)
    model = keras.Model(inputs, [mean, log_variance])
    head = kbd.Heteroscedastic(mean="mu", log_variance="s")
    expected = np.exp(model.predict(X, verbose=0)[1])
    for method in ("moments", "sampling"):
        p = predict(model, head=head, method=method)
        np.testing.assert_allclose(p.aleatoric, expected, rtol=1e-6)
        assert p.variance.all()


def test_stochastic_noise_and_a_certain_mean():
    """A mean that no noise reaches has no variance, and noise all the same."""
    keras.utils.set_random_seed(2)
    inputs = keras.Input((3,))
    mean = layers.Dense(2, name="mu")(inputs)
    hidden = layers.Dense(200, activation="tanh")(inputs)
    log_variance = layers.Dense(2, name="s")(layers.Dropout(0.3)(hidden))
    model = keras.Model(inputs, [mean, log_variance])
    head = kbd.Heteroscedastic(mean="mu", log_variance="s")
    whole = predict(model, head=head, num_samples=SAMPLES)
    assert not whole.variance.any()
    p = predict(model, head=head, method="moments")
    assert not p.variance.any()
    # A sum of 200 terms of a deviation of about 0.5, near normal; the error
    # of 10,000 samples is 0.5 %.
    np.testing.assert_allclose(p.aleatoric, whole.aleatoric, rtol=0.03)
