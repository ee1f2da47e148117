# SPDX-License-Identifier: Apache-2.0
"""The most likely observation noise, against a maximiser of SciPy."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from keras_bayesdrop.calibrate._noise_precision import fit_noise_precision


def _log_likelihood(samples, targets, log_tau):
    """Of the mixture, per row, by Gal's formula. Samples [T, rows, D]."""
    squared = ((samples - targets) ** 2).sum(axis=-1)
    dims = samples.shape[-1]
    logs = logsumexp(-0.5 * np.exp(log_tau) * squared, axis=0)
    constant = np.log(len(samples)) + dims / 2 * np.log(2 * np.pi)
    return np.mean(logs - constant + dims / 2 * log_tau)


def _best(samples, targets):
    """The log-precision of the greatest likelihood: a grid, then a search."""
    grid = np.linspace(-12, 18, 601)
    values = [_log_likelihood(samples, targets, t) for t in grid]
    near = grid[np.argmax(values)]
    return minimize_scalar(
        lambda t: -_log_likelihood(samples, targets, t),
        bounds=(near - 0.05, near + 0.05),
        method="bounded",
        options={"xatol": 1e-10},
    ).x


def _case(seed, num_samples, rows, dims, spread, noise, shift=0.0):
    rng = np.random.default_rng(seed)
    samples = spread * rng.normal(size=(num_samples, rows, dims))
    chosen = samples[rng.integers(num_samples, size=rows), np.arange(rows)]
    return samples, chosen + noise * rng.normal(size=(rows, dims)) + shift


@pytest.mark.parametrize(
    "case",
    [
        (0, 20, 50, 1, 1.0, 0.5),
        (1, 5, 30, 1, 3.0, 0.05),
        (2, 50, 100, 2, 1.0, 0.1),
        (3, 10, 10, 1, 0.1, 2.0, 5.0),
        (4, 2, 200, 3, 1.0, 1.0),
        (5, 100, 100, 1, 1.0, 0.3),
        # A likelihood with a long, flat rise: expectation maximisation crawls.
        (28, 55, 43, 1, 3.280212692268705, 0.19138011365252597),
    ],
)
def test_maximises_the_likelihood(case):
    samples, targets = _case(*case)
    best = _best(samples, targets)
    found = np.log(fit_noise_precision(samples, targets))
    # The precision to a part in a thousand; its likelihood is flat there.
    assert abs(found - best) < 1e-3
    gap = _log_likelihood(samples, targets, best) - _log_likelihood(
        samples, targets, found
    )
    assert -1e-9 < gap < 1e-6


@hypothesis.settings(max_examples=12)
@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    num_samples=st.integers(2, 40),
    rows=st.integers(3, 60),
    dims=st.integers(1, 3),
    noise=st.floats(0.02, 3.0),
)
def test_no_other_precision_is_likelier(seed, num_samples, rows, dims, noise):
    samples, targets = _case(seed, num_samples, rows, dims, 1.0, noise)
    found = np.log(fit_noise_precision(samples, targets))
    best = _best(samples, targets)
    gap = _log_likelihood(samples, targets, best) - _log_likelihood(
        samples, targets, found
    )
    assert gap < 1e-4, (np.exp(found), np.exp(best))


def test_equal_samples_have_the_closed_form():
    rng = np.random.default_rng(0)
    samples = np.repeat(rng.normal(size=(1, 40, 2)), 7, axis=0)
    targets = samples[0] + 0.3 * rng.normal(size=(40, 2))
    exact = 1 / np.mean((targets - samples[0]) ** 2)
    np.testing.assert_allclose(fit_noise_precision(samples, targets), exact)


def test_flat_targets_and_float32_are_taken():
    samples, targets = _case(0, 20, 50, 1, 1.0, 0.5)
    expected = fit_noise_precision(samples, targets)
    found = fit_noise_precision(samples.astype(np.float32), targets[:, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_scales_with_the_unit_of_the_targets():
    samples, targets = _case(0, 20, 50, 1, 1.0, 0.5)
    small = fit_noise_precision(samples, targets)
    large = fit_noise_precision(1000 * samples, 1000 * targets)
    # A maximum is found to the square root of the rounding of its height.
    np.testing.assert_allclose(large, small / 1e6, rtol=1e-6)


def test_targets_met_exactly_give_a_finite_precision():
    samples = np.zeros((3, 4, 1))
    assert np.isfinite(fit_noise_precision(samples, np.zeros((4, 1))))
