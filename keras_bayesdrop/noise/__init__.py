# SPDX-License-Identifier: Apache-2.0
"""Noise families: what a counter word does to a unit."""

from keras_bayesdrop.noise.additive_gaussian import AdditiveGaussian
from keras_bayesdrop.noise.alpha import Alpha
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.bernoulli import Bernoulli
from keras_bayesdrop.noise.gaussian import Gaussian

__all__ = ["AdditiveGaussian", "Alpha", "Bernoulli", "Gaussian", "Noise"]
