# SPDX-License-Identifier: Apache-2.0
"""Priors of weights, and of the scales that groups of weights share.

A `WeightPrior` gives the KL divergence of a Gaussian weight from it; a
`ScalePrior` gives the scale that explains a group of weights best. `get` finds
both by name. `structured_scales` finds the best scales of a matrix, and
`mixture_kl` is the KL divergence that dropout stands for. The names below may
be used from anywhere. Layers and regularizers also use `structures`. The room
imports `errors`, `_core`, and no other room. Priors that noise induces are in
`noise.induced`.
"""

from keras_bayesdrop.priors._lookup import get as get
from keras_bayesdrop.priors.base import ScalePrior as ScalePrior
from keras_bayesdrop.priors.base import WeightPrior as WeightPrior
from keras_bayesdrop.priors.dropout_mixture import mixture_kl as mixture_kl
from keras_bayesdrop.priors.gaussian_prior import GaussianPrior as GaussianPrior
from keras_bayesdrop.priors.half_cauchy_scale import (
    HalfCauchyScale as HalfCauchyScale,
)
from keras_bayesdrop.priors.horseshoe_prior import (
    HorseshoePrior as HorseshoePrior,
)
from keras_bayesdrop.priors.inverse_gamma_scale import (
    InverseGammaScale as InverseGammaScale,
)
from keras_bayesdrop.priors.log_uniform_prior import (
    LogUniformPrior as LogUniformPrior,
)
from keras_bayesdrop.priors.log_uniform_scale import (
    LogUniformScale as LogUniformScale,
)
from keras_bayesdrop.priors.structures import GroupScales as GroupScales
from keras_bayesdrop.priors.structures import (
    structured_scales as structured_scales,
)
from keras_bayesdrop.priors.student_t_prior import (
    StudentTPrior as StudentTPrior,
)
