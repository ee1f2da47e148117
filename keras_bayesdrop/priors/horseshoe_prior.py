# SPDX-License-Identifier: Apache-2.0
"""The horseshoe prior."""

import math
from typing import Any
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.priors import _horseshoe_table as table
from keras_bayesdrop.priors._log_moment import Coefficients
from keras_bayesdrop.priors._log_moment import log_moment
from keras_bayesdrop.priors._log_moment import polynomial
from keras_bayesdrop.priors._numerics import ratio_to_stddev
from keras_bayesdrop.priors._numerics import widened
from keras_bayesdrop.priors.base import WeightPrior

Table: TypeAlias = tuple[Coefficients, ...]

# E log(e^2 / 2) for e ~ N(0, 1): the digamma function at 1/2.
_LOG_MOMENT_AT_ZERO = -np.euler_gamma - 2.0 * math.log(2.0)

# Abramowitz and Stegun 5.1.53: E1(z) + log z for z <= 1, to 2e-7.
_E1_SMALL: Coefficients = (-0.57721566, 0.99999193, -0.24991055, 0.05519968)
_E1_SMALL += (-0.00976004, 0.00107857)
# 5.1.56: z e^z E1(z) for z >= 1 in powers of 1 / z, to 2e-8.
_E1_ABOVE: Coefficients = (1.0, 8.5733287401, 18.0590169730)
_E1_ABOVE += (8.6347608925, 0.2677737343)
_E1_BELOW: Coefficients = (1.0, 9.5733223454, 25.6329561486)
_E1_BELOW += (21.0996530827, 3.9584969228)


@export("keras_bayesdrop.priors.HorseshoePrior")
class HorseshoePrior(WeightPrior):
    """The horseshoe prior: a Gaussian with a half-Cauchy scale.

        w ~ N(0, (scale * lambda)^2),    lambda ~ half-Cauchy(0, 1)

    The density has a pole at zero and the tails of the Cauchy distribution: it
    shrinks small weights, and hardly changes large ones. It serves the purpose
    of the log-uniform prior, and is proper. With `lambda` integrated out,

        p(w) = (2 pi^3)^(-1/2) / scale * e^z E1(z),    z = w^2 / (2 scale^2)

    with `E1` the exponential integral. The KL divergence is computed from

        E[-log(e^z E1(z))] = f(exp(E log z)) + remainder,
        f(z) = -log(e^z E1(z))

    where `E log z` is known exactly (see `LogUniformPrior`), and the remainder,
    between 0 and 0.28, is a fitted function of two variables. For all `mean`
    and for `sigma / scale` from 1e-6 to 1e6, the absolute error of the KL
    divergence is below 1e-5; those of its derivatives by `log |mean|` and
    by `log_variance` are below 5e-5.

    Args:
        scale: Positive float. Scale of a weight; the smaller, the sparser.
            Defaults to `1.0`.

    Example:
    ```python
    prior = keras_bayesdrop.priors.HorseshoePrior(scale=0.1)
    prior.kl(mean=[0.0, 1.0], log_variance=[-6.0, -6.0])
    ```

    References:
        - [Carvalho et al., 2010](https://doi.org/10.1093/biomet/asq017).
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = check_positive(scale, "scale")

    def kl(self, mean: Any, log_variance: Any) -> Any:
        """Returns the KL divergence for each weight, in nats."""
        mean, log_variance = widened(mean, log_variance)
        ratio = ratio_to_stddev(mean, log_variance)
        log_scale = math.log(self.scale)
        log_z = 2.0 * log_moment(ratio) + log_variance
        log_z = log_z + (_LOG_MOMENT_AT_ZERO - 2.0 * log_scale)
        expected = _minus_log(log_z) + _remainder(ratio, log_z)
        constant = 0.5 * math.log(2.0 * math.pi**3) + log_scale
        constant -= 0.5 * (1.0 + math.log(2.0 * math.pi))
        return expected - 0.5 * log_variance + constant

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"scale": self.scale}


def _minus_log(log_z: Any) -> Any:
    """Returns f(z) = -log(e^z E1(z)) from log z, to 1e-6."""
    small = log_z < 0.0
    # z if that is below one, else 1 / z.
    power = keras.ops.exp(keras.ops.where(small, log_z, -log_z))
    near = keras.ops.exp(power) * (polynomial(_E1_SMALL, power) - log_z)
    far = polynomial(_E1_ABOVE, power) / polynomial(_E1_BELOW, power)
    # For large z this is e^z E1(z) times z.
    value = keras.ops.log(keras.ops.where(small, near, far))
    return keras.ops.where(small, 0.0, log_z) - value


def _remainder(ratio: Any, log_z: Any) -> Any:
    """Returns E f(z) - f(exp(E log z)), from the table."""
    u = 0.5 * keras.ops.square(ratio)
    return _table_at(u, table.LOG_SLOPE * keras.ops.softplus(-0.5 * log_z))


@tf.custom_gradient
def _table_at(u: Any, r: Any) -> Any:
    """Returns the table's sum of products.

    Automatic differentiation would take twice as long as this gradient.
    """

    def gradient(upstream: Any) -> tuple[Any, Any]:
        s, t = _coordinates(u, r)
        by_s = _products(_derivatives(table.BY_RATIO), s, table.BY_SCALE, t)
        by_t = _products(table.BY_RATIO, s, _derivatives(table.BY_SCALE), t)
        # Both are used twice. XLA computes a quotient once, but recomputes a
        # product for each use.
        c = table.U_CENTRE
        by_u = -2.0 * c * by_s / keras.ops.square(c + u)
        by_r = 2.0 * by_t / keras.ops.square(1.0 + r)
        return upstream * by_u, upstream * by_r

    s, t = _coordinates(u, r)
    return _products(table.BY_RATIO, s, table.BY_SCALE, t), gradient


def _coordinates(u: Any, r: Any) -> tuple[Any, Any]:
    """Returns the table's two coordinates, both from -1 to 1."""
    s = 2.0 * table.U_CENTRE / (table.U_CENTRE + u) - 1.0
    return s, 1.0 - 2.0 / (1.0 + r)


def _products(by_ratio: Table, s: Any, by_scale: Table, t: Any) -> Any:
    pairs = zip(by_ratio, by_scale, strict=True)
    return sum(polynomial(p, s) * polynomial(q, t) for p, q in pairs)


def _derivatives(rows: Table) -> Table:
    return tuple(
        tuple(k * coefficient for k, coefficient in enumerate(row) if k > 0)
        for row in rows
    )
