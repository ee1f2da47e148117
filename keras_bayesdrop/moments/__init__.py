# SPDX-License-Identifier: Apache-2.0
"""Moments of a dropout network in one pass, by a rule for each layer."""

from keras_bayesdrop.moments import rules as _rules
from keras_bayesdrop.moments.moments import Factor as Factor
from keras_bayesdrop.moments.moments import Matrix as Matrix
from keras_bayesdrop.moments.moments import Moments as Moments
from keras_bayesdrop.moments.moments import Outcome as Outcome
from keras_bayesdrop.moments.registry import register_rule as register_rule

del _rules
