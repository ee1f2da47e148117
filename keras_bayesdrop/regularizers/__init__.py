# SPDX-License-Identifier: Apache-2.0
"""Penalties that are priors: of dropout, and of structured shrinkage.

`DropoutL2` is the weight decay that belongs to a dropout rate, and
`model_precision` is its inverse. `ARD`, `ADD` and `ARDADD` shrink groups of
weights, by the scales of `priors.structured_scales`. The names below may be
used from anywhere; layers also use `_structured.check_epsilon`. The room
imports `errors`, `_core`, `priors` and `losses`.
"""

from keras_bayesdrop.regularizers.add import ADD as ADD
from keras_bayesdrop.regularizers.ard import ARD as ARD
from keras_bayesdrop.regularizers.ard_add import ARDADD as ARDADD
from keras_bayesdrop.regularizers.dropout_l2 import DropoutL2 as DropoutL2
from keras_bayesdrop.regularizers.dropout_l2 import (
    model_precision as model_precision,
)
