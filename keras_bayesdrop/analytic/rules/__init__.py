# SPDX-License-Identifier: Apache-2.0
"""Rules that take moments through layers: importing them registers them."""

from keras_bayesdrop.analytic.rules.activation import activation as activation
from keras_bayesdrop.analytic.rules.conv import conv as conv
from keras_bayesdrop.analytic.rules.dense import dense as dense
from keras_bayesdrop.analytic.rules.max_pooling import (
    max_pooling as max_pooling,
)
from keras_bayesdrop.analytic.rules.merging import add as add
from keras_bayesdrop.analytic.rules.normalization import (
    batch_normalization as batch_normalization,
)
from keras_bayesdrop.analytic.rules.pooling import (
    average_pooling as average_pooling,
)
from keras_bayesdrop.analytic.rules.shaping import moves as moves
from keras_bayesdrop.analytic.rules.softmax import softmax as softmax
