# SPDX-License-Identifier: Apache-2.0
"""Training with several samples of the noise for every example.

`MonteCarloModel` is the only public name, and no other room imports this one.
`_loss_terms` reads losses as log-likelihoods, `_monte_carlo_loss` reduces
those of several samples to one number, `_outputs` matches arguments to the
outputs of a model, and `_samples` repeats rows and draws the noise of
`evaluate`. The room imports `_core`, `noise`, `losses`, `layers`, `graph`,
`plan` and `engines`.
"""

from keras_bayesdrop.training.monte_carlo_model import (
    MonteCarloModel as MonteCarloModel,
)
