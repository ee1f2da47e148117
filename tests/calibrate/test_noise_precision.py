# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
import scipy.stats
from scipy.optimize import minimize_scalar

from keras_bayesdrop import calibrate
from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from tests.metrics import cases


def best(log_likelihood):
    """By the bounded search of SciPy."""
    return np.exp(
        minimize_scalar(
            lambda t: -log_likelihood(np.exp(t)),
            bounds=(-6, 8),
            method="bounded",
            options={"xatol": 1e-9},
        ).x
    )


def by_moments(p):
    stats = dataclasses.replace(p.stats, method="moments", num_samples=0)
    return dataclasses.replace(p, samples=None, stats=stats)


@pytest.mark.parametrize("shape", [(60,), (60, 1), (30, 2)])
def test_maximises_the_likelihood_that_is_reported(shape):
    p, y = cases.regression(shape)

    def log_likelihood(tau):
        with_noise = dataclasses.replace(p, head=Regression(tau))
        return -metrics.negative_log_likelihood(y, with_noise)

    tau = calibrate.noise_precision(y, p)
    assert isinstance(tau, float)
    assert tau == pytest.approx(best(log_likelihood), rel=1e-4)
    fitted = dataclasses.replace(p, head=Regression(tau))
    assert calibrate.noise_precision(y, fitted) == tau


def test_without_spread_it_is_the_inverse_mean_square():
    mean = np.arange(5.0)
    p = cases.of_samples(np.stack([mean, mean]))
    y = mean + np.array([1, -2, 0.5, 0, 1])
    expected = 5 / (1 + 4 + 0.25 + 1)
    assert calibrate.noise_precision(y, p) == pytest.approx(expected)
    assert calibrate.noise_precision(y, by_moments(p)) == pytest.approx(
        expected, rel=1e-6
    )


def test_recovers_the_noise_and_repairs_the_coverage():
    # Noise of standard deviation 0.5 on 2000 rows: the precision is known to
    # about sqrt(2 / 2000) = 3 %, somewhat less for the spread of the samples;
    # five times that.
    rng = np.random.default_rng(0)
    samples = 0.3 * rng.standard_normal((20, 2000))
    chosen = samples[rng.integers(20, size=2000), np.arange(2000)]
    p, y = cases.of_samples(samples), chosen + 0.5 * rng.standard_normal(2000)
    tau = calibrate.noise_precision(y, p)
    assert tau == pytest.approx(4.0, rel=0.15)
    assert metrics.interval_coverage(y, p, 0.9) < 0.75
    fitted = dataclasses.replace(p, head=Regression(tau))
    # Four standard deviations of a fraction near 0.9 over 2000 rows: 0.027.
    coverage = metrics.interval_coverage(y, fitted, 0.9)
    assert coverage == pytest.approx(0.9, abs=0.027)


@pytest.mark.parametrize("shape", [(60,), (30, 2)])
def test_by_moments(shape):
    p, y = cases.regression(shape)
    p = by_moments(dataclasses.replace(p, variance=p.variance / 10))

    def log_likelihood(tau):
        std = np.sqrt(p.variance + 1 / tau)
        return scipy.stats.norm.logpdf(y, p.mean, std).mean()

    tau = calibrate.noise_precision(y, p)
    assert tau == pytest.approx(best(log_likelihood), rel=1e-4)
    # It is the likelihood that a prediction by moments reports.
    nll = metrics.negative_log_likelihood
    at = nll(y, dataclasses.replace(p, head=Regression(tau)))
    for factor in (0.9, 1.1):
        other = dataclasses.replace(p, head=Regression(factor * tau))
        assert nll(y, other) > at


def test_units_do_not_matter():
    p, y = cases.regression((40,))
    tau = calibrate.noise_precision(y, p)
    scaled = cases.of_samples(1e4 * p.samples)
    assert calibrate.noise_precision(1e4 * y, scaled) == pytest.approx(
        tau / 1e8, rel=1e-5
    )


def test_no_noise_at_all():
    p, _ = cases.regression((5,))
    with pytest.raises(BayesdropError, match="sample is equal to every target"):
        calibrate.noise_precision(p.samples[0], p)
    with pytest.raises(BayesdropError, match="mean is equal to every target"):
        calibrate.noise_precision(p.mean, by_moments(p))
    with pytest.raises(BayesdropError, match="smaller than the variance"):
        calibrate.noise_precision(p.mean + 1e-3, by_moments(p))


def test_bad_input():
    p, y = cases.regression((5,))
    with pytest.raises(MissingSamplesError, match="return_samples=True"):
        calibrate.noise_precision(y, dataclasses.replace(p, samples=None))
    with pytest.raises(BayesdropError, match=r"`y`.*\(5,\).*\(4,\)"):
        calibrate.noise_precision(y[:4], p)
    with pytest.raises(NonFiniteError, match="1 values"):
        calibrate.noise_precision([np.nan, *y[1:]], p)
    with pytest.raises(BayesdropError, match="without examples"):
        calibrate.noise_precision([], p[:0])
    b = cases.predictive("binary", np.ones(2))
    with pytest.raises(BayesdropError, match="Received: task='binary'"):
        calibrate.noise_precision([1, 1], b)


def test_learned_noise_has_no_single_precision():
    samples = np.random.default_rng(0).normal(size=(5, 4, 1))
    p = Predictive.from_samples(
        samples, "heteroscedastic", noise_samples=np.exp(samples)
    )
    message = "is learned.*Expected .*'regression'. Received: .*Use `calibrate"
    with pytest.raises(BayesdropError, match=message):
        calibrate.noise_precision(np.zeros((4, 1)), p)
    # The means alone are a regression.
    means = p.without_noise()
    assert calibrate.noise_precision(np.zeros((4, 1)), means) > 0
