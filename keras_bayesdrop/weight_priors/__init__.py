# SPDX-License-Identifier: Apache-2.0
"""Priors of single weights, and the KL divergence of a Gaussian from them."""

from keras_bayesdrop.weight_priors.base import WeightPrior as WeightPrior
from keras_bayesdrop.weight_priors.gaussian import Gaussian as Gaussian
from keras_bayesdrop.weight_priors.get import get_prior as get_prior
from keras_bayesdrop.weight_priors.horseshoe import Horseshoe as Horseshoe
from keras_bayesdrop.weight_priors.log_uniform import LogUniform as LogUniform
from keras_bayesdrop.weight_priors.student_t import StudentT as StudentT
