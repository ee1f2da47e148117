# SPDX-License-Identifier: Apache-2.0
"""Penalties that are priors: of dropout, and of structured shrinkage."""

from keras_bayesdrop.regularizers.add import ADD as ADD
from keras_bayesdrop.regularizers.ard import ARD as ARD
from keras_bayesdrop.regularizers.ard_add import ARDADD as ARDADD
from keras_bayesdrop.regularizers.dropout_l2 import DropoutL2 as DropoutL2
from keras_bayesdrop.regularizers.dropout_l2 import (
    model_precision as model_precision,
)
