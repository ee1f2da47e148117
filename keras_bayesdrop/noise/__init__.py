# SPDX-License-Identifier: Apache-2.0
"""Families of noise: the effect of a counter word on a unit or on weights.

`Noise` is the base of all, `Multiplicative` of the families that `MCDropout`
takes, and `get` finds those by name. `layer_noise` is the interface of layers
that own noise, `learned` has noise whose strength is a variable, `draws` draws
it by the counter contract, and `induced` has the priors of weights that noise
stands for. The names below may be used from anywhere, and `draws` by the rooms
that predict. The room imports `errors`, `_core` and `random`.
"""

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
from keras_bayesdrop.noise.layer_noise import NoiseSource
from keras_bayesdrop.noise.layer_noise import NoiseThenLayer
from keras_bayesdrop.noise.layer_noise import WeightNoise
from keras_bayesdrop.noise.layer_noise import WeightNoiseSource
from keras_bayesdrop.noise.learned import Concrete
from keras_bayesdrop.noise.learned import LearnedBernoulli
from keras_bayesdrop.noise.learned import LearnedGaussian
from keras_bayesdrop.noise.log_normal import LogNormal
from keras_bayesdrop.noise.mask_table import MaskTable
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.rayleigh import Rayleigh
from keras_bayesdrop.noise.uniform import Uniform

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
    "MaskTable",
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
