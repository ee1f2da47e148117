# SPDX-License-Identifier: Apache-2.0
"""Exact moments of linear networks over all dropout masks.

Layers are numbered from 0, the input. Connections may skip layers:

    S[h] = sum{ D[l] W[l, h] : l < h } + b[h],    S[0] = x
    D[l] = d[l] * S[l]

with a random factor `d` for each unit, and optionally one for each weight. The
covariances of all `S` and all `D` are carried along. The paper's recursion over
those of `S` alone treats the mask of a lower layer as independent of the layers
above, which depend on it. It is correct only within a layer of a network
without skips.
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.theory._linear_network import check_biases
from keras_bayesdrop.theory._linear_network import check_inputs
from keras_bayesdrop.theory._linear_network import check_kernels
from keras_bayesdrop.theory._linear_network import connection_factors
from keras_bayesdrop.theory._linear_network import layer_sizes
from keras_bayesdrop.theory._linear_network import unit_factors


@dataclasses.dataclass(frozen=True)
class LinearMoments:
    """Moments of the layers of a linear network, before their own dropout.

    Attributes:
        means: By layer, from the input: tensor [rows, units].
        joint: Covariances [rows, n, n] of all units of all layers, in the
            order of `means`.
    """

    means: tuple[tf.Tensor, ...]
    joint: tf.Tensor

    @property
    def mean(self) -> tf.Tensor:
        """Moments of the last layer, [rows, units]."""
        return self.means[-1]

    @property
    def variance(self) -> tf.Tensor:
        """Moments of the last layer, [rows, units]."""
        return tf.linalg.diag_part(self.covariance)

    @property
    def covariance(self) -> tf.Tensor:
        """Covariance of the last layer, [rows, units, units]."""
        return self.between(-1, -1)

    def between(self, one: int, other: int) -> tf.Tensor:
        """Returns the covariances of two layers, [rows, units, units]."""
        ends = np.cumsum([mean.shape[-1] for mean in self.means])
        rows, columns = (
            slice(ends[n] - self.means[n].shape[-1], ends[n])
            for n in (one, other)
        )
        return self.joint[:, rows, columns]


def linear_moments(
    x: Any,
    kernels: Sequence[Any] | Mapping[tuple[int, int], Any],
    unit_rates: Any = None,
    connection_rates: Any = None,
    biases: Sequence[Any] | None = None,
    inverted: bool = True,
) -> LinearMoments:
    """Propagates mean and covariance through a linear network under dropout.

    The result is exact over all masks. For a single layer

        E S[i]          = sum{ a[j] w[j, i] x[j] : j }
        Cov(S[i], S[k]) = sum{ v[j] w[j, i] w[j, k] x[j]^2 : j }

    with mean `a` and variance `v` of the factors: `1` and `rate / (1 - rate)`
    if kept units are scaled up, otherwise `1 - rate` and `rate * (1 - rate)`.
    With a factor for each connection, different outputs of one layer have no
    covariance. In deep networks, for the factor `d` of a unit with mean `a` and
    variance `v`,

        Cov(d S, z)         = a Cov(S, z)    for all other values z
        Var(d S)            = a^2 Var S + v (Var S + (E S)^2)

    Work and memory grow with the square of the total number of units.

    Args:
        x: Array [rows, units] in float32 or float64.
        kernels: Sequence of arrays [in, out], a chain; or, with connections
            that skip layers, a mapping by `(source, target)`.
        unit_rates: Probability of dropping a unit: a float for all, or a
            sequence by layer, from the input to the last but one, of floats
            and arrays [units]. `None` for no dropout of units.
        connection_rates: Probability of dropping a weight: a float for all,
            or floats and arrays [in, out] in a structure like `kernels`.
        biases: Sequence by layer, from the first after the input, of arrays
            [units] and `None`. Biases are not dropped; for one that is, add
            an input that is always one, with the bias as its weight.
        inverted: Whether kept units and weights are divided by `1 - rate`, as
            in Keras. `False` is dropout as in the paper. Defaults to `True`.

    Returns:
        The moments of all layers.

    Example:
    ```python
    moments = linear_moments(x, [w1, w2], unit_rates=[0.2, 0.5])
    moments.mean, moments.variance, moments.covariance
    moments.between(1, 2)  # a hidden layer and the output
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 5-26; 25 holds
          for units of one layer in a network without skips.
    """
    x = check_inputs(x)
    edges = check_kernels(kernels, x)
    sizes = layer_sizes(edges, x)
    depth = len(sizes) - 1
    offsets = check_biases(biases, sizes, x.dtype)
    units = unit_factors(unit_rates, sizes, inverted, x.dtype)
    weights = connection_factors(connection_rates, edges, inverted)
    joint = _JointMoments(x)
    layers, sent = [slice(0, sizes[0])], []
    for target in range(1, depth + 1):
        below = layers[-1]
        mean, variance = units[target - 1]
        squares = joint.squares(below)
        sent.append(
            joint.add([(below, tf.linalg.diag(mean))], variance * squares, None)
        )
        maps, spread = [], tf.zeros_like(x[:, :1])
        for source in range(target):
            if (source, target) not in edges:
                continue
            kernel = edges[source, target]
            factor, noise = weights[source, target]
            maps.append((sent[source], factor * kernel))
            squares = joint.squares(sent[source])
            spread = spread + squares @ (noise * tf.square(kernel))
        layers.append(joint.add(maps, spread, offsets[target - 1]))
    return LinearMoments(
        tuple(joint.mean[:, each] for each in layers),
        tf.concat(
            [
                tf.concat([joint.covariance[:, a, b] for b in layers], 2)
                for a in layers
            ],
            1,
        ),
    )


class _JointMoments:
    """Mean and covariance of all values computed so far."""

    def __init__(self, x: tf.Tensor) -> None:
        self.mean = x
        self.covariance = tf.linalg.diag(tf.zeros_like(x))

    def squares(self, where: slice) -> tf.Tensor:
        """Returns the second moments of some values: [rows, units]."""
        variance = tf.linalg.diag_part(self.covariance)[:, where]
        return variance + tf.square(self.mean[:, where])

    def add(
        self,
        maps: list[tuple[slice, tf.Tensor]],
        variance: tf.Tensor,
        offset: tf.Tensor | None,
    ) -> slice:
        """Adds values: linear functions of known ones, plus new noise.

        Args:
            maps: Places of known values, each with its matrix [in, out].
            variance: Variance of the noise, [rows, out].
            offset: Added to the mean, [out].

        Returns:
            Places of the new values.
        """
        mean = tf.add_n([self.mean[:, where] @ m for where, m in maps])
        if offset is not None:
            mean = mean + offset
        cross = tf.add_n([self.covariance[:, :, w] @ m for w, m in maps])
        own = tf.add_n(
            [tf.einsum("ij,rik->rjk", m, cross[:, w]) for w, m in maps]
        )
        own = own + tf.linalg.diag(variance * tf.ones_like(mean))
        start = self.mean.shape[1]
        transposed = tf.linalg.matrix_transpose(cross)
        self.mean = tf.concat([self.mean, mean], 1)
        self.covariance = tf.concat(
            [
                tf.concat([self.covariance, cross], 2),
                tf.concat([transposed, own], 2),
            ],
            1,
        )
        return slice(start, self.mean.shape[1])
