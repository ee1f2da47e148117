# SPDX-License-Identifier: Apache-2.0
"""Metrics of predictions with learned noise, against numeric integration."""

import functools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression

T, ROWS = 6, 4


def arrays(outputs=1, seed=0):
    """Samples, variances of their noise, and targets."""
    random = np.random.default_rng(seed)
    samples = 2.0 * random.standard_normal((T, ROWS, outputs))
    noise = np.exp(random.uniform(-2.0, 2.0, samples.shape))
    y = 3.0 * random.standard_normal((ROWS, outputs))
    return samples, noise, y


def predicted(outputs=1, seed=0, keep=True):
    samples, noise, y = arrays(outputs, seed)
    p = Predictive.from_samples(samples, "heteroscedastic", noise_samples=noise)
    if not keep:
        p = Predictive(
            head=p.head,
            mean=p.mean,
            variance=p.variance,
            noise_variance=p.noise_variance,
            stats=p.stats,
        )
    return p, y


def integral(function, kink):
    """Integral over the real line of a function with one kink."""
    # 4000 points a side: the midpoint rule is right to about 1e-6.
    total = 0.0
    for low, high in ((-60.0, kink), (kink, 60.0)):
        step = (high - low) / 4000
        points = low + step * (np.arange(4000) + 0.5)
        total += step * float(np.sum(function(points)))
    return total


def element(samples, noise, row, output=0):
    """Density and distribution function of the mixture of one output."""
    means = samples[:, row, output, np.newaxis]
    stds = np.sqrt(noise[:, row, output, np.newaxis])
    return (
        lambda z: norm.pdf(z, means, stds).mean(axis=0),
        lambda z: norm.cdf(z, means, stds).mean(axis=0),
    )


def plain_crps(below, target):
    """The integral that defines the score."""
    return integral(lambda z: (below(z) - (z >= target)) ** 2, target)


def fair_crps(density, below, stds, target):
    """The score without the pairs of equal samples."""
    near = integral(lambda z: abs(z - target) * density(z), target)
    # E|X - X'| over all pairs of samples, and over the equal ones.
    pairs = 2 * T**2 * (near - plain_crps(below, target))
    equal = 2 / math.sqrt(math.pi) * stds.sum()
    return near - (pairs - equal) / (2 * T * (T - 1))


def test_crps_of_the_mixture():
    samples, noise, y = arrays()
    p, _ = predicted()
    expected = [
        fair_crps(
            *element(samples, noise, row), np.sqrt(noise[:, row]), y[row, 0]
        )
        for row in range(ROWS)
    ]
    assert metrics.crps(y, p) == pytest.approx(np.mean(expected), abs=1e-5)


def test_crps_without_samples_is_that_of_a_normal():
    p, y = predicted(keep=False)
    std = np.sqrt(p.total)
    expected = [
        plain_crps(norm(p.mean[row, 0], std[row, 0]).cdf, y[row, 0])
        for row in range(ROWS)
    ]
    assert metrics.crps(y, p) == pytest.approx(np.mean(expected), abs=1e-5)


def test_energy_score_draws_the_noise_of_each_sample():
    p, y = predicted(outputs=3)
    draws = np.random.default_rng(5).standard_normal(p.samples.shape)
    noisy = p.samples + draws * np.sqrt(p.noise_samples)
    assert metrics.energy_score(y, p, seed=5) == pytest.approx(
        metrics.energy_score(y, noisy), rel=1e-12
    )
    assert metrics.energy_score(y, p) != metrics.energy_score(y, p.samples)


def quantile(samples, noise, q):
    """Quantiles of the mixtures, by bisection."""
    result = np.empty(samples.shape[1:])
    for place in np.ndindex(result.shape):
        _, below = element(samples, noise, *place)
        excess = functools.partial(lambda f, z: f(z)[0] - q, below)
        result[place] = brentq(excess, -99.0, 99.0, xtol=1e-12)
    return result


def test_quantiles_and_intervals_of_the_mixture():
    samples, noise, y = arrays(outputs=2)
    p, _ = predicted(outputs=2)
    losses = []
    for q in (0.1, 0.5, 0.8):
        above = y - quantile(samples, noise, q)
        losses.append(np.mean(np.maximum(q * above, (q - 1) * above)))
        assert metrics.pinball_loss(y, p, q) == pytest.approx(losses[-1])
    assert metrics.pinball_loss(y, p, (0.1, 0.5, 0.8)) == pytest.approx(
        np.mean(losses)
    )
    lower, upper = (quantile(samples, noise, q) for q in (0.1, 0.9))
    ends = (lower, upper)
    for metric in (metrics.interval_coverage, metrics.interval_score):
        assert metric(y, p, 0.8) == pytest.approx(metric(y, ends, 0.8))
    assert metrics.interval_width(p, 0.8) == pytest.approx(
        np.mean(upper - lower)
    )
    # The samples alone would give other intervals.
    alone = Predictive.from_samples(p.samples)
    assert metrics.interval_width(alone, 0.8) < metrics.interval_width(p, 0.8)


