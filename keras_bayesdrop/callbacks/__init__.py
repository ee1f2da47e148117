# SPDX-License-Identifier: Apache-2.0
"""Callbacks of `fit`."""

from keras_bayesdrop.callbacks.uncertainty_monitor import (
    UncertaintyMonitor as UncertaintyMonitor,
)
