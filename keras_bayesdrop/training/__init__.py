# SPDX-License-Identifier: Apache-2.0
"""Training with several samples of the noise for every example."""

from keras_bayesdrop.training.monte_carlo_model import (
    MonteCarloModel as MonteCarloModel,
)
