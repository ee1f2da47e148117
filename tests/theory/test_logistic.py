# SPDX-License-Identifier: Apache-2.0
"""Closed forms of logistic means, against fine integration."""

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.theory import logistic_mean
from keras_bayesdrop.theory import logistic_slope
from tests.moments.integration import moments_of_normal

MEANS, STDDEVS = np.meshgrid(
    np.linspace(-8, 8, 65), np.r_[0.05, np.linspace(0.1, 6, 60)]
)


def _truth(function, mean, stddev):
    return moments_of_normal(function, mean, stddev, points=4001)[0]


@pytest.mark.parametrize(
    ("form", "largest"), [("logistic", 0.0112), ("probit", 0.0095)]
)
def test_mean_eq_240_to_242(form, largest):
    exact = _truth(scipy.special.expit, MEANS, STDDEVS)
    approximate = logistic_mean(MEANS, STDDEVS**2, form=form)
    assert np.abs(approximate - exact).max() < largest
    assert np.abs(scipy.special.expit(MEANS) - exact).max() > 0.25


@pytest.mark.parametrize("form", ["logistic", "probit"])
def test_mean_with_gain_and_c_eq_239_to_241(form):
    """Gain and c are a scale and a shift of the input."""
    gain, c = 2.5, 0.4
    exact = _truth(
        lambda s: 1 / (1 + c * np.exp(-gain * s)), MEANS / 4, STDDEVS / 4
    )
    approximate = logistic_mean(MEANS / 4, (STDDEVS / 4) ** 2, gain, c, form)
    assert np.abs(approximate - exact).max() < 0.0112
    # As printed, the variance of eq. 239 lacks gain^2, and eq. 240 the root.
    shift = gain * MEANS / 4 - np.log(c)
    alpha = 1 / 1.702
    variance = (STDDEVS / 4) ** 2
    no_gain = scipy.special.expit(shift / np.sqrt(1 + alpha**2 * variance))
    no_root = scipy.special.ndtr(shift / (variance + alpha**-2))
    for printed in (no_gain, no_root):
        assert np.abs(printed - exact).max() > 0.1


@pytest.mark.parametrize("gain", [0.5, 1.0, 2.0, 4.0])
def test_slope_eq_223(gain):
    def slope(s):
        o = scipy.special.expit(gain * s)
        return gain * o * (1 - o)

    mean, stddev = np.meshgrid([-0.2, 0.0, 0.3], [0.05, 0.2, 0.4])
    mean, stddev = mean / gain, stddev / gain
    exact = _truth(slope, mean, stddev)
    approximate = np.asarray(logistic_slope(mean, stddev**2, gain))
    # Left out are terms of fourth order in the input, 0.5^4 / 48 at most here.
    np.testing.assert_allclose(approximate, exact, rtol=0.005)
    if gain != 1.0:
        assert np.abs(approximate / gain / exact - 1).min() > 0.4


def test_second_derivative_app_d():
    """The square of the gain, not the gain: what `logistic_slope` bends by."""
    gain, at, step = 2.5, 0.3, 1e-4
    sigma = [scipy.special.expit(gain * (at + n * step)) for n in (-1, 0, 1)]
    second = (sigma[0] - 2 * sigma[1] + sigma[2]) / step**2
    o = sigma[1]
    right = gain**2 * o * (1 - o) * (1 - 2 * o)
    np.testing.assert_allclose(second, right, rtol=1e-5)


def test_wrong_arguments():
    with pytest.raises(BayesdropError, match=r"`form`.*'probit'"):
        logistic_mean(0.0, 1.0, form="normal")
    with pytest.raises(BayesdropError, match=r"`gain`.*positive"):
        logistic_slope(0.0, 1.0, gain=0.0)
