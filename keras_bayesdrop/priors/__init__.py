# SPDX-License-Identifier: Apache-2.0
"""Priors of weights, and of the scales that groups of weights share."""

from keras_bayesdrop.priors.base import ScalePrior as ScalePrior
from keras_bayesdrop.priors.half_cauchy import HalfCauchy as HalfCauchy
from keras_bayesdrop.priors.inverse_gamma import InverseGamma as InverseGamma
from keras_bayesdrop.priors.log_uniform import LogUniform as LogUniform
from keras_bayesdrop.priors.lookup import get as get
from keras_bayesdrop.priors.mixture import mixture_kl as mixture_kl
from keras_bayesdrop.priors.structures import GroupScales as GroupScales
from keras_bayesdrop.priors.structures import (
    structured_scales as structured_scales,
)
