# SPDX-License-Identifier: Apache-2.0
"""Dropout theory: linear networks, geometric means, expected gradients."""

from keras_bayesdrop.theory.ensemble import ensemble_network as ensemble_network
from keras_bayesdrop.theory.geometric import nwgm as nwgm
from keras_bayesdrop.theory.geometric import (
    nwgm_approximation as nwgm_approximation,
)
from keras_bayesdrop.theory.geometric import nwgm_bounds as nwgm_bounds
from keras_bayesdrop.theory.geometric import wgm as wgm
from keras_bayesdrop.theory.geometric import wgm_bounds as wgm_bounds
from keras_bayesdrop.theory.gradients import (
    ExpectedGradient as ExpectedGradient,
)
from keras_bayesdrop.theory.gradients import (
    expected_gradient as expected_gradient,
)
from keras_bayesdrop.theory.linear import LinearMoments as LinearMoments
from keras_bayesdrop.theory.linear import linear_moments as linear_moments
from keras_bayesdrop.theory.logistic import logistic_mean as logistic_mean
from keras_bayesdrop.theory.logistic import logistic_slope as logistic_slope
