# SPDX-License-Identifier: Apache-2.0
"""The priors that multiplicative noise induces on a weight."""

from keras_bayesdrop.noise.induced.base import InducedPrior as InducedPrior
from keras_bayesdrop.noise.induced.horseshoe import Horseshoe as Horseshoe
from keras_bayesdrop.noise.induced.nodes import logit_nodes as logit_nodes
from keras_bayesdrop.noise.induced.nodes import unit_interval as unit_interval
from keras_bayesdrop.noise.induced.normal_product import (
    NormalProduct as NormalProduct,
)
from keras_bayesdrop.noise.induced.scale_mixture import (
    ScaleMixture as ScaleMixture,
)
from keras_bayesdrop.noise.induced.spike_and_slab import (
    SpikeAndSlab as SpikeAndSlab,
)
from keras_bayesdrop.noise.induced.squared_noise import (
    SquaredNoise as SquaredNoise,
)
