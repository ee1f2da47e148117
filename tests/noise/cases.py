# SPDX-License-Identifier: Apache-2.0
"""Noise of every family, and the same in SciPy."""

import numpy as np
import scipy.stats

from keras_bayesdrop import noise
from tests.random.test_rng import philox_words


class InverseNakagami:
    """The root of an inverse gamma variable, by that of SciPy."""

    def __init__(self, a, b):
        self.square = scipy.stats.invgamma(a, scale=b)

    def ppf(self, u):
        return np.sqrt(self.square.ppf(u))

    def pdf(self, x):
        return 2 * np.maximum(x, 0) * self.square.pdf(x * x)

    def cdf(self, x):
        return np.where(x > 0, self.square.cdf(x * x), 0.0)


# A name, the noise, and the distribution of `xi` in SciPy.
CONTINUOUS = (
    ("gaussian", noise.Gaussian(0.2), scipy.stats.norm(1, 0.5)),
    (
        "centered_gaussian",
        noise.CenteredGaussian(1.3),
        scipy.stats.norm(0, 1.3),
    ),
    ("rayleigh", noise.Rayleigh(0.8), scipy.stats.rayleigh(scale=0.8)),
    (
        "inverse_nakagami",
        noise.InverseNakagami(2.5, 1.5),
        InverseNakagami(2.5, 1.5),
    ),
    ("half_cauchy", noise.HalfCauchy(0.6), scipy.stats.halfcauchy(scale=0.6)),
    ("beta", noise.Beta(0.7, 1.9), scipy.stats.beta(0.7, 1.9)),
    ("uniform", noise.Uniform(-0.5, 2.0), scipy.stats.uniform(-0.5, 2.5)),
    (
        "log_normal",
        noise.LogNormal(0.3, 0.6),
        scipy.stats.lognorm(0.6, scale=np.exp(0.3)),
    ),
)
# Those that a layer takes.
LAYER_NOISE = tuple(
    case for case in CONTINUOUS if case[0] != "centered_gaussian"
)


def uniforms(words):
    """The number in (0, 1) that a word stands for."""
    return (words.astype(np.float64) + 0.5) / 2**32


def words(count=2000):
    """Words of a prediction, and those at both ends."""
    ends = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32)
    drawn = philox_words(3, 1, range(16), range(1), -(-count // 16)).ravel()
    return np.concatenate([ends, drawn[:count]])
