# SPDX-License-Identifier: Apache-2.0
"""Coverage, width and score of intervals; pinball loss; sharpness."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import sklearn.metrics

from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from tests.metrics import cases


@pytest.mark.parametrize("tau", [None, 4.0])
@pytest.mark.parametrize("shape", [(30,), (10, 3)])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_of_a_predictive_are_those_of_its_interval(tau, shape, level):
    p, y = cases.regression(shape, tau)
    lower, upper = p.interval(level)
    rows = list(zip(lower.flat, upper.flat, y.flat, strict=True))
    inside = [a <= t <= b for a, b, t in rows]
    assert 0 < np.mean(inside) < 1
    assert metrics.interval_coverage(y, p, level) == np.mean(inside)
    widths = [b - a for a, b, _ in rows]
    assert metrics.interval_width(p, level) == pytest.approx(np.mean(widths))
    fines = [
        (b - a) + 2 / (1 - level) * (a - t if t < a else max(t - b, 0))
        for a, b, t in rows
    ]
    score = metrics.interval_score(y, p, level)
    assert score == pytest.approx(np.mean(fines))
    assert metrics.interval_score(y, (lower, upper), level) == score


def test_score_is_the_pinball_loss_of_both_ends():
    # Gneiting and Raftery, section 6.2: the score at level 1 - alpha is
    # 2 / alpha times the sum of the losses at alpha / 2 and 1 - alpha / 2.
    p, y = cases.regression((30,), 4.0)
    losses = metrics.pinball_loss(y, p, [0.1, 0.9])
    score = metrics.interval_score(y, p, 0.8)
    assert score == pytest.approx(2 * 2 / 0.2 * losses)


def test_of_arrays():
    ends = ([0.0, 1.0], [1.0, 3.0])
    assert metrics.interval_coverage([0.0, 3.0], ends) == 1.0
    assert metrics.interval_coverage([[-0.1], [3.1]], ends) == 0.0
    assert metrics.interval_width(ends) == 1.5
    everything = ([-np.inf], [np.inf])
    assert metrics.interval_coverage([7.0], everything) == 1.0
    assert metrics.interval_width(everything) == np.inf


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_pinball_loss_against_scikit_learn(q):
    p, y = cases.regression((30,))
    quantile = np.quantile(p.samples, q, axis=0)
    expected = sklearn.metrics.mean_pinball_loss(y, quantile, alpha=q)
    assert metrics.pinball_loss(y, p, q) == pytest.approx(expected)
    assert metrics.pinball_loss(y, quantile, q) == pytest.approx(expected)


def test_pinball_loss_of_several_levels_is_their_mean():
    p, y = cases.regression((10, 2))
    levels = [0.2, 0.7]
    each = [metrics.pinball_loss(y, p, q) for q in levels]
    assert metrics.pinball_loss(y, p, levels) == pytest.approx(np.mean(each))
    quantiles = np.quantile(p.samples, levels, axis=0)
    assert metrics.pinball_loss(y, quantiles, levels) == pytest.approx(
        np.mean(each)
    )


def test_pinball_loss_with_noise_and_without_samples():
    p, y = cases.regression((30,), 4.0)
    # The quantile of the mixture, by a root of its distribution function.
    quantile = [
        scipy.optimize.brentq(
            lambda z, x=x: scipy.stats.norm.cdf(z, x, 0.5).mean() - 0.3, -9, 9
        )
        for x in p.samples.T
    ]
    expected = sklearn.metrics.mean_pinball_loss(y, quantile, alpha=0.3)
    assert metrics.pinball_loss(y, p, 0.3) == pytest.approx(expected)
    for tau, noise in ((4.0, 0.25), (None, 0.0)):
        p, y = cases.regression((30,), tau, keep=False)
        normal = scipy.stats.norm(p.mean, np.sqrt(p.variance + noise)).ppf(0.3)
        expected = sklearn.metrics.mean_pinball_loss(y, normal, alpha=0.3)
        assert metrics.pinball_loss(y, p, 0.3) == pytest.approx(expected)


def test_sharpness():
    p, _ = cases.regression((30,), 4.0)
    variance = [np.var(x, ddof=1) + 0.25 for x in p.samples.T]
    assert metrics.sharpness(p) == pytest.approx(np.sqrt(np.mean(variance)))
    p, _ = cases.regression((10, 3))
    expected = np.sqrt(np.mean(np.var(p.samples, axis=0, ddof=1)))
    assert metrics.sharpness(p) == pytest.approx(expected)
    assert metrics.sharpness(p.std) == pytest.approx(expected)
    assert metrics.sharpness([0.0]) == 0.0


@pytest.mark.parametrize(
    "score", [metrics.interval_coverage, metrics.interval_score]
)
def test_bad_intervals(score):
    with pytest.raises(BayesdropError, match=r"`y`.*\(1,\).*\(2,\)"):
        score([0.0, 1.0], ([0.0], [1.0]))
    with pytest.raises(BayesdropError, match="not above the upper"):
        score([0.0], ([1.0], [0.0]))
    with pytest.raises(BayesdropError, match=r"\(1,\) and \(2,\)"):
        score([0.0], ([1.0], [1.0, 2.0]))
    with pytest.raises(NonFiniteError, match="1 values that are NaN"):
        score([0.0], ([np.nan], [0.0]))
    with pytest.raises(BayesdropError, match=r"pair.*Received: ndarray"):
        score([0.0], np.zeros((2, 1)))
    with pytest.raises(BayesdropError, match="at least one example"):
        score([], ([], []))
    p, y = cases.regression()
    for level in (0, 1, np.nan, 90):
        with pytest.raises(BayesdropError, match=r"`level`.*\(0, 1\)"):
            score(y, p, level)


def test_bad_level_of_arrays():
    with pytest.raises(BayesdropError, match=r"`level`.*'a'"):
        metrics.interval_score([0.0], ([0.0], [1.0]), "a")


def test_bad_quantiles_and_standard_deviations():
    with pytest.raises(BayesdropError, match=r"`q`.*\(0, 1\).*q=1.0"):
        metrics.pinball_loss([0.0], [0.0], 1.0)
    with pytest.raises(BayesdropError, match=r"1 arrays for 2 levels"):
        metrics.pinball_loss([0.0], [[0.0]], [0.1, 0.2])
    with pytest.raises(BayesdropError, match=r"at least one level"):
        metrics.pinball_loss(np.zeros(20), cases.regression()[0], [])
    with pytest.raises(NonFiniteError, match="`prediction`"):
        metrics.pinball_loss([0.0], [np.nan])
    with pytest.raises(BayesdropError, match=r"not negative.*-1.0 to 2.0"):
        metrics.sharpness([-1.0, 2.0])
    with pytest.raises(NonFiniteError, match="`prediction`"):
        metrics.sharpness([np.nan])
    p = cases.predictive("binary", np.ones(2))
    for call in (
        lambda: metrics.sharpness(p),
        lambda: metrics.pinball_loss([1, 1], p),
        lambda: metrics.interval_width(p),
    ):
        with pytest.raises(BayesdropError, match="Received: task='binary'"):
            call()


def test_energy_needs_samples():
    p, y = cases.regression((4, 2), keep=False)
    with pytest.raises(MissingSamplesError, match="return_samples=True"):
        metrics.energy_score(y, p)
