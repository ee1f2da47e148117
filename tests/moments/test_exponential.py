# SPDX-License-Identifier: Apache-2.0
"""The mean of a clipped exponential of a normal value, against quadrature."""

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.moments.exponential import mean_exponential

MEANS = (-90.0, -21.0, -20.0, -5.0, 0.0, 1.5, 19.0, 20.0, 23.0, 90.0)
STDS = (0.0, 1e-6, 0.05, 1.0, 4.0, 30.0, 200.0)


def by_quadrature(mean, std, limit):
    """Integrates piece by piece, where the integrand has one bump each."""
    if std == 0:
        return np.exp(np.clip(mean, -limit, limit))

    def integrand(s):
        # In logs: exp(s) times a density that may be tiny.
        log_density = scipy.stats.norm.logpdf(s, mean, std)
        return np.exp(np.clip(s, -limit, limit) + log_density)

    # Around the mean, and around that of `exp(s)` times the density.
    centres = (mean, mean + std**2)
    points = sorted(
        {-limit, limit}
        | {c + n * std for c in centres for n in (-40, -8, -2, 0, 2, 8, 40)}
    )
    low, high = mean - 40 * std, max(mean + 40 * std, limit + 40 * std)
    points = [low, *(p for p in points if low < p < high), high]
    return sum(
        scipy.integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in itertools.pairwise(points)
        if a < b
    )


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("limit", [0.3, 3.0, 20.0, 80.0])
@pytest.mark.parametrize("std", STDS)
def test_against_quadrature(std, limit):
    means = np.array(MEANS)
    computed = mean_exponential(
        tf.constant(means),
        tf.fill(means.shape, tf.constant(std**2, "double")),
        limit,
    ).numpy()
    expected = [by_quadrature(mean, std, limit) for mean in means]
    # A small part of 1e-17 of a tail may be lost beside a large one.
    np.testing.assert_allclose(computed, expected, rtol=1e-8)


def test_far_limits_are_no_limits():
    mean, variance = tf.constant([-3.0, 0.0, 2.0]), tf.constant([0.1, 1.0, 2.0])
    np.testing.assert_allclose(
        mean_exponential(mean, variance, 80.0),
        np.exp(mean + variance / 2),
        rtol=1e-6,
    )


def test_result_lies_within_the_limits_in_float32():
    mean = tf.constant([-3e38, -1e5, 0.0, 1e5, 3e38, 0.0, 0.0])
    variance = tf.constant([0.0, 1.0, 3e38, 1e-38, 3e38, 1e10, 1e-40])
    values = mean_exponential(mean, variance, 20.0).numpy()
    assert values.dtype == "float32"
    assert np.isfinite(values).all()
    assert (values >= np.exp(-20.0) * (1 - 1e-6)).all()
    assert (values <= np.exp(20.0) * (1 + 1e-6)).all()
    # Half of a huge spread is clipped to either end.
    assert values[2] == pytest.approx(np.exp(20.0) / 2, rel=1e-6)
    assert values[-1] == 1.0


def test_grows_with_mean_and_without_jumps():
    """Over the borders between the cases."""
    mean = np.linspace(-60, 60, 20_001)
    for std in (0.3, 2.0, 6.0):
        values = mean_exponential(
            tf.constant(mean),
            tf.fill(mean.shape, tf.constant(std**2, "double")),
            20.0,
        ).numpy()
        steps = np.diff(np.log(values))
        # The slope of log E exp(clip(s)) is from 0 to 1.
        width = mean[1] - mean[0]
        assert (steps >= -1e-12).all()
        assert (steps <= width * (1 + 1e-6)).all()
