# SPDX-License-Identifier: Apache-2.0
"""Callbacks of `fit`: monitors, loggers, and schedules of the KL divergence.

Each file holds one public callback; `_layer_logger` is the base of those that
write what layers do into the logs and into event files. Only the package's
`__init__` imports this room, which may import all rooms below it.
"""

from keras_bayesdrop.callbacks.consistency_monitor import (
    ConsistencyMonitor as ConsistencyMonitor,
)
from keras_bayesdrop.callbacks.dropout_rate_logger import (
    DropoutRateLogger as DropoutRateLogger,
)
from keras_bayesdrop.callbacks.kl_annealing import KLAnnealing as KLAnnealing
from keras_bayesdrop.callbacks.relevance_logger import (
    RelevanceLogger as RelevanceLogger,
)
from keras_bayesdrop.callbacks.uncertainty_monitor import (
    UncertaintyMonitor as UncertaintyMonitor,
)
from keras_bayesdrop.callbacks.variational_em import (
    VariationalEM as VariationalEM,
)
