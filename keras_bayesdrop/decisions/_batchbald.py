# SPDX-License-Identifier: Apache-2.0
"""Batches of labels that tell much together, for classes.

With `y[i]` the label of row `i` and `p[t, i]` its distribution in sample `t`:

    I(y[1..n]; t) = H(y[1..n]) - sum{ mean{ H(p[t, i]) : t } : i }
    p(y[1..n])    = mean{ prod{ p[t, i, y[i]] : i } : t }

The joint entropy runs over all configurations of labels. While these are few
they are enumerated; beyond that they are drawn from `p(y[1..n-1])`, and only
the last label is summed over:

    H = -mean{ sum{ p(c, y) / p(c) * log(p(c, y)) : y } : c ~ p(y[1..n-1]) }
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.predictive.quantities import x_log_x

# Numbers in the largest array: 32 MB.
_BLOCK = 2**22


@dataclass(frozen=True)
class Configurations:
    """Labels of the rows chosen so far, as far as entropies need them.

    Attributes:
        products: Array `[m, T]`, `prod{ p[t, i, y[i]] : i } / exp(scale)`.
        weights: Array `[m]`: 1 if all are there, else `1 / (m * p(c))`.
        scale: Array `[m]`. Logarithms of what was divided out.
        drawn_from: The sample that each was drawn from, or `None`.
    """

    products: Float64Array
    weights: Float64Array
    scale: Float64Array
    drawn_from: npt.NDArray[np.intp] | None = None


def batchbald(
    p: Float64Array,
    k: int,
    num_configurations: int,
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.intp], Float64Array]:
    """Chooses rows greedily, each for what it adds to those before it.

    Args:
        p: Probabilities `[T, rows, classes]`.
        k: How many rows to choose.
        num_configurations: How many are enumerated at most, and drawn (per
            sample equally many) if there are more.
        generator: Draws them.

    Returns:
        The rows, and the information that each adds.
    """
    noise = -x_log_x(p).sum(axis=-1).mean(axis=0)  # [rows]
    known = _none(len(p))
    chosen: list[int] = []
    gains: list[float] = []
    whole = 0.0
    for _ in range(k):
        joint = joint_entropies(p, known) - noise - noise[chosen].sum()
        joint[chosen] = -np.inf
        best = int(np.argmax(joint))
        chosen.append(best)
        gains.append(float(joint[best]) - whole)
        whole = float(joint[best])
        if len(chosen) < k:
            known = extend(p, known, chosen, num_configurations, generator)
    return np.asarray(chosen, np.intp), np.asarray(gains)


def joint_entropies(p: Float64Array, known: Configurations) -> Float64Array:
    """Returns the entropy of the known labels with each row's, `[rows]`."""
    samples, rows, classes = p.shape
    result = np.empty(rows)
    size = max(1, _BLOCK // (len(known.products) * classes))
    for begin in range(0, rows, size):
        some = p[:, begin : begin + size]
        q = known.products @ some.reshape(samples, -1) / samples
        plain = known.weights @ x_log_x(q)
        scaled = (known.weights * known.scale) @ q
        by_class = (plain + scaled).reshape(-1, classes)
        result[begin : begin + size] = -by_class.sum(axis=1)
    return result


def extend(
    p: Float64Array,
    known: Configurations,
    chosen: list[int],
    num_configurations: int,
    generator: np.random.Generator,
) -> Configurations:
    """Returns configurations that have a label of the last row chosen too."""
    samples, _, classes = p.shape
    if known.drawn_from is None:
        count = len(known.products) * classes
        if count <= num_configurations:
            products = known.products[:, None, :] * p[:, chosen[-1]].T
            return Configurations(
                products.reshape(count, samples),
                np.ones(count),
                np.zeros(count),
            )
        # As many from each sample: the mean over them has no error then.
        each = max(1, num_configurations // samples)
        drawn_from = np.repeat(np.arange(samples), each)
        count = len(drawn_from)
        known = Configurations(
            np.ones((count, samples)),
            np.ones(count),
            np.zeros(count),
            drawn_from,
        )
        new = chosen
    else:
        new = chosen[-1:]
    products, scale = known.products, known.scale
    assert known.drawn_from is not None
    for row in new:
        labels = _draw(p[known.drawn_from, row], generator)
        products = products * p[:, row, labels].T
        # Products of many probabilities would leave the range of floats.
        largest = products.max(axis=1)
        products = products / largest[:, None]
        scale = scale + np.log(largest)
    weights = 1.0 / (len(products) * products.mean(axis=1))
    return Configurations(products, weights, scale, known.drawn_from)


def _none(samples: int) -> Configurations:
    """Returns the one configuration of no rows."""
    return Configurations(np.ones((1, samples)), np.ones(1), np.zeros(1))


def _draw(
    p: Float64Array, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Draws a label from each of the distributions `[m, classes]`."""
    uniform = generator.uniform(size=(len(p), 1))
    below = np.cumsum(p, axis=1)[:, :-1] <= uniform
    return np.asarray(below.sum(axis=1))
