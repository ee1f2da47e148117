# SPDX-License-Identifier: Apache-2.0
"""Engines run the steps of a plan on tensors, and know no Keras layer.

`reference` is pure TensorFlow and defines what is right; `fused` hands chains
to the compiled op, and parts to `cut`, which leaves out channels that a sample
drops; `spread` divides rows among devices; `select` chooses an
engine and says why. Other rooms use the names below and `interpreter`. This
room imports `errors`, `_core`, `random`, `noise` and `plan`.
"""

from keras_bayesdrop.engines.engine import Engine as Engine
from keras_bayesdrop.engines.reference import Reference as Reference
from keras_bayesdrop.engines.select import assign_steps as assign_steps
from keras_bayesdrop.engines.select import choose_engine as choose_engine
from keras_bayesdrop.engines.select import (
    choose_portable_engine as choose_portable_engine,
)
from keras_bayesdrop.engines.select import (
    why_no_fused_engine as why_no_fused_engine,
)
from keras_bayesdrop.engines.spread import SpreadRows as SpreadRows
from keras_bayesdrop.engines.spread import SpreadSamples as SpreadSamples
