# SPDX-License-Identifier: Apache-2.0
"""Tables of inverse CDFs that have no formula.

The variable is mapped to the real line, where its density is smooth and falls
off on both sides (the logit of a Beta, the logarithm of a Gamma). With

    s = log(u / (1 - u)),    u = CDF(y)

`y` is a smooth and increasing function of `s`, and nearly linear far out: the
tail of a density `y^(a - 1)` is `y ~ s / a` in logarithms. A cubic between
equally spaced `s` is therefore as good at the ends as in the middle. At run
time a draw takes a logarithm and two look-ups, which XLA compiles.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array

# The words 0 and 2^32 - 1 lie at s = -22.87 and 22.87.
_END = 23.0
# Largest error of u over Beta(a, b) with a and b from 0.01 to 1e6:
#   nodes  256      512      1024     2048
#   error  1.5e-5   1.6e-6   4.5e-7   3.8e-8
_NODES = 2048
_STEP = 2 * _END / (_NODES - 1)

# For the integrals: the fall of the log-density from its maximum to the ends,
# the number of cells on each side, and the number of points in a cell.
_FALL = 60.0
_CELLS = 1000
_POINTS = 16
_NEWTON_STEPS = 6

Density = Callable[[Float64Array], Float64Array]


@dataclasses.dataclass(frozen=True, eq=False)
class QuantileTable:
    """An increasing function of `s = log(u / (1 - u))`.

    Attributes:
        values: Array [nodes], the function at equally spaced `s`.
        rises: Array [nodes], its derivative times the step.
    """

    values: Float64Array
    rises: Float64Array

    def __call__(self, s: Any) -> Any:
        """Returns the function at `s`, a floating tensor, in its dtype."""
        place = keras.ops.clip((s + _END) / _STEP, 0.0, _NODES - 1.0)
        cell = keras.ops.minimum(keras.ops.floor(place), _NODES - 2.0)
        t = place - cell
        left = keras.ops.cast(cell, "int32")
        values = keras.ops.convert_to_tensor(self.values, s.dtype)
        rises = keras.ops.convert_to_tensor(self.rises, s.dtype)
        y0, y1 = (keras.ops.take(values, left + i, axis=0) for i in (0, 1))
        d0, d1 = (keras.ops.take(rises, left + i, axis=0) for i in (0, 1))
        # The cubic with these values and derivatives at t = 0 and t = 1.
        gap = y1 - y0
        square = 3.0 * gap - 2.0 * d0 - d1
        cube = d0 + d1 - 2.0 * gap
        return y0 + t * (d0 + t * (square + t * cube))


def logit(u: Any) -> Any:
    """Returns `log(u / (1 - u))`."""
    return keras.ops.log(u) - keras.ops.log1p(-u)


def tabulate(log_density: Density, mode: float) -> QuantileTable:
    """Returns the table of a distribution on the real line.

    Args:
        log_density: Logarithm of the density, up to a constant; concave.
        mode: Place of its maximum.

    Returns:
        `y` as a function of `s`.
    """
    top = float(log_density(np.array([mode]))[0])

    def density(y: Float64Array) -> Float64Array:
        return np.exp(log_density(y) - top)

    edges = _edges(log_density, mode, top)
    mass = _integrals(density, edges[:-1], edges[1:])
    total = mass.sum()
    below = np.concatenate([[0.0], np.cumsum(mass)]) / total
    above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]]) / total
    inside = slice(1, -1)
    with np.errstate(divide="ignore"):
        known = np.log(below[inside]) - np.log(above[inside])
    s = np.linspace(-_END, _END, _NODES)
    y = np.interp(s, known, edges[inside])
    for _ in range(_NEWTON_STEPS):
        cell = np.clip(np.searchsorted(edges, y) - 1, 0, len(edges) - 2)
        part = _integrals(density, edges[cell], y) / total
        low = np.maximum(below[cell] + part, np.finfo(float).tiny)
        high = np.maximum(above[cell] - part, np.finfo(float).tiny)
        slope = low * high * total / density(y)
        y = y + slope * (s - np.log(low) + np.log(high))
        y = np.clip(y, edges[0], edges[-1])
    return QuantileTable(y, _monotone(y, slope * _STEP))


def _edges(log_density: Density, mode: float, top: float) -> Float64Array:
    """Returns the ends of the cells, which are closest at the mode."""
    spread = np.sinh(6.0 * np.linspace(0.0, 1.0, _CELLS + 1)) / np.sinh(6.0)
    sides = []
    for sign in (-1.0, 1.0):
        reach = 1.0
        while log_density(np.array([mode + sign * reach]))[0] > top - _FALL:
            reach *= 2.0
        near = 0.0
        for _ in range(40):
            middle = 0.5 * (near + reach)
            if log_density(np.array([mode + sign * middle]))[0] > top - _FALL:
                near = middle
            else:
                reach = middle
        sides.append(mode + sign * reach * spread)
    return np.concatenate([sides[0][:0:-1], sides[1]])


def _integrals(
    density: Density, start: Float64Array, end: Float64Array
) -> Float64Array:
    """Returns the integrals over cells, by Gauss-Legendre quadrature."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    half = 0.5 * (end - start)
    places = (start + half)[:, None] + half[:, None] * points
    return np.asarray(half * (density(places) @ weights))


def _monotone(values: Float64Array, rises: Float64Array) -> Float64Array:
    """Lowers derivatives so that every cubic between nodes increases.

    A cubic rises if its derivatives at both ends are at most three times the
    slope of the chord (Fritsch and Carlson, 1980).
    """
    chords = np.diff(values)
    limit = 3.0 * np.minimum(
        np.concatenate([chords[:1], chords]),
        np.concatenate([chords, chords[-1:]]),
    )
    return np.asarray(np.minimum(rises, limit))
