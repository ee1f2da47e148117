# SPDX-License-Identifier: Apache-2.0
"""Ways to draw the words of 64 samples of every unit of a network.

A way is a function of a generator, a number of runs and the noisy layers. It
returns one array [runs, 64, units] for each layer, of numbers that are uniform
on [0, 1). A unit is dropped where its number is below the rate.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats

SAMPLES = 64
# Irreducible polynomials over GF(2), by degree.
_POLYNOMIALS = {3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011}

Array = Any
Generator = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Layer:
    """A noisy layer.

    Attributes:
        units: Number of units.
        rate: Dropout rate.
        weights: Array [units], norm of the outgoing weights of each.
    """

    units: int
    rate: float
    weights: Array


Way = Callable[[Generator, int, Sequence[Layer]], list[Array]]
# The words of one layer, in blocks: [runs * 64 / block, block, units].
Blocks = Callable[[Generator, int, Layer], Array]


def layer_by_layer(draw: Blocks, block: int) -> Way:
    """Returns a way whose layers and blocks are independent."""

    def way(rng: Generator, runs: int, layers: Sequence[Layer]) -> list[Array]:
        count = runs * SAMPLES // block
        return [
            draw(rng, count, layer).reshape(runs, SAMPLES, layer.units)
            for layer in layers
        ]

    return way


def independent(rng: Generator, blocks: int, layer: Layer) -> Array:
    """Samples do not know of each other."""
    return rng.random((blocks, 1, layer.units))


def antithetic(rng: Generator, blocks: int, layer: Layer) -> Array:
    """Pairs `u` and `1 - u`."""
    first = rng.random((blocks, 1, layer.units))
    return np.concatenate([first, 1 - first], axis=1)


def permuted(block: int) -> Blocks:
    """One word in each of `block` strata, in a random order."""

    def draw(rng: Generator, blocks: int, layer: Layer) -> Array:
        shape = (blocks, block, layer.units)
        order = np.argsort(rng.random(shape), axis=1)
        return (order + rng.random(shape)) / block

    return draw


def ranked(rng: Generator, blocks: int, layer: Layer) -> Array:
    """The rank of a word among 16 is its stratum, the rest its own bits.

    The rank depends on those bits too, so that the result is not uniform.
    """
    words = rng.random((blocks, 16, layer.units))
    rank = np.argsort(np.argsort(words, axis=1), axis=1)
    return (rank + words * 16 % 1) / 16


def product_table(bits: int) -> Array:
    """Returns [2^bits, 2^bits]: products in GF(2^bits)."""
    size = 2**bits
    table = np.zeros((size, size), np.int64)
    for a in range(size):
        for b in range(size):
            product = 0
            for bit in range(bits):
                product ^= (a << bit) * (b >> bit & 1)
            for bit in reversed(range(bits, 2 * bits - 1)):
                if product >> bit & 1:
                    product ^= _POLYNOMIALS[bits] << (bit - bits)
            table[a, b] = product
    return table


def _in_field(rng: Generator, factors: Array, bits: int) -> Array:
    """Returns words [blocks, 2^bits, units] of the order `a s xor b`.

    Args:
        rng: Generator.
        factors: Array [blocks, units] of `a`, never 0.
        bits: Degree of the field.
    """
    size = 2**bits
    # [blocks, units, size], then samples before units.
    products = np.swapaxes(product_table(bits)[factors], 1, 2)
    strata = products ^ rng.integers(size, size=factors.shape)[:, np.newaxis]
    return (strata + rng.random(strata.shape)) / size


def field(bits: int) -> Blocks:
    """Strata `a s xor b` in GF(2^bits); with 4 bits as in the library."""

    def draw(rng: Generator, blocks: int, layer: Layer) -> Array:
        factors = rng.integers(1, 2**bits, size=(blocks, layer.units))
        return _in_field(rng, factors, bits)

    return draw


def nested(owen: bool) -> Blocks:
    """GF(16) in each of four blocks, and the strata of 16 themselves divided.

    The words of a stratum in the four blocks fall one into each of its
    quarters, those of the first two into different halves. Masks do not depend
    on the number of samples, and blocks are no longer independent.

    Args:
        owen: Whether quarters are flipped within each half apart (3 random
            bits for a unit and stratum), or by one xor (2 bits).
    """

    def draw(rng: Generator, blocks: int, layer: Layer) -> Array:
        shape = (blocks, 4, layer.units)
        factors = rng.integers(1, 16, size=shape)
        starts = rng.integers(16, size=shape)
        products = np.moveaxis(product_table(4)[factors], 3, 2)
        # [blocks, 4, 16, units]
        strata = products ^ starts[:, :, np.newaxis]
        flips = [
            np.take_along_axis(
                np.broadcast_to(bits[:, np.newaxis], strata.shape),
                strata,
                axis=2,
            )
            for bits in rng.integers(2, size=(3, blocks, 16, layer.units))
        ]
        number = np.arange(4)[:, np.newaxis, np.newaxis]
        half = number % 2 ^ flips[0]
        in_half = np.where(half, flips[1], flips[2]) if owen else flips[1]
        cells = 4 * strata + 2 * half + (number // 2 ^ in_half)
        drawn = (cells + rng.random(cells.shape)) / 64
        return drawn.reshape(blocks, 64, layer.units)

    return draw


def distinct_factors(by_weight: bool) -> Blocks:
    """GF(16) with different factors within each 15 units.

    Any two of those units then have all pairs of halves equally often in a
    block, which leaves no error in their interaction at rate 0.5.

    Args:
        by_weight: Whether groups are made of units in the order of their
            weights, the largest first.
    """

    def draw(rng: Generator, blocks: int, layer: Layer) -> Array:
        groups = -(-layer.units // 15)
        shuffled = np.argsort(rng.random((blocks, groups, 15)), axis=2) + 1
        in_order = shuffled.reshape(blocks, -1)[:, : layer.units]
        if not by_weight:
            return _in_field(rng, in_order, 4)
        factors = np.empty_like(in_order)
        factors[:, np.argsort(-layer.weights)] = in_order
        return _in_field(rng, factors, 4)

    return draw


def mirrored(rng: Generator, blocks: int, layer: Layer) -> Array:
    """8 words in 8 strata, then `1 - u` of each."""
    first = permuted(8)(rng, blocks, layer)
    return np.concatenate([first, 1 - first], axis=1)


def van_der_corput(rng: Generator, blocks: int, layer: Layer) -> Array:
    """16 points of van der Corput's sequence, with Owen's scrambling.

    All units have the same order up to swaps of halves: at rate 0.5 a block
    has two masks only.
    """
    number = np.arange(16)
    flips = rng.integers(2, size=(blocks, 16, layer.units))
    strata = np.zeros((blocks, 16, layer.units), np.int64)
    for level in range(4):
        # The digits before this one name a node of the tree of swaps.
        node = 2**level + number % 2**level
        digit = number >> level & 1
        swapped = digit[:, np.newaxis] ^ flips[:, node]
        strata = 2 * strata + swapped
    return (strata + rng.random(strata.shape)) / 16


def sobol(rng: Generator, runs: int, layers: Sequence[Layer]) -> list[Array]:
    """Scrambled points of Sobol', one dimension for each unit."""
    units = [layer.units for layer in layers]
    drawn = [
        scipy.stats.qmc.Sobol(sum(units), seed=rng).random(SAMPLES)
        for _ in range(runs)
    ]
    return np.split(np.stack(drawn), np.cumsum(units)[:-1], axis=2)
