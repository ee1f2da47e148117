# SPDX-License-Identifier: Apache-2.0
"""Conformal intervals of a network that has learned its noise."""

import dataclasses

import numpy as np
import pytest

from keras_bayesdrop import calibrate
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats
from tests.calibrate.conformal_cases import LEVEL
from tests.calibrate.conformal_cases import TOLERANCE
from tests.calibrate.conformal_cases import in_interval
from tests.calibrate.conformal_cases import mean_coverage


def learned_noise(rng, rows, outputs=(2,), too_small=4.0):
    """Noise that grows to tenfold, of which the network knows the shape."""
    scale = rng.uniform(0.5, 5.0, (rows, *outputs))
    mean = rng.standard_normal((rows, *outputs))
    samples = mean + 0.1 * rng.standard_normal((8, rows, *outputs))
    variance = scale**2 / too_small
    spread = np.exp(0.1 * rng.standard_normal((8, rows, *outputs)))
    p = Predictive.from_samples(
        samples, "heteroscedastic", noise_samples=variance * spread
    )
    return p, mean + scale * rng.standard_normal((rows, *outputs))


def by_moments(p):
    """The same without samples."""
    return dataclasses.replace(
        p,
        samples=None,
        noise_samples=None,
        stats=Stats(num_samples=0, num_rows=len(p), method="moments"),
    )


@pytest.mark.parametrize("method", [None, "normalized", "absolute", "quantile"])
@pytest.mark.parametrize("sampled", [True, False])
def test_intervals_cover(method, sampled):
    def case(rng, rows):
        # Outputs of one row depend on each other, which would widen the
        # tolerance.
        p, y = learned_noise(rng, rows, outputs=())
        return (p if sampled else by_moments(p)), y

    coverage = mean_coverage(case, in_interval, method=method)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)


@pytest.mark.parametrize("sampled", [True, False])
def test_widths_are_those_of_the_learned_noise(sampled):
    p, y = learned_noise(np.random.default_rng(0), 400)
    p = p if sampled else by_moments(p)
    fit = calibrate.conformal(y, p)
    assert fit.method == "normalized"
    total = p.variance + p.noise_variance
    scores = np.sort(np.abs(y - p.mean) / np.sqrt(total), axis=0)
    np.testing.assert_allclose(fit.threshold, scores[360], rtol=1e-12)
    lower, upper = fit.intervals(p)
    np.testing.assert_allclose(
        upper - lower, 2 * fit.threshold * np.sqrt(total), rtol=1e-12
    )
    # The noise is twice as large as learned: 2 * 1.645 instead of 1.645.
    # At 0.9 a quantile of 400 rows scatters by 5 %; four of these.
    np.testing.assert_allclose(fit.threshold, 3.29, rtol=0.2)


def test_groups_have_intervals_of_their_own():
    p, y = learned_noise(np.random.default_rng(0), 200)
    group = np.arange(200) % 2
    fit = calibrate.conformal(y, p, groups=group)
    for g in range(2):
        alone = calibrate.conformal(y[group == g], p[group == g])
        np.testing.assert_array_equal(fit.threshold[g], alone.threshold)
