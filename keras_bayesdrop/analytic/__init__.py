# SPDX-License-Identifier: Apache-2.0
"""Dropout networks without sampling: moments in one pass, and a toolbox."""

from keras_bayesdrop.analytic import rules as _rules
from keras_bayesdrop.analytic.ensemble import (
    ensemble_network as ensemble_network,
)
from keras_bayesdrop.analytic.geometric import nwgm as nwgm
from keras_bayesdrop.analytic.geometric import (
    nwgm_approximation as nwgm_approximation,
)
from keras_bayesdrop.analytic.geometric import nwgm_bounds as nwgm_bounds
from keras_bayesdrop.analytic.geometric import wgm as wgm
from keras_bayesdrop.analytic.geometric import wgm_bounds as wgm_bounds
from keras_bayesdrop.analytic.gradients import (
    ExpectedGradient as ExpectedGradient,
)
from keras_bayesdrop.analytic.gradients import (
    expected_gradient as expected_gradient,
)
from keras_bayesdrop.analytic.linear import LinearMoments as LinearMoments
from keras_bayesdrop.analytic.linear import linear_moments as linear_moments
from keras_bayesdrop.analytic.logistic import logistic_mean as logistic_mean
from keras_bayesdrop.analytic.logistic import logistic_slope as logistic_slope
from keras_bayesdrop.analytic.moments import Factor as Factor
from keras_bayesdrop.analytic.moments import Matrix as Matrix
from keras_bayesdrop.analytic.moments import Moments as Moments
from keras_bayesdrop.analytic.moments import Outcome as Outcome
from keras_bayesdrop.analytic.registry import register_rule as register_rule

del _rules
