# SPDX-License-Identifier: Apache-2.0
"""Points and weights of integrals over the unit interval.

Both ends are pushed to infinity, where equally spaced points converge faster
than any power of their distance, whatever the integrand does at the ends:

    x = 1 / (1 + exp(-y)),    y = t + exp(t)

Towards 0 the points are equally spaced in `log(x)`, since a weight `w` of any
size only sees the scales from about `|w|` on; towards 1 they crowd.
"""

import math

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array

_STEP = 0.05
_FIRST = -80.0  # x = 2e-35
_LAST = 9.0  # 1 - x = exp(-8112)

Nodes = tuple[Float64Array, Float64Array, Float64Array]


def unit_interval() -> Nodes:
    """Returns `log(x)`, `log(1 - x)` and the log-weight of every point."""
    t = np.arange(_FIRST, _LAST, _STEP)
    return logit_nodes(t + np.exp(t), np.log1p(np.exp(t)) + math.log(_STEP))


def logit_nodes(y: Float64Array, log_step: Float64Array | float) -> Nodes:
    """Returns the same for given `y = log(x / (1 - x))`."""
    log_x = -np.logaddexp(0.0, -y)
    log_rest = -np.logaddexp(0.0, y)
    return log_x, log_rest, log_x + log_rest + log_step