@pytest.mark.parametrize("keep", [True, False])
def test_curve_has_the_coverage_of_the_intervals(keep):
    p, y = predicted(outputs=3, keep=keep)
    levels = (0.2, 0.5, 0.8, 0.95)
    curve = metrics.calibration_curve(y, p, levels)
    expected = [metrics.interval_coverage(y, p, level) for level in levels]
    np.testing.assert_allclose(curve.observed, expected, atol=1e-12)
    assert metrics.miscalibration_area(y, p, levels) == curve.area


def test_calibrated_noise_has_a_straight_curve():
    random = np.random.default_rng(0)
    rows = 4000
    samples = random.standard_normal((8, rows, 1))
    noise = np.exp(random.uniform(-3.0, 3.0, (8, rows, 1)))
    drawn = random.integers(8, size=rows)
    part = (drawn, np.arange(rows))
    y = samples[part] + np.sqrt(noise[part]) * random.standard_normal((rows, 1))
    p = Predictive.from_samples(samples, "heteroscedastic", noise_samples=noise)
    curve = metrics.calibration_curve(y, p)
    # Five standard deviations of a binomial share at 0.5: 0.04.
    np.testing.assert_allclose(curve.observed, curve.expected, atol=0.04)
    # One variance for all rows is not calibrated.
    flat = Predictive.from_samples(
        samples, Regression(noise_precision=1 / np.mean(noise))
    )
    assert metrics.miscalibration_area(y, flat) > 0.04


@pytest.mark.parametrize("outputs", [1, 2])
def test_log_likelihood_of_the_mixture(outputs):
    samples, noise, y = arrays(outputs)
    p, _ = predicted(outputs)
    density = norm.pdf(y, samples, np.sqrt(noise)).prod(axis=2).mean(axis=0)
    assert metrics.negative_log_likelihood(y, p) == pytest.approx(
        -np.mean(np.log(density))
    )
    with pytest.raises(MissingSamplesError, match="return_samples=True"):
        metrics.negative_log_likelihood(y, predicted(outputs, keep=False)[0])


def test_moments_and_errors():
    p, y = predicted(outputs=2)
    expected = np.sqrt(np.mean(p.variance + p.noise_samples.mean(axis=0)))
    assert metrics.sharpness(p) == pytest.approx(expected)
    assert metrics.root_mean_squared_error(y, p) == pytest.approx(
        np.sqrt(np.mean((p.mean - y) ** 2))
    )


@pytest.mark.parametrize("tau", [4.0, (4.0, 0.5)])
def test_constant_noise_is_that_of_a_regression(tau):
    samples, _, y = arrays(outputs=2)
    head = Regression(noise_precision=tau)
    known = Predictive.from_samples(samples, head)
    noise = np.broadcast_to(1 / np.asarray(tau), samples.shape)
    learned = Predictive.from_samples(
        samples, "heteroscedastic", noise_samples=noise
    )
    for metric in (
        metrics.crps,
        metrics.energy_score,
        metrics.pinball_loss,
        metrics.interval_score,
        metrics.interval_coverage,
        metrics.miscalibration_area,
        metrics.negative_log_likelihood,
    ):
        assert metric(y, learned) == pytest.approx(metric(y, known), rel=1e-9)
    assert metrics.sharpness(learned) == pytest.approx(metrics.sharpness(known))


def test_metrics_of_labels_refuse_numbers():
    p, y = predicted()
    for metric in (
        metrics.accuracy,
        metrics.brier_score,
        metrics.expected_calibration_error,
    ):
        with pytest.raises(BayesdropError, match="task='heteroscedastic'"):
            metric(y, p)


def test_keras_metric_clips_as_loss_and_prediction():
    random = np.random.default_rng(0)
    mean = random.standard_normal((50, 1))
    log_variance = random.uniform(-6.0, 6.0, (50, 1))
    y = mean + 2.0 * random.standard_normal((50, 1))
    outputs = np.concatenate([mean, log_variance], axis=1)
    for limit in (20.0, 2.0):
        metric = metrics.IntervalCoverage(0.8, log_variance_limit=limit)
        metric.update_state(y, outputs)
        p = Predictive(
            head="heteroscedastic",
            mean=mean,
            variance=np.zeros_like(mean),
            noise_variance=np.exp(np.clip(log_variance, -limit, limit)),
        )
        covered = metrics.interval_coverage(y, p, 0.8)
        assert float(metric.result()) == pytest.approx(covered, abs=1e-6)
        again = type(metric).from_config(metric.get_config())
        assert again.log_variance_limit == limit
    with pytest.raises(BayesdropError, match="log_variance_limit"):
        metrics.IntervalCoverage(log_variance_limit=0.0)
