# SPDX-License-Identifier: Apache-2.0
"""Noise families: what a counter word does to a unit."""

from keras_bayesdrop.noise.additive_gaussian import AdditiveGaussian
from keras_bayesdrop.noise.alpha import Alpha
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.bernoulli import Bernoulli
from keras_bayesdrop.noise.beta import Beta
from keras_bayesdrop.noise.centered_gaussian import CenteredGaussian
from keras_bayesdrop.noise.families import get
from keras_bayesdrop.noise.gaussian import Gaussian
from keras_bayesdrop.noise.half_cauchy import HalfCauchy
from keras_bayesdrop.noise.inverse_nakagami import InverseNakagami
from keras_bayesdrop.noise.learned import Concrete
from keras_bayesdrop.noise.learned import LearnedBernoulli
from keras_bayesdrop.noise.learned import LearnedGaussian
from keras_bayesdrop.noise.log_normal import LogNormal
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.rayleigh import Rayleigh
from keras_bayesdrop.noise.source import NoiseSource
from keras_bayesdrop.noise.source import NoiseThenLayer
from keras_bayesdrop.noise.source import WeightNoiseSource
from keras_bayesdrop.noise.uniform import Uniform
from keras_bayesdrop.noise.weights import WeightNoise

__all__ = [
    "AdditiveGaussian",
    "Alpha",
    "Bernoulli",
    "Beta",
    "CenteredGaussian",
    "Concrete",
    "Gaussian",
    "HalfCauchy",
    "InverseNakagami",
    "LearnedBernoulli",
    "LearnedGaussian",
    "LogNormal",
    "Multiplicative",
    "Noise",
    "NoiseSource",
    "NoiseThenLayer",
    "Rayleigh",
    "Uniform",
    "WeightNoise",
    "WeightNoiseSource",
    "get",
]
