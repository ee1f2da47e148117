# SPDX-License-Identifier: Apache-2.0
"""Callbacks of `fit`."""

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
