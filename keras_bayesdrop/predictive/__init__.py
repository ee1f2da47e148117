# SPDX-License-Identifier: Apache-2.0
"""The result of a prediction, in NumPy alone."""

from keras_bayesdrop.predictive.heads import Binary as Binary
from keras_bayesdrop.predictive.heads import Classification as Classification
from keras_bayesdrop.predictive.heads import Head as Head
from keras_bayesdrop.predictive.heads import Regression as Regression
from keras_bayesdrop.predictive.result import Predictive as Predictive
from keras_bayesdrop.predictive.rows import ROW_AXES as ROW_AXES
from keras_bayesdrop.predictive.stats import EngineStep as EngineStep
from keras_bayesdrop.predictive.stats import Stats as Stats
