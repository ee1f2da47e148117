# SPDX-License-Identifier: Apache-2.0
"""Theory of dropout: linear networks, geometric means, expected gradients.

Exact moments of linear networks, geometric means of an ensemble and their
bounds, expected gradients, the network that averages the ensemble, and closed
forms of logistic means. Users touch the names exported here. `consistency`
holds the statistics of units over masks that `diagnostics`, `callbacks` and
`plots` share. The room imports `moments`, `graph` with its surgery and `noise`,
and rooms below these.
"""

from keras_bayesdrop.theory._ensemble import (
    ensemble_network as ensemble_network,
)
from keras_bayesdrop.theory._geometric import nwgm as nwgm
from keras_bayesdrop.theory._geometric import (
    nwgm_approximation as nwgm_approximation,
)
from keras_bayesdrop.theory._geometric import nwgm_bounds as nwgm_bounds
from keras_bayesdrop.theory._geometric import wgm as wgm
from keras_bayesdrop.theory._geometric import wgm_bounds as wgm_bounds
from keras_bayesdrop.theory._gradients import (
    ExpectedGradient as ExpectedGradient,
)
from keras_bayesdrop.theory._gradients import (
    expected_gradient as expected_gradient,
)
from keras_bayesdrop.theory._linear import LinearMoments as LinearMoments
from keras_bayesdrop.theory._linear import linear_moments as linear_moments
from keras_bayesdrop.theory._logistic import logistic_mean as logistic_mean
from keras_bayesdrop.theory._logistic import logistic_slope as logistic_slope
