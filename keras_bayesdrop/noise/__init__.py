# SPDX-License-Identifier: Apache-2.0
"""Noise families: what a counter word does to a unit."""

from keras_bayesdrop.noise.additive_gaussian import AdditiveGaussian
from keras_bayesdrop.noise.alpha import Alpha
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.bernoulli import Bernoulli
from keras_bayesdrop.noise.gaussian import Gaussian
from keras_bayesdrop.noise.learned import Concrete
from keras_bayesdrop.noise.learned import LearnedBernoulli
from keras_bayesdrop.noise.learned import LearnedGaussian
from keras_bayesdrop.noise.source import NoiseSource
from keras_bayesdrop.noise.source import NoiseThenLayer
from keras_bayesdrop.noise.source import WeightNoiseSource
from keras_bayesdrop.noise.weights import WeightNoise

__all__ = [
    "AdditiveGaussian",
    "Alpha",
    "Bernoulli",
    "Concrete",
    "Gaussian",
    "LearnedBernoulli",
    "LearnedGaussian",
    "Noise",
    "NoiseSource",
    "NoiseThenLayer",
    "WeightNoise",
    "WeightNoiseSource",
]
