# SPDX-License-Identifier: Apache-2.0
"""Published values of MC dropout on the same splits.

RMSE and log-likelihood with their standard errors over the splits, from the
grid search of 2018: github.com/yaringal/DropoutUncertaintyExps, its readme at
6eb4497. Where the readme rounds an error to zero, or prints a deviation for an
error (Energy), they are from the files of results beside it. Those files are
named `100_xepochs_1_hidden_layers`: one hidden layer, and by the code beside
them 100 times `n_epochs` epochs, where the readme says ten times.
"""

from typing import NamedTuple


class Published(NamedTuple):
    """Mean and standard error of both scores."""

    rmse: float
    rmse_error: float
    log_likelihood: float
    log_likelihood_error: float


GRID = {
    "boston": Published(2.90, 0.18, -2.40, 0.04),
    "concrete": Published(4.82, 0.16, -2.93, 0.02),
    "energy": Published(0.54, 0.014, -1.21, 0.01),
    "kin8nm": Published(0.079, 0.001, 1.14, 0.01),
    "power": Published(4.01, 0.04, -2.80, 0.01),
    "wine": Published(0.62, 0.01, -0.93, 0.01),
    "yacht": Published(0.67, 0.05, -1.25, 0.01),
}
