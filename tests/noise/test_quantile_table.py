# SPDX-License-Identifier: Apache-2.0
"""Tables of inverse CDFs, against the special functions of SciPy."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from keras_bayesdrop.noise import Beta
from keras_bayesdrop.noise import InverseNakagami
from keras_bayesdrop.noise._quantile_table import logit
from keras_bayesdrop.noise.beta import _logit_table
from tests.noise.cases import uniforms
from tests.noise.cases import words

U = uniforms(words(5000))


@pytest.mark.parametrize(
    "a, b",
    [
        (0.01, 0.01),
        (0.02, 5.0),
        (0.1, 0.4),
        (0.5, 0.5),
        (1.0, 1.0),
        (1.0, 1e-2),
        (2.0, 3.0),
        (30.0, 0.2),
        (1e3, 2e3),
        (1e6, 1e6),
        (1e6, 0.5),
    ],
)
def test_beta(a, b):
    x = Beta(a, b).quantile(tf.constant(U)).numpy()
    # Rising: strictly in the log-odds, and in x but for the last bit of the
    # sigmoid, which differs between the lanes of a vector and its rest.
    rising = np.sort(U)
    assert np.all(np.diff(_logit_table(a, b)(logit(tf.constant(rising)))) > 0)
    assert np.all(np.diff(x[np.argsort(U)]) >= -(2.0**-52))
    # Below the smallest number, or next to 1, what x stands for is lost.
    kept = (x > 1e-300) & (x < 1 - 1e-9)
    probabilities = scipy.special.betainc(a, b, x[kept])
    # The largest error of the table itself is 4e-8. Beside it, x in float64
    # next to 1 (by 1e-9) has a relative error of 1e-7 in 1 - x.
    np.testing.assert_allclose(probabilities, U[kept], rtol=0, atol=2e-7)
    # Where the inverse of SciPy has converged, x itself: the density there is
    # what turns one error into the other.
    expected = scipy.special.betaincinv(a, b, U)
    middle = kept & (U > 0.01) & (U < 0.99) & (expected > 1e-200)
    log_odds = scipy.special.logit(expected[middle])
    with np.errstate(all="ignore"):
        slope = np.exp(
            a * scipy.special.log_expit(log_odds)
            + b * scipy.special.log_expit(-log_odds)
            - scipy.special.betaln(a, b)
        )
    error = np.abs(scipy.special.logit(x[middle]) - log_odds) * slope
    assert np.all(error < 1e-6)


def test_uniform_and_arcsine_have_formulas():
    np.testing.assert_allclose(
        Beta(1.0, 1.0).quantile(tf.constant(U)), U, rtol=1e-8
    )
    # 1 - sin(t)^2 loses what is below 1e-16 of it.
    np.testing.assert_allclose(
        Beta(0.5, 0.5).quantile(tf.constant(U)),
        np.sin(0.5 * np.pi * U) ** 2,
        rtol=1e-7,
    )


@pytest.mark.parametrize("a", [0.05, 0.5, 0.6, 1.0, 3.0, 200.0, 1e6])
def test_inverse_nakagami(a):
    x = InverseNakagami(a, 2.0).quantile(tf.constant(U)).numpy()
    assert np.all(np.isfinite(x)) and np.all(np.diff(x[np.argsort(U)]) > 0)
    # P(xi < x) = P(gamma > 2 / x^2), precise where it is small.
    below = scipy.special.gammaincc(a, 2.0 / x**2)
    above = scipy.special.gammainc(a, 2.0 / x**2)
    kept = 2.0 / x**2 > 1e-300
    low = U < 0.5
    # The table is good to 1e-8; at a = 1e6 SciPy to about that.
    np.testing.assert_allclose(below[low & kept], U[low & kept], rtol=1e-6)
    high = ~low & kept
    np.testing.assert_allclose(above[high], 1 - U[high], rtol=1e-6)
