# SPDX-License-Identifier: Apache-2.0
"""Monte Carlo against the truth: all masks of a small network, summed up.

With `k` units that can be dropped there are `2^k` networks, each with a known
probability. Their outputs give the exact mean, variance and entropies, and the
standard errors of the estimates as well: every tolerance here is four of them.
"""

import functools
import itertools

import keras
import numpy as np
import pytest
import scipy.stats

import keras_bayesdrop as kbd

NUM_SAMPLES = 8192
MASKS = ("shared", "independent")
RATES = ((0.2, 0.5), (0.5, 0.5), (0.5, 0.2))


def _network(rates, outputs=2, activation=None):
    """A network with seven units that can be dropped, weights well apart."""
    rng = np.random.default_rng(3)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(rates[0]),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dropout(rates[1]),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


def _inputs():
    return np.random.default_rng(4).normal(size=(5, 3)).astype(np.float32)


def _enumerate(model, x, rates):
    """Probabilities [128] and outputs [128, rows, outputs] of all masks."""
    w1, b1, w2, b2 = (w.astype(np.float64) for w in model.get_weights())
    probabilities, results = [], []
    for bits in itertools.product((0, 1), repeat=7):
        first, second = np.array(bits[:3]), np.array(bits[3:])
        hidden = np.tanh((x * first / (1 - rates[0])) @ w1 + b1)
        results.append((hidden * second / (1 - rates[1])) @ w2 + b2)
        probabilities.append(
            np.prod(np.where(first, 1 - rates[0], rates[0]))
            * np.prod(np.where(second, 1 - rates[1], rates[1]))
        )
    outputs = np.stack(results)
    last = model.layers[-1].activation
    return np.array(probabilities), np.asarray(last(outputs))


@functools.cache
def _predicted(rates, masks, outputs=2, activation=None, seed=1):
    model = _network(rates, outputs, activation)
    prediction = kbd.predict_with_uncertainty(
        model,
        _inputs(),
        NUM_SAMPLES,
        seed=seed,
        verbose=0,
        method=kbd.Sampling(masks=masks),
    )
    return prediction, *_enumerate(model, _inputs(), rates)


def _moment(probabilities, values):
    """Exact expectation over masks: values [128, ...]."""
    return np.tensordot(probabilities, values, 1)


def _assert_within(estimate, exact, standard_error, bias=0.0):
    # float32 outputs are added to what chance allows.
    allowed = 4 * standard_error + bias + 1e-6 * (1 + np.abs(exact))
    np.testing.assert_array_less(np.abs(estimate - exact), allowed)


def _variance_error(p, values):
    """Standard error of the unbiased sample variance."""
    mean = _moment(p, values)
    variance = _moment(p, (values - mean) ** 2)
    fourth = _moment(p, (values - mean) ** 4)
    n = NUM_SAMPLES
    return np.sqrt((fourth - variance**2 * (n - 3) / (n - 1)) / n)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("rates", RATES)
def test_mean_and_variance(rates, masks):
    prediction, p, values = _predicted(rates, masks)
    assert abs(p.sum() - 1) < 1e-12
    mean = _moment(p, values)
    variance = _moment(p, (values - mean) ** 2)
    _assert_within(prediction.mean, mean, np.sqrt(variance / NUM_SAMPLES))
    _assert_within(prediction.variance, variance, _variance_error(p, values))


