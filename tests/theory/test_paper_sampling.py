# SPDX-License-Identifier: Apache-2.0
"""Mean and NWGM of a sample of outputs (section 9.4), over all samples.

`O` has mean `E` and variance `V`; a sample of `m` outputs has `E_S`, `V_S` and
`NWGM_S`.
"""

import itertools

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop.theory import nwgm

SAMPLES, SIZE = 10_000, 100
LOPSIDED = ([0.1, 0.35, 0.8], [0.5, 0.2, 0.3])
EVEN = ([0.1, 0.4, 0.6, 0.9], [0.3, 0.2, 0.2, 0.3])


def _all_samples(values, chances, size=4):
    """E_S, V_S and NWGM_S of every sample, and the mean over samples."""
    draws = np.array(list(itertools.product(range(len(values)), repeat=size)))
    probability = np.prod(np.asarray(chances)[draws], axis=1)
    outputs = np.asarray(values)[draws]
    return (
        outputs.mean(1),
        outputs.var(1),
        np.asarray(nwgm(outputs, axis=1)),
        lambda each: float(probability @ each),
    )


def _covariance(mean, a, b):
    return mean((a - mean(a)) * (b - mean(b)))


def test_eq_105_the_covariance_is_taken_off():
    e, _, n, mean = _all_samples(*LOPSIDED)
    exact = _covariance(mean, e - n, e - n)
    parts = _covariance(mean, e, e) + _covariance(mean, n, n)
    both = 2 * _covariance(mean, e, n)
    np.testing.assert_allclose(parts - both, exact, rtol=1e-10)
    # As printed, added: many times too much.
    assert parts + both > 100 * exact


def _guess(e, v):
    """The NWGM to second order around one half."""
    return (e - v) / (1 - 2 * v)


def test_eq_106_has_the_mean_of_the_sample():
    e, v, _, mean = _all_samples(*EVEN)
    np.testing.assert_allclose(mean(e), 0.5, rtol=1e-12)
    exact = mean((_guess(e, v) - 0.5) * (e - 0.5))
    right = mean((e - 0.5) ** 2 / (1 - 2 * v))
    np.testing.assert_allclose(right, exact, rtol=1e-12)
    # As printed, with E in place of E_S, it is zero.
    assert exact > 0.01


def test_eq_107_has_a_third_term():
    values, chances = (np.asarray(each) for each in LOPSIDED)
    e, v, _, mean = _all_samples(values, chances)
    center = chances @ values
    spread = chances @ (values - center) ** 2
    off = e - center
    exact = mean((_guess(e, v) - _guess(center, spread)) * off)
    below = (1 - 2 * v) * (1 - 2 * spread)
    printed = off**2 + (spread - v) * off
    missing = 2 * off * (center * v - spread * e)
    right = mean((printed + missing) / below)
    np.testing.assert_allclose(right, exact, rtol=1e-12)
    assert abs(mean(printed / below) / exact - 1) > 0.1


def _normal(center, stddev):
    return lambda u: center + stddev * scipy.special.ndtri(u)


@pytest.mark.parametrize(
    ("quantile", "at_least"),
    [
        (lambda u: u, 7),
        (lambda u: u / 2, 5),
        (_normal(0.5, 0.1), 50),
        (_normal(0.25, 0.05), 100),
    ],
)
def test_eq_108_is_many_times_too_large_without_the_covariance(
    quantile, at_least
):
    """The four distributions of figure 9.2.

    To first order in `1 / m`, with `S = logit(O)` and the slope `t` at its
    mean, `E_S - NWGM_S` is a mean of `m` terms `O - t S`.
    """
    levels = (np.arange(400_000) + 0.5) / 400_000
    outputs = quantile(levels)
    inputs = scipy.special.logit(outputs)
    middle = scipy.special.expit(inputs.mean())
    first_order = np.var(outputs - middle * (1 - middle) * inputs) / SIZE

    rng = np.random.default_rng(0)
    drawn = quantile(rng.choice(levels, (SAMPLES, SIZE)))
    e = drawn.mean(1)
    n = scipy.special.expit(scipy.special.logit(drawn).mean(1))
    variance = np.var(e - n)
    # A variance of 10,000 draws that are near normal has a standard error of
    # 1.4 %; the next order is 1 / m, times the kurtosis.
    np.testing.assert_allclose(variance, first_order, rtol=0.12)
    printed = np.var(e) + np.var(n)
    assert printed > at_least * variance
    assert np.corrcoef(e, n)[0, 1] > 0.9
