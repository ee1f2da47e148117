# SPDX-License-Identifier: Apache-2.0
"""Geometric means of an ensemble's outputs, and their bounds.

For outputs `O` of probabilities `P`, in the notation of the reference,

    E = sum(P * O)                  mean
    G = prod(O^P)                   weighted geometric mean, WGM
    G' = prod((1 - O)^P)            WGM of the complements
    NWGM = G / (G + G')             normalised WGM

For logistic units `O = sigmoid(S)` the NWGM is `sigmoid(E(S))`, the output of a
network with scaled weights.
"""

from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.moments.conversion import as_tensor
from keras_bayesdrop.moments.conversion import as_tensors


def wgm(outputs: Any, weights: Any = None, axis: int = 0) -> tf.Tensor:
    """Returns the weighted geometric mean of outputs.

        G = prod{ O[i]^P[i] : i }

    It is at most the mean.

    Args:
        outputs: Array of numbers that are not negative.
        weights: Array [members] of probabilities, which are divided by their
            sum. `None` for equally likely members.
        axis: The axis of the members. Defaults to the first.

    Returns:
        Tensor like `outputs`, without that axis.

    Example:
    ```python
    wgm([0.25, 1.0])  # 0.5
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 35 and 77.
    """
    members, chances = _ensemble(outputs, weights, axis)
    return tf.exp(_mean(tf.math.log(members), chances))


def nwgm(
    outputs: Any, weights: Any = None, axis: int = 0, classes: bool = False
) -> tf.Tensor:
    """Returns the normalised weighted geometric mean of probabilities.

        NWGM = G / (G + G') = sigmoid(sum{ P[i] logit(O[i]) : i })

    and, for probabilities of classes,

        NWGM[k] = G[k] / sum{ G[l] : l }

    For logistic and softmax outputs this is exactly the output at the mean
    input. If one member of positive probability outputs 0 and another 1, the
    NWGM is undefined, and the result is NaN.

    Args:
        outputs: Array of numbers in [0, 1].
        weights: As in `wgm`.
        axis: The axis of the members. Defaults to the first.
        classes: Whether the last axis holds classes. Defaults to `False`:
            each number is a separate probability.

    Returns:
        Tensor like `outputs`, without the axis of the members.

    Example:
    ```python
    samples = keras.ops.sigmoid(inputs)  # [samples, rows]
    nwgm(samples)  # sigmoid(mean(inputs, axis=0))
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 37-47.
    """
    members, chances = _ensemble(outputs, weights, axis)
    logs = _mean(tf.math.log(members), chances)
    if classes:
        return tf.nn.softmax(logs)
    return tf.sigmoid(logs - _mean(tf.math.log1p(-members), chances))


def wgm_bounds(
    mean: Any, variance: Any, minimum: Any, maximum: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns bounds of the geometric mean from moments and range.

    With `m` and `M` the smallest and the largest output,

        V / (2 M) * (M - G) / (M - E) <= E - G
                                      <= V / (2 m) * (G - m) / (E - m)

    solved for `G`. These are tighter than `V / (2 M) <= E - G <= V / (2 m)`.

    Args:
        mean: Array of means `E`.
        variance: Their variances `V`.
        minimum: Array of smallest outputs, positive.
        maximum: Array of largest outputs.

    Returns:
        Lower and upper bound of `G`.

    Example:
    ```python
    low, high = wgm_bounds(0.5, 0.04, 0.3, 0.7)
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 78 and 79. The
          lower bound of 79 lacks a factor `M - E` in print.
    """
    mean, variance, least, most = as_tensors(mean, variance, minimum, maximum)
    # Neither exceeds one, since V <= (M - E)(E - m).
    pull = tf.math.divide_no_nan(variance, 2.0 * most * (most - mean))
    push = tf.math.divide_no_nan(variance, 2.0 * least * (mean - least))
    lower = (mean + push * least) / (1.0 + push)
    upper = (mean - pull * most) / (1.0 - pull)
    # An output of zero makes the product zero.
    lower = tf.where(least > 0, lower, tf.zeros_like(lower))
    return lower, upper


def nwgm_bounds(
    mean: Any, variance: Any, minimum: Any, maximum: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns bounds of the normalised geometric mean from moments and range.

    `G / (G + G')` rises with `G` and falls with `G'`, and `wgm_bounds` bounds
    both. If all outputs are at most one half then `NWGM <= E`, and if all are
    at least one half then `NWGM >= E`.

    The paper also states bounds of `|E - NWGM|` without the range, such as
    `2 E (1 - E) |1 - 2 E|`. They do not hold: for the outputs 1e-6 and 0.9 the
    difference is 0.447, ten times that bound. See `nwgm_approximation`.

    Args:
        mean: Array of means `E` of numbers in (0, 1).
        variance: Their variances `V`.
        minimum: Array of smallest outputs.
        maximum: Array of largest outputs.

    Returns:
        Lower and upper bound of the NWGM.

    Example:
    ```python
    low, high = nwgm_bounds(0.25, 0.01, 0.1, 0.45)  # high is 0.25 at most
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 78-82. Equations
          87, 209 and 210 are not bounds.
    """
    mean, variance, least, most = as_tensors(mean, variance, minimum, maximum)
    lower, upper = wgm_bounds(mean, variance, least, most)
    rest = wgm_bounds(1.0 - mean, variance, 1.0 - most, 1.0 - least)
    low = tf.math.divide_no_nan(lower, lower + rest[1])
    high = 1.0 - tf.math.divide_no_nan(rest[0], rest[0] + upper)
    return low, high


def nwgm_approximation(mean: Any, variance: Any) -> tf.Tensor:
    """Approximates the NWGM to second order in the spread of the outputs.

        NWGM ~ (E - V / (2 E)) / (1 - V / (2 E (1 - E)))

    For a small variance `E - NWGM` is `V (1 - 2 E) / (2 E (1 - E))`. An
    expansion around one half instead of `E` has `V (1 - 2 E)`, at most half of
    that. The approximation is not a bound.

    Args:
        mean: Array of means `E` in (0, 1).
        variance: Their variances `V`, at most `E (1 - E)`.

    Returns:
        Tensor like `mean`.

    Example:
    ```python
    nwgm_approximation(0.3, 0.01)  # 0.2902
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 202, in place of
          84-87, 95-97 and 205-211.
    """
    mean, variance = as_tensors(mean, variance)
    rest = 1.0 - mean
    return (mean - variance / (2.0 * mean)) / (
        1.0 - variance / (2.0 * mean * rest)
    )


def _ensemble(
    outputs: Any, weights: Any, axis: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the members [members, ...] and their probabilities."""
    (members,) = as_tensors(outputs)
    if members.shape.rank == 0:
        raise invalid("outputs", outputs, "an array with an axis of members")
    order = list(range(members.shape.rank))
    order.insert(0, order.pop(axis))
    members = tf.transpose(members, order)
    if weights is None:
        chances = tf.ones(tf.shape(members)[:1], members.dtype)
    else:
        chances = as_tensor(weights, members.dtype)
        if not chances.shape.is_compatible_with(members.shape[:1]):
            expected = f"an array of shape ({members.shape[0]},)"
            raise invalid("weights", tuple(chances.shape), expected)
    return members, chances / tf.reduce_sum(chances)


def _mean(values: tf.Tensor, chances: tf.Tensor) -> tf.Tensor:
    """Returns the mean over members, skipping those of probability zero."""
    ones = [1] * (values.shape.rank - 1)
    chances = tf.reshape(chances, [-1, *ones])
    return tf.reduce_sum(tf.math.multiply_no_nan(values, chances), 0)
