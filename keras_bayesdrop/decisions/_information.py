# SPDX-License-Identifier: Apache-2.0
"""Information that labels give: BatchBALD and EPIG, for classes and numbers.

BatchBALD chooses rows whose labels tell much together. For classes, with `y[i]`
the label of row `i` and `p[t, i]` its distribution in sample `t`:

    I(y[1..n]; t) = H(y[1..n]) - sum{ mean{ H(p[t, i]) : t } : i }
    p(y[1..n])    = mean{ prod{ p[t, i, y[i]] : i } : t }

The joint entropy sums over all configurations of labels. A small number of
configurations is enumerated. A larger number is sampled from `p(y[1..n-1])`,
and only the last label is summed over:

    H = -mean{ sum{ p(c, y) / p(c) * log(p(c, y)) : y } : c ~ p(y[1..n-1]) }

For numbers, with `C` the covariance of the outputs over the samples and noise
of variance `1 / tau` on each measurement, both modelled as normal:

    I(y[1..n]; f) = 1/2 * log(det(1 + tau * C[1..n, 1..n]))

A row adds `1/2 * log(1 + tau * v)`, where `v` is its variance once the others
are measured. Learned noise has a precision `tau` for each row, that of its mean
variance, and a row adds the surplus of `MeasurementNoise` as well. Outputs of a
row count as independent.

EPIG is the information that a label gives about predictions for target inputs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.decisions._joint_samples import MeasurementNoise
from keras_bayesdrop.predictive.quantities import x_log_x

# Numbers in the largest array, which takes 32 MB.
_BLOCK = 2**22


@dataclass(frozen=True)
class Configurations:
    """Configurations of labels of the rows chosen so far.

    Attributes:
        products: Array `[m, T]`, `prod{ p[t, i, y[i]] : i } / exp(scale)`.
        weights: Array `[m]`: 1 if all are enumerated, else `1 / (m * p(c))`.
        scale: Array `[m]`. Logarithms of the factors divided out.
        drawn_from: The sample that each was drawn from, or `None` if all are
            enumerated.
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
    """Chooses rows greedily by the information that each adds.

    Args:
        p: Probabilities `[T, rows, classes]`.
        k: Number of rows to choose.
        num_configurations: Largest number of configurations to enumerate. If
            there are more, about this many are drawn, equally many per sample.
        generator: Generator that draws them.

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
    """Returns the joint entropy of known labels and each row's, `[rows]`."""
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
    """Adds labels of the last chosen row to the configurations."""
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
        # Equally many per sample, so that the mean over samples is exact.
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
        # Products of many probabilities would underflow.
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


def batchbald_normal(
    centred: Float64Array, noise: MeasurementNoise, k: int
) -> tuple[npt.NDArray[np.intp], Float64Array]:
    """Chooses rows greedily by the information that each adds.

    Args:
        centred: Array `[T, rows, outputs]` with `C` the sum over `T` of its
            products.
        noise: Noise with arrays `[rows, outputs]`.
        k: Number of rows to choose.

    Returns:
        The rows, and the information that each adds.
    """
    variance = np.square(centred).sum(axis=0)  # [rows, outputs]
    tau, surplus = noise.precision, noise.surplus.sum(axis=1)
    factors: list[Float64Array] = []  # each [rows, outputs]
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(k):
        gain = 0.5 * np.log1p(tau * variance).sum(axis=1) + surplus
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        chosen.append(best)
        gains.append(float(gain[best]))
        # The next column of the Cholesky factor of C + 1 / tau.
        covariance = np.einsum("tro,to->ro", centred, centred[:, best])
        for factor in factors:
            covariance -= factor * factor[best]
        factor = covariance / np.sqrt(variance[best] + 1.0 / tau[best])
        factors.append(factor)
        variance = np.maximum(variance - np.square(factor), 0.0)
    return np.asarray(chosen, np.intp), np.asarray(gains)


def epig_classes(pool: Float64Array, targets: Float64Array) -> Float64Array:
    """Mean information between the label of a row and those of targets.

        p(y, y') = mean{ p[t, i, y] * p[t, j, y'] : t }
        EPIG[i]  = mean{ sum{ p(y, y') * log(p(y, y') / (p(y) * p(y')))
                              : y, y' } : j }

    Args:
        pool: Probabilities `[T, rows, classes]`.
        targets: Probabilities `[T, targets, classes]`.

    Returns:
        Array `[rows]`, in nats.
    """
    samples, rows, classes = pool.shape
    there = targets.reshape(samples, -1)
    # Entropies of single labels, and of pairs: I = H + H' - H(joint).
    single = -x_log_x(pool.mean(axis=0)).sum(axis=-1)  # [rows]
    other = -x_log_x(targets.mean(axis=0)).sum(axis=-1).mean()
    result = np.empty(rows)
    size = max(1, _BLOCK // (classes * there.shape[1]))
    for begin in range(0, rows, size):
        here = pool[:, begin : begin + size].reshape(samples, -1)
        pairs = -x_log_x(here.T @ there / samples).sum(axis=1)
        joint = pairs.reshape(-1, classes).sum(axis=1) / targets.shape[1]
        some = slice(begin, begin + size)
        result[some] = single[some] + other - joint
    return np.maximum(result, 0.0)


def epig_normal(
    pool: Float64Array,
    targets: Float64Array,
    pool_noise: MeasurementNoise,
    target_noise: MeasurementNoise,
) -> Float64Array:
    """Mean information between a measurement of a row and those of targets.

        EPIG[i] = mean{ -1/2 * log(1 - r[i, j]**2) : j }

    with `r` the correlation of two measurements, with noise, modelled as
    normal. Outputs count as independent, and are summed over.

    Args:
        pool: Centred outputs `[T, rows, outputs]`.
        targets: Centred outputs `[T, targets, outputs]`.
        pool_noise: Noise with arrays `[rows, outputs]`.
        target_noise: Noise with arrays `[targets, outputs]`.

    Returns:
        Array `[rows]`, in nats.
    """
    result = np.zeros(pool.shape[1])
    size = max(1, _BLOCK // targets.shape[1])
    for output in range(pool.shape[2]):
        here, there = pool[..., output], targets[..., output]
        below = 1.0 / pool_noise.precision[:, output]  # [rows]
        above = 1.0 / target_noise.precision[:, output]  # [targets]
        above = np.square(there).sum(axis=0) + above
        for begin in range(0, len(result), size):
            some = here[:, begin : begin + size]
            own = np.square(some).sum(axis=0) + below[begin : begin + size]
            square = np.square(some.T @ there) / (own[:, None] * above)
            gain = -0.5 * np.log1p(-square)
            result[begin : begin + size] += gain.mean(axis=1)
    return result
