# SPDX-License-Identifier: Apache-2.0
"""The result of a prediction, in NumPy alone."""

from keras_bayesdrop.predictive.result import ROW_AXES as ROW_AXES
from keras_bayesdrop.predictive.result import Predictive as Predictive
from keras_bayesdrop.predictive.stats import EngineStep as EngineStep
from keras_bayesdrop.predictive.stats import Stats as Stats
