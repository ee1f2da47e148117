# SPDX-License-Identifier: Apache-2.0
"""Predictions of dropout networks without sampling: moments in one pass."""

from keras_bayesdrop.analytic import rules as _rules
from keras_bayesdrop.analytic.moments import Factor as Factor
from keras_bayesdrop.analytic.moments import Matrix as Matrix
from keras_bayesdrop.analytic.moments import Moments as Moments
from keras_bayesdrop.analytic.moments import Outcome as Outcome
from keras_bayesdrop.analytic.registry import register_rule as register_rule

del _rules
