# SPDX-License-Identifier: Apache-2.0
"""Ways to balance the number of units that a sample drops.

Each returns numbers below the rate for dropped units, others for kept ones.
"""

import numpy as np
import scipy.stats
from words import Array
from words import Generator
from words import Layer
from words import permuted

BLOCK = 16
# Exchanges between two samples of a block that mix its masks.
_TRADES = 60


def latin_squares(rng: Generator, blocks: int, layer: Layer) -> Array:
    """16 units in 16 samples: each stratum once a sample and once a unit.

    A sample then drops just its share of the units, never more or fewer, so
    that a sample by itself is no draw of dropout.
    """
    groups = -(-layer.units // BLOCK)
    cells = np.arange(BLOCK)
    square = (cells[:, np.newaxis] + cells) % BLOCK
    shape = (blocks, groups, BLOCK)
    samples, units, symbols = (
        np.argsort(rng.random(shape), axis=2) for _ in range(3)
    )
    strata = square[samples[..., :, np.newaxis], units[..., np.newaxis, :]]
    flat = strata.reshape(*shape[:2], -1)
    strata = np.take_along_axis(symbols, flat, axis=2)
    strata = strata.reshape(*shape[:2], BLOCK, BLOCK)
    # [blocks, samples, groups * units]
    words = np.moveaxis(strata, 1, 2).reshape(blocks, BLOCK, -1)
    words = words[..., : layer.units]
    return (words + rng.random(words.shape)) / BLOCK


def _counts(rng: Generator, blocks: int, layer: Layer) -> Array:
    """Returns [blocks, 16]: how many units each sample drops.

    Each is binomial by itself, one in each of 16 parts of equal probability.
    """
    one = Layer(1, layer.rate, np.ones(1))
    uniform = permuted(BLOCK)(rng, blocks, one)[..., 0]
    drops = scipy.stats.binom.ppf(uniform, layer.units, layer.rate)
    return drops.astype(np.int64)


def _lowest(keys: Array, counts: Array) -> Array:
    """Returns a mask of the `counts` lowest keys along the last axis."""
    rank = np.argsort(np.argsort(keys, axis=-1), axis=-1)
    return rank < counts[..., np.newaxis]


def counts_alone(rng: Generator, blocks: int, layer: Layer) -> Array:
    """Balances how many units a sample drops, not which."""
    counts = _counts(rng, blocks, layer)
    dropped = _lowest(rng.random((blocks, BLOCK, layer.units)), counts)
    return np.where(dropped, 0.0, 1.0)


def counts_and_units(rng: Generator, blocks: int, layer: Layer) -> Array:
    """Balances how many units a sample drops and how often each is dropped.

    Starts with balanced units. Then pairs of samples exchange drops, which
    leaves units as they are: first until the counts are right, then at random.
    """
    dropped = permuted(BLOCK)(rng, blocks, layer) < layer.rate
    counts = _counts(rng, blocks, layer)
    _share_out(rng, counts, dropped.sum(axis=(1, 2)), layer.units)
    for first in range(BLOCK - 1):
        _trade(rng, dropped, first, first + 1, counts[:, first])
    for _ in range(_TRADES):
        first, second = rng.choice(BLOCK, 2, replace=False)
        _trade(rng, dropped, first, second, dropped[:, first].sum(axis=-1))
    return np.where(dropped, 0.0, 1.0)


def _share_out(rng: Generator, counts: Array, totals: Array, most: int) -> None:
    """Changes counts by one here and there until they add up to totals."""
    missing = totals - counts.sum(axis=1)
    while np.any(missing):
        step = np.sign(missing)[:, np.newaxis]
        free = (counts + step >= 0) & (counts + step <= most)
        keys = np.where(free, rng.random(counts.shape), 2.0)
        counts += step * _lowest(keys, np.minimum(np.abs(missing), BLOCK))
        np.clip(counts, 0, most, out=counts)
        missing = totals - counts.sum(axis=1)


def _trade(
    rng: Generator, dropped: Array, first: int, second: int, count: Array
) -> None:
    """Shares out anew what only one of two samples drops.

    Args:
        rng: Generator.
        dropped: Bool array [blocks, 16, units], changed.
        first: Number of a sample.
        second: Number of the other.
        count: Array [blocks], drops that the first shall have; it comes as
            near as it can.
    """
    one, two = dropped[:, first], dropped[:, second]
    both, either = one & two, one ^ two
    wanted = np.clip(count - both.sum(axis=-1), 0, either.sum(axis=-1))
    keys = np.where(either, rng.random(either.shape), 2.0)
    mine = _lowest(keys, wanted)
    dropped[:, first] = both | mine
    dropped[:, second] = both | (either & ~mine)