@pytest.mark.parametrize("rates", RATES)
def test_shared_and_independent_masks_agree(rates):
    shared, p, values = _predicted(rates, "shared")
    independent, _, _ = _predicted(rates, "independent")
    variance = _moment(p, (values - _moment(p, values)) ** 2)
    # The first row has the same masks in both (row 0 is row 0), so only the
    # others are two estimates; their difference has twice the variance.
    others = slice(1, None)
    _assert_within(
        shared.mean[others],
        independent.mean[others],
        np.sqrt(2 * variance[others] / NUM_SAMPLES),
    )
    _assert_within(
        shared.variance[others],
        independent.variance[others],
        np.sqrt(2) * _variance_error(p, values)[others],
    )
    np.testing.assert_allclose(
        shared.mean[0], independent.mean[0], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("masks", MASKS)
def test_rows_are_correlated_only_with_shared_masks(masks):
    rates = RATES[0]
    model = _network(rates)
    x = np.repeat(_inputs()[:1], 2, axis=0)
    samples = kbd.predict_with_uncertainty(
        model,
        x,
        2048,
        seed=1,
        verbose=0,
        return_samples=True,
        method=kbd.Sampling(masks=masks),
    ).samples
    if masks == "shared":
        np.testing.assert_allclose(samples[:, 0], samples[:, 1], rtol=1e-6)
        return
    for output in range(2):
        r = np.corrcoef(samples[:, 0, output], samples[:, 1, output])[0, 1]
        # The correlation of independent samples has standard error 1/sqrt(T).
        assert abs(r) < 4 / np.sqrt(2048)


@pytest.mark.parametrize("masks", MASKS)
def test_every_sample_is_one_of_the_masks_as_often_as_it_should(masks):
    rates = (0.3, 0.5)
    model, x = _network(rates), _inputs()
    p, values = _enumerate(model, x, rates)
    samples = kbd.predict_with_uncertainty(
        model,
        x,
        4096,
        seed=2,
        verbose=0,
        return_samples=True,
        method=kbd.Sampling(masks=masks),
    ).samples
    for row in range(len(x)):
        # Masks with everything dropped behind them look alike: join those.
        known, which = np.unique(
            np.round(values[:, row], 4), axis=0, return_inverse=True
        )
        chance = np.bincount(which.ravel(), p)
        distance = np.abs(samples[:, row, None] - known).max(axis=-1)
        assert np.all(distance.min(axis=1) < 2e-4)
        counts = np.bincount(distance.argmin(axis=1), minlength=len(known))
        common = chance * 4096 >= 5  # what a chi-square test needs
        observed = [*counts[common], counts[~common].sum()]
        expected = [*chance[common], chance[~common].sum()]
        if expected[-1] == 0:
            observed, expected = observed[:-1], expected[:-1]
        test = scipy.stats.chisquare(observed, np.array(expected) * 4096)
        assert test.pvalue > 1e-4, row


def _entropy(values):
    return scipy.stats.entropy(values, axis=-1)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("rates", RATES)
def test_entropies_of_classes(rates, masks):
    prediction, p, values = _predicted(rates, masks, 3, "softmax")
    assert prediction.task == "classification"
    mean = _moment(p, values)
    each = _entropy(values)  # [128, rows]
    expected = _moment(p, each)
    spread = np.sqrt(_moment(p, (each - expected) ** 2) / NUM_SAMPLES)
    _assert_within(prediction.expected_entropy, expected, spread)

    # Entropy of the mean: its first-order change is that of z, and the second
    # order is bounded by the classes over twice the samples.
    z = -np.sum((np.log(mean) + 1) * values, axis=-1)
    centred = z - _moment(p, z)
    spread = np.sqrt(_moment(p, centred**2) / NUM_SAMPLES)
    bias = 8 * 3 / NUM_SAMPLES
    _assert_within(prediction.predictive_entropy, _entropy(mean), spread, bias)

    difference = centred - (each - expected)
    spread = np.sqrt(_moment(p, difference**2) / NUM_SAMPLES)
    information = _entropy(mean) - expected
    # The test can fail: what is measured is far above what is allowed.
    assert np.all(information > 5 * (4 * spread + bias))
    _assert_within(prediction.mutual_information, information, spread, bias)


@pytest.mark.parametrize("masks", MASKS)
def test_votes_and_parts_of_the_variance_of_classes(masks):
    prediction, p, values = _predicted(RATES[0], masks, 3, "softmax")
    votes = _moment(p, np.eye(3)[values.argmax(axis=-1)])  # [rows, classes]
    spread = np.sqrt(votes * (1 - votes) / NUM_SAMPLES)
    _assert_within(prediction.vote_counts / NUM_SAMPLES, votes, spread)
    favourite = votes.max(axis=-1)
    assert np.all(np.sort(votes)[:, -1] - np.sort(votes)[:, -2] > 0.02)
    _assert_within(
        prediction.variation_ratio,
        1 - favourite,
        np.sqrt(favourite * (1 - favourite) / NUM_SAMPLES),
    )
    noise = values * (1 - values)
    exact = _moment(p, noise)
    spread = np.sqrt(_moment(p, (noise - exact) ** 2) / NUM_SAMPLES)
    _assert_within(prediction.aleatoric, exact, spread)
    # The law of total variance, exactly: p(1-p) of the mean.
    mean = prediction.mean.astype(np.float64)
    total = mean * (1 - mean) + prediction.variance / NUM_SAMPLES
    np.testing.assert_allclose(prediction.total, total, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("masks", MASKS)
def test_entropies_of_a_probability(masks):
    prediction, p, values = _predicted(RATES[0], masks, 1, "sigmoid")
    assert prediction.task == "binary"
    mean = _moment(p, values)

    def entropy(q):
        return scipy.stats.entropy(np.stack([q, 1 - q]), axis=0)

    expected = _moment(p, entropy(values))
    spread = np.sqrt(
        _moment(p, (entropy(values) - expected) ** 2) / NUM_SAMPLES
    )
    _assert_within(prediction.expected_entropy, expected, spread)
    z = values * np.log((1 - mean) / mean)
    difference = z - _moment(p, z) - (entropy(values) - expected)
    spread = np.sqrt(_moment(p, difference**2) / NUM_SAMPLES)
    _assert_within(
        prediction.mutual_information,
        entropy(mean) - expected,
        spread,
        16 / NUM_SAMPLES,
    )


@pytest.mark.parametrize("masks", MASKS)
def test_spatial_dropout(masks):
    """Three maps of two by two; eight masks."""
    model = keras.Sequential(
        [
            keras.Input((2, 2, 3)),
            keras.layers.SpatialDropout2D(0.3),
            keras.layers.Flatten(),
            keras.layers.Dense(1, activation="tanh"),
        ]
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 2, 2, 3)).astype(np.float32)
    kernel, bias = (w.astype(np.float64) for w in model.get_weights())
    masks_of_three = np.array(list(itertools.product((0, 1), repeat=3)))
    p = np.prod(np.where(masks_of_three, 0.7, 0.3), axis=1)
    values = np.stack(
        [
            np.tanh((x * keep / 0.7).reshape(4, -1) @ kernel + bias)
            for keep in masks_of_three
        ]
    )
    prediction = kbd.predict_with_uncertainty(
        model,
        x,
        NUM_SAMPLES,
        seed=5,
        verbose=0,
        method=kbd.Sampling(masks=masks),
    )
    mean = _moment(p, values)
    variance = _moment(p, (values - mean) ** 2)
    _assert_within(prediction.mean, mean, np.sqrt(variance / NUM_SAMPLES))
    _assert_within(prediction.variance, variance, _variance_error(p, values))
