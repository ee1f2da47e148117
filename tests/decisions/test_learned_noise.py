# SPDX-License-Identifier: Apache-2.0
"""Decisions on predictions with learned noise."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
from scipy.stats import norm

from keras_bayesdrop.decisions import Cascade
from keras_bayesdrop.decisions import acquire
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Heteroscedastic
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import Stats

PARTS = ("epistemic", "aleatoric", "total")


def predicted(rows=5, outputs=1, samples=40, seed=0, spread=1.0, noise=1.0):
    """A prediction of correlated rows, with noise of its own in each."""
    random = np.random.default_rng(seed)
    basis = random.standard_normal((3, rows, outputs))
    weights = random.standard_normal((samples, 3))
    values = spread * np.einsum("tk,kro->tro", weights, basis)
    logs = noise * random.standard_normal(values.shape)
    stats = Stats(num_samples=samples, num_rows=rows, seed=0, masks="shared")
    return Predictive.from_samples(
        values, "heteroscedastic", None, stats, noise_samples=np.exp(logs)
    )


def dropped(p):
    """The same prediction without samples."""
    return dataclasses.replace(p, samples=None, noise_samples=None)


def information(means, stds):
    """Information between a measurement and the sample, by integration."""
    z = np.linspace(-60.0, 60.0, 12_001)
    density = norm.pdf(z, means[:, None], stds[:, None]).mean(axis=0)
    logs = np.log(density, out=np.zeros_like(z), where=density > 0)
    entropy = -np.sum(density * logs) * (z[1] - z[0])
    return entropy - np.mean(norm.entropy(means, stds))


def bald(p):
    """The score by its definition: entropy of a normal, minus the mean."""
    whole = 0.5 * np.log(2 * np.pi * np.e * p.total)
    parts = 0.5 * np.log(2 * np.pi * np.e * p.noise_samples)
    return (whole - parts.mean(axis=0)).sum(axis=1)


@pytest.mark.parametrize("outputs", [1, 3])
def test_bald_by_its_definition(outputs):
    p = predicted(outputs=outputs)
    chosen = acquire(p, 5)
    np.testing.assert_array_equal(chosen.rows, np.argsort(-bald(p)))
    np.testing.assert_allclose(chosen.scores, np.sort(bald(p))[::-1])


@pytest.mark.parametrize(("spread", "noise"), [(1.0, 1.0), (0.5, 0.3)])
def test_bald_bounds_the_information_of_the_mixture(spread, noise):
    p = predicted(spread=spread, noise=noise)
    scores = bald(p)
    for row, score in enumerate(scores):
        exact = information(p.samples[:, row, 0], noise_of(p, row))
        assert 0 < exact < score
    # With less uncertainty than noise the mixture is nearly normal.
    calm = predicted(spread=0.1, noise=0.05)
    scores = bald(calm)
    exact = [
        information(calm.samples[:, row, 0], noise_of(calm, row))
        for row in range(5)
    ]
    # The variance of 40 samples is unbiased: a fortieth larger than theirs.
    np.testing.assert_allclose(scores, exact, rtol=0.05, atol=1e-4)


def noise_of(p, row):
    return np.sqrt(p.noise_samples[:, row, 0])


def test_unsure_noise_is_worth_a_measurement():
    p = predicted(spread=1e-6)
    assert np.all(acquire(p, 5).scores > 0.05)
    same = dataclasses.replace(
        p, noise_samples=np.broadcast_to(p.noise_variance, p.samples.shape)
    )
    np.testing.assert_allclose(acquire(same, 5).scores, 0.0, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2])
def test_batchbald_against_determinants(outputs):
    p = predicted(outputs=outputs)
    logs = np.log(p.noise_samples).mean(axis=0)

    def joint(rows):
        value = 0.0
        for output in range(outputs):
            values = p.samples[:, rows, output]
            covariance = np.atleast_2d(np.cov(values.T))
            noise = np.diag(p.noise_variance[rows, output])
            _, size = np.linalg.slogdet(covariance + noise)
            value += 0.5 * (size - logs[rows, output].sum())
        return value

    chosen = acquire(p, 3, "batchbald")
    for count in (1, 2, 3):
        rows = list(chosen.rows[:count])
        np.testing.assert_allclose(chosen.scores[:count].sum(), joint(rows))
        best = max(
            joint([*rows[:-1], row]) for row in range(5) if row not in rows[:-1]
        )
        np.testing.assert_allclose(joint(rows), best)


def test_epig_against_correlations():
    whole = predicted(rows=9, seed=3)
    p, targets = whole[:5], whole[5:]
    score = np.zeros(5)
    for row, other in itertools.product(range(5), range(4)):
        covariance = np.cov(p.samples[:, row, 0], targets.samples[:, other, 0])
        covariance[0, 0] += p.noise_variance[row, 0]
        covariance[1, 1] += targets.noise_variance[other, 0]
        square = covariance[0, 1] ** 2 / covariance[0, 0] / covariance[1, 1]
        score[row] += -0.5 * np.log1p(-square) / 4
    chosen = acquire(p, 5, "epig", targets=targets)
    np.testing.assert_array_equal(chosen.rows, np.argsort(-score))
    np.testing.assert_allclose(chosen.scores, np.sort(score)[::-1])


@pytest.mark.parametrize("tau", [4.0, (4.0, 0.25)])
@pytest.mark.parametrize("method", ["bald", "batchbald", "epig"])
def test_constant_noise_is_that_of_a_regression(method, tau):
    p = predicted(rows=8, outputs=2)
    head = Regression(noise_precision=tau)
    known = dataclasses.replace(p.without_noise(), head=head)
    noise = np.broadcast_to(1 / np.asarray(tau), p.samples.shape)
    learned = dataclasses.replace(
        p, noise_samples=noise, noise_variance=noise[0]
    )
    for one, other in ((learned, known), (known, learned)):
        options = {"targets": one[5:]} if method == "epig" else {}
        more = {"targets": other[5:]} if method == "epig" else {}
        first = acquire(one[:5], 3, method, **options)
        second = acquire(other[:5], 3, method, **more)
        np.testing.assert_array_equal(first.rows, second.rows)
        np.testing.assert_allclose(first.scores, second.scores, rtol=1e-9)


@pytest.mark.parametrize("method", ["bald", "batchbald"])
def test_information_needs_the_noise_of_samples(method):
    with pytest.raises(MissingSamplesError, match="return_samples=True"):
        acquire(dropped(predicted()), 2, method)


@pytest.mark.parametrize("method", ["entropy", "variation_ratio"])
def test_methods_for_labels(method):
    with pytest.raises(BayesdropError, match="not defined for task='hetero"):
        acquire(predicted(), 2, method)


def test_deferral_by_the_expected_squared_error():
    p = dropped(predicted(rows=50, outputs=2))
    y = p.mean + np.sqrt(p.total) * np.random.default_rng(0).normal(
        size=p.mean.shape
    )
    result = p.defer(budget=0.2, y=y)
    total = (p.variance + p.noise_variance).mean(axis=1)
    np.testing.assert_array_equal(result.rows, np.argsort(-total)[:10])
    assert result.by == "expected_loss"
    np.testing.assert_allclose(
        result.full_risk, np.mean((y - p.mean) ** 2), rtol=1e-12
    )
    parts = {by: p.defer(budget=0.2, by=by).uncertainty for by in PARTS}
    np.testing.assert_allclose(
        parts["epistemic"] + parts["aleatoric"], parts["total"]
    )
    assert not np.array_equal(
        p.defer(budget=0.2, by="aleatoric").rows,
        p.defer(budget=0.2, by="epistemic").rows,
    )


def test_cascade_asks_where_noise_or_ignorance_is_large():
    x = np.arange(6.0)
    fast = dropped(predicted(rows=6))
    slow = dropped(predicted(rows=6, seed=1))

    def answers(p):
        return lambda some: p[np.asarray(some, int)]

    result = Cascade(answers(fast), answers(slow), budget=2).predict(x)
    asked = np.argsort(-fast.total[:, 0])[:2]
    np.testing.assert_array_equal(result.asked, asked)
    expected = fast.mean.copy()
    expected[asked] = slow.mean[asked]
    np.testing.assert_array_equal(result.mean, expected)
    # Both give numbers, whatever is known of the noise.
    known = slow.without_noise()
    mixed = Cascade(answers(fast), answers(known), budget=2).predict(x)
    np.testing.assert_array_equal(mixed.mean, expected)
    labels = Predictive(head="binary", mean=[[0.5]] * 6, variance=[[0.1]] * 6)
    with pytest.raises(BayesdropError, match="'heteroscedastic' from the fast"):
        Cascade(answers(fast), answers(labels), budget=2).predict(x)


@pytest.mark.parametrize("pair", [False, True])
def test_slow_model_without_noise_answers_with_its_means(pair):
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(8, activation="relu")(inputs)
    head = "heteroscedastic"

    def network(noisy):
        inner = keras.layers.Dropout(0.5)(hidden) if noisy else hidden
        if not pair:
            return keras.Model(inputs, keras.layers.Dense(4)(inner))
        outputs = {name: keras.layers.Dense(2)(inner) for name in ("s", "m")}
        return keras.Model(inputs, outputs)

    if pair:
        head = Heteroscedastic(mean="m", log_variance="s")
    slow = network(noisy=False)
    cascade = Cascade(network(noisy=True), slow, budget=2, head=head, seed=0)
    result = cascade.predict(x)
    outputs = slow.predict(x, verbose=0)
    means = outputs["m"] if pair else outputs[:, :2]
    np.testing.assert_allclose(
        result.mean[result.asked], means[result.asked], rtol=1e-5, atol=1e-6
    )
    assert result.fast.noise_variance.shape == (6, 2)
