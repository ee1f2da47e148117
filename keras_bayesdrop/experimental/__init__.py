# SPDX-License-Identifier: Apache-2.0
"""Layers of a paper that has no experiments for them: to study, not to use.

Each file holds one public layer; all names below may be used. The room imports
`errors`, `_core`, `random`, `noise` and `layers`.
"""

from keras_bayesdrop.experimental.backpercolation import (
    Backpercolation as Backpercolation,
)
from keras_bayesdrop.experimental.drop_in import DropIn as DropIn
from keras_bayesdrop.experimental.spiking_dense import (
    SpikingDense as SpikingDense,
)
