# SPDX-License-Identifier: Apache-2.0
"""Ideas of a paper that has no experiments for them: to study, not to use."""

from keras_bayesdrop.experimental.backpercolation import (
    Backpercolation as Backpercolation,
)
from keras_bayesdrop.experimental.drop_in import DropIn as DropIn
from keras_bayesdrop.experimental.spiking_dense import (
    SpikingDense as SpikingDense,
)
