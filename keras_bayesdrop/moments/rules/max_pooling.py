# SPDX-License-Identifier: Apache-2.0
"""Rules of max pooling: two units at a time, by Clark's formula.

After an activation that never decreases, the maximum is the activation of the
maximum before it:

    max{ f(x[i]) : i } = f(max{ x[i] : i })

The right side applies `f` to fewer units, and units before an activation are
closer to normal than after it.
"""

import functools
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.moments import normal
from keras_bayesdrop.moments.fusing import fused
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome
from keras_bayesdrop.moments.registry import register_rule
from keras_bayesdrop.moments.rules.activation import Activated
from keras_bayesdrop.moments.rules.activation import apply

# Largest number of standard deviations that makes a difference in float32.
_FAR = 30.0
# Added to variances before dividing by their root.
_TINY = 1e-30


@register_rule(
    keras.layers.MaxPooling1D,
    keras.layers.MaxPooling2D,
    keras.layers.MaxPooling3D,
)
def max_pooling(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """Maxima of windows, two units at a time by Clark's formula."""
    return _before_activation(layer, inputs[0], _pool)


def _before_activation(
    layer: Any,
    x: MeanVariance,
    pool: Callable[[Any, MeanVariance], MeanVariance],
) -> Outcome:
    """Pools before an activation that never decreases, if there is one."""
    if x.certain:
        return Outcome(MeanVariance(tf.convert_to_tensor(layer.call(x.mean))))
    if isinstance(x, Activated):
        return apply(x.activation, pool(layer, x.before), increasing=True)
    return Outcome(pool(layer, x))


def _pool(layer: Any, x: MeanVariance) -> MeanVariance:
    if _is_grid(layer, x.mean):
        steps = [
            functools.partial(_pool_axis, axis, pool)
            for axis, pool in enumerate(layer.pool_size, start=1)
        ]
        return MeanVariance(*fused(steps, x.mean, x.spread()))
    mean = _windows(layer, x.mean, float("-inf"))
    variance = _windows(layer, x.spread(), 0.0)
    return _maximum(list(zip(mean, variance, strict=True)))


@register_rule(
    keras.layers.GlobalMaxPooling1D,
    keras.layers.GlobalMaxPooling2D,
    keras.layers.GlobalMaxPooling3D,
)
def global_max_pooling(layer: Any, inputs: Sequence[MeanVariance]) -> Outcome:
    """The maximum over all positions."""
    return _before_activation(layer, inputs[0], _pool_all)


def _pool_all(layer: Any, x: MeanVariance) -> MeanVariance:
    first = layer.data_format == "channels_first"
    rank = x.mean.shape.rank
    axes = [*range(2, rank)] if first else [*range(1, rank - 1)]
    moments = []
    for values in (x.mean, x.spread()):
        moved = tf.transpose(
            values, [0, *axes, *(a for a in range(1, rank) if a not in axes)]
        )
        rows = tf.shape(moved)[0]
        channels = values.shape[1] if first else values.shape[-1]
        moments.append(
            tf.unstack(tf.reshape(moved, [rows, -1, channels]), axis=1)
        )
    pooled = _maximum(list(zip(*moments, strict=True)))
    if not layer.keepdims:
        return pooled
    shape = [1 if a in axes else s for a, s in enumerate(x.mean.shape)]
    shape[0] = -1
    return MeanVariance(
        tf.reshape(pooled.mean, shape), tf.reshape(pooled.spread(), shape)
    )


def _is_grid(layer: Any, x: tf.Tensor) -> bool:
    """Returns True if windows lie side by side and cover everything."""
    sizes = x.shape[1:-1]
    return (
        layer.data_format == "channels_last"
        and tuple(layer.pool_size) == tuple(layer.strides)
        and all(
            size is not None and size % pool == 0
            for size, pool in zip(sizes, layer.pool_size, strict=True)
        )
    )


def _pool_axis(
    axis: int, pool: int, mean: tf.Tensor, variance: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes maxima of windows that lie side by side along one axis.

    Their entries are contiguous in memory, which is many times faster than
    strides along several axes.
    """
    shape = mean.shape.as_list()
    after = [shape[axis] // pool, *shape[axis + 1 :]]
    size = math.prod(after[1:])
    lines = [-1, *shape[1:axis], after[0], pool, size]
    parts = [
        tf.unstack(tf.reshape(x, lines), axis=axis + 1)
        for x in (mean, variance)
    ]
    pooled = _maximum(list(zip(*parts, strict=True)))
    whole = [-1, *shape[1:axis], *after]
    return tf.reshape(pooled.mean, whole), tf.reshape(pooled.spread(), whole)


def _windows(layer: Any, x: tf.Tensor, padding: float) -> list[tf.Tensor]:
    """Returns, per position in a window, the entries of all windows there."""
    first = layer.data_format == "channels_first"
    if first:
        x = tf.transpose(x, [0, *range(2, x.shape.rank), 1])
    pool, strides = layer.pool_size, layer.strides
    places = x.shape.rank - 2
    sizes, paddings = [], [[0, 0]]
    for axis in range(places):
        size = x.shape[axis + 1]
        if layer.padding == "same":
            out = -(-size // strides[axis])
            total = max((out - 1) * strides[axis] + pool[axis] - size, 0)
            paddings.append([total // 2, total - total // 2])
        else:
            out = (size - pool[axis]) // strides[axis] + 1
            paddings.append([0, 0])
        sizes.append(out)
    x = tf.pad(x, [*paddings, [0, 0]], constant_values=padding)
    entries = []
    for offset in _offsets(pool):
        begin = [slice(None)]
        for axis in range(places):
            last = offset[axis] + (sizes[axis] - 1) * strides[axis] + 1
            begin.append(slice(offset[axis], last, strides[axis]))
        entry = x[tuple(begin)]
        if first:
            entry = tf.transpose(
                entry,
                [0, entry.shape.rank - 1, *range(1, entry.shape.rank - 1)],
            )
        entries.append(entry)
    return entries


def _offsets(pool: Sequence[int]) -> list[tuple[int, ...]]:
    offsets: list[tuple[int, ...]] = [()]
    for size in pool:
        offsets = [(*o, i) for o in offsets for i in range(size)]
    return offsets


def _maximum(parts: list[tuple[tf.Tensor, tf.Tensor]]) -> MeanVariance:
    """Takes maxima two at a time, as in a knock-out tournament."""
    while len(parts) > 1:
        half = len(parts) // 2
        met = [
            _clark(*one, *other)
            for one, other in zip(
                parts[:half], parts[half : 2 * half], strict=True
            )
        ]
        parts = met + parts[2 * half :]
    return MeanVariance(*parts[0])


def _clark(
    mean: tf.Tensor, variance: tf.Tensor, mean2: tf.Tensor, variance2: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the moments of the larger of two independent normal variables.

    Clark's formula about the larger mean, so that nothing large cancels: with
    `t^2 = v1 + v2`, `a = (m1 - m2) / t`, `q = Phi(-a)`, `r = phi(a) - a q`

        E max          = m1 + t r
        E (max - m1)^2 = v1 (1 - q) + v2 q - a t^2 r
    """
    # Never zero, so that certain units need no case of their own.
    both = variance + variance2 + _TINY
    spread = tf.sqrt(both)
    ahead = mean >= mean2
    # Distance in standard deviations; for padding it is infinite.
    far = tf.minimum(tf.abs(mean - mean2) / spread, _FAR)
    q, r = normal.tail_and_excess(far)
    v1 = tf.where(ahead, variance, variance2)
    v2 = tf.where(ahead, variance2, variance)
    # About the larger mean: E max = spread r, and E max^2 - (E max)^2 is this.
    second = tf.maximum(v1 + q * (v2 - v1) - both * r * (far + r), 0.0)
    return tf.maximum(mean, mean2) + spread * r, second
