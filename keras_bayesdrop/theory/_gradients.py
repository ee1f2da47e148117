# SPDX-License-Identifier: Apache-2.0
"""Computes the gradient of dropout training, averaged over all masks."""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.moments.conversion import as_tensor
from keras_bayesdrop.theory._linear import linear_moments
from keras_bayesdrop.theory._linear_network import check_inputs
from keras_bayesdrop.theory._linear_network import check_kernels

UNITS = ("linear", "logistic", "softmax")


@dataclasses.dataclass(frozen=True)
class ExpectedGradient:
    """The expected gradient by each kernel, in two parts.

    Attributes:
        ensemble: The gradient of the error of the ensemble network, by
            (source, target): [in, out].
        penalty: The contribution of dropout: the gradient of an adaptive
            weight decay.
    """

    ensemble: dict[tuple[int, int], tf.Tensor]
    penalty: dict[tuple[int, int], tf.Tensor]

    @property
    def total(self) -> dict[tuple[int, int], tf.Tensor]:
        """The expected gradient: the sum of both parts."""
        return {key: self.ensemble[key] + self.penalty[key] for key in self}

    def __iter__(self) -> Any:
        """Iterates over the pairs (source, target)."""
        return iter(self.ensemble)


def expected_gradient(
    x: Any,
    targets: Any,
    kernels: Sequence[Any] | Mapping[tuple[int, int], Any],
    unit_rates: Any = None,
    connection_rates: Any = None,
    biases: Sequence[Any] | None = None,
    inverted: bool = True,
    unit: str = "linear",
    gain: float = 1.0,
    hold_curvature: bool = True,
) -> ExpectedGradient:
    """Returns the gradient of dropout training, averaged over all masks.

    With `S` the output of a linear network under dropout, `U = E S`, `f` the
    error of an output, and `H` its second derivatives at `U`,

        E(df(S)/dw) = df(U)/dw + 1/2 d/dw sum(H * Cov(S))

    For one layer the second term is `H w Var(d x)`: weight decay that adapts
    to inputs and rates. The kind of output units determines `f` and `H`:

        "linear"      f = 1/2 sum((t - S)^2),          H = 1; exact
        "logistic"    f = cross-entropy of sigmoid,    H = g^2 o (1 - o)
        "softmax"     f = cross-entropy of softmax,    H = g^2 (diag(o) - o o')

    with `o` the outputs at `U` and `g` the gain. For logistic and softmax units
    this is an expansion for small deviations of `S`, exact to first order. By
    default gradients hold `H` constant, as in the paper, which omits a
    second-order multiple of `Var S`. With `hold_curvature=False` the result is
    the gradient of the expected error to second order. It omits only the third
    moments of single factors, which are zero at a rate of 1/2.

    Args:
        x: As in `linear_moments`.
        targets: Array [rows, outputs]; probabilities unless `unit="linear"`.
        kernels: Kernels of the network, whose hidden units are linear.
        unit_rates: Probability of dropping units.
        connection_rates: Probability of dropping weights.
        biases: Biases of the layers.
        inverted: Whether kept units and weights are divided by `1 - rate`.
        unit: Kind of the output units. Defaults to `"linear"`.
        gain: Positive float. Multiplies `S` before the error.
            Defaults to `1.0`.
        hold_curvature: Whether `H` is held constant, as in the paper. Defaults
            to `True`. It makes no difference for linear units.

    Returns:
        Both parts, averaged over rows and summed over outputs.

    Example:
    ```python
    gradient = expected_gradient(x, y, [w], unit_rates=0.5)
    gradient.ensemble[0, 1], gradient.penalty[0, 1]
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 142-165. In 150
          all covariances count, not the variance alone; the error of 165 has
          the gradient 164 only if the curvature is held.
        - [Wager et al., 2013](https://arxiv.org/abs/1307.1493), for the
          expansion of the expected error.
    """
    check_choice(unit, "unit", UNITS)
    gain = check_positive(gain, "gain")
    x = check_inputs(x)
    edges = check_kernels(kernels, x)
    targets = as_tensor(targets, x.dtype)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(edges)
        moments = linear_moments(
            x, edges, unit_rates, connection_rates, biases, inverted
        )
        center = gain * moments.mean
        if tuple(targets.shape) != tuple(center.shape):
            expected = f"an array of shape {tuple(center.shape)}"
            raise invalid("targets", tuple(targets.shape), expected)
        error, curvature = _error(unit, center, targets)
        if hold_curvature:
            curvature = tf.stop_gradient(curvature)
        ensemble = tf.reduce_mean(error)
        spread = gain**2 * curvature * moments.covariance
        penalty = 0.5 * tf.reduce_mean(tf.reduce_sum(spread, [1, 2]))
    zero = tf.UnconnectedGradients.ZERO
    return ExpectedGradient(
        tape.gradient(ensemble, edges, unconnected_gradients=zero),
        tape.gradient(penalty, edges, unconnected_gradients=zero),
    )


def _error(
    unit: str, center: tf.Tensor, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns errors [rows] and second derivatives [rows, out, out]."""
    if unit == "linear":
        error = 0.5 * tf.reduce_sum(tf.square(targets - center), 1)
        return error, tf.linalg.diag(tf.ones_like(center))
    if unit == "logistic":
        error = tf.nn.sigmoid_cross_entropy_with_logits(targets, center)
        o = tf.sigmoid(center)
        return tf.reduce_sum(error, 1), tf.linalg.diag(o * (1.0 - o))
    error = tf.nn.softmax_cross_entropy_with_logits(targets, center)
    o = tf.nn.softmax(center)
    outer = o[:, :, tf.newaxis] * o[:, tf.newaxis, :]
    return error, tf.linalg.diag(o) - outer
