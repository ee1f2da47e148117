# SPDX-License-Identifier: Apache-2.0
"""The priors that multiplicative noise induces on a weight.

A Gaussian weight times noise has a distribution of its own: its density has a
closed form for some families, and is integrated numerically for the others.
`base` also has the distribution of squared noise. Only the families in `noise`
use this package; users reach it by `marginal_prior` and `variance_prior`. It
imports `_core`, `random` and `noise.multiplicative`.
"""

from keras_bayesdrop.noise.induced.base import InducedPrior as InducedPrior
from keras_bayesdrop.noise.induced.base import SquaredNoise as SquaredNoise
from keras_bayesdrop.noise.induced.closed_form import Horseshoe as Horseshoe
from keras_bayesdrop.noise.induced.closed_form import (
    NormalProduct as NormalProduct,
)
from keras_bayesdrop.noise.induced.closed_form import (
    SpikeAndSlab as SpikeAndSlab,
)
from keras_bayesdrop.noise.induced.quadrature import (
    IntegratedNoise as IntegratedNoise,
)
from keras_bayesdrop.noise.induced.quadrature import (
    ScaleMixture as ScaleMixture,
)
from keras_bayesdrop.noise.induced.quadrature import logit_nodes as logit_nodes
from keras_bayesdrop.noise.induced.quadrature import (
    unit_interval as unit_interval,
)
