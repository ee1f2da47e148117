# SPDX-License-Identifier: Apache-2.0
"""Penalties that make training with dropout variational inference."""

from keras_bayesdrop.regularizers.dropout_l2 import DropoutL2 as DropoutL2
from keras_bayesdrop.regularizers.dropout_l2 import (
    model_precision as model_precision,
)
