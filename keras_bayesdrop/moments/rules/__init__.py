# SPDX-License-Identifier: Apache-2.0
"""Rules of Keras' layers. Importing this package registers them."""

from keras_bayesdrop.moments.rules.activation import activation as activation
from keras_bayesdrop.moments.rules.conv import conv as conv
from keras_bayesdrop.moments.rules.dense import dense as dense
from keras_bayesdrop.moments.rules.max_pooling import max_pooling as max_pooling
from keras_bayesdrop.moments.rules.merging import add as add
from keras_bayesdrop.moments.rules.normalization import (
    batch_normalization as batch_normalization,
)
from keras_bayesdrop.moments.rules.pooling import (
    average_pooling as average_pooling,
)
from keras_bayesdrop.moments.rules.shaping import move as move
from keras_bayesdrop.moments.rules.softmax import softmax as softmax
