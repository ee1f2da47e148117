# SPDX-License-Identifier: Apache-2.0
"""Predictions with uncertainty outside of Python: SavedModels."""

from keras_bayesdrop.serving.export import (
    export_uncertainty as export_uncertainty,
)
