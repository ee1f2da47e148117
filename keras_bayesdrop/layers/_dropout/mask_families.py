# SPDX-License-Identifier: Apache-2.0
"""Makes the fixed masks of `Masksembles`.

Durasov et al. (2021) set `M` random entries of each of `N` vectors of `M * S`
zeros to one, and drop the entries that are zero in all of them. On average

    C = M * S * (1 - (1 - 1 / S)^N)

entries are left. A layer has a number of units that cannot be chosen, so `M`
follows from it, and the vectors are drawn again until exactly `C` entries are
left. Under that condition the number `P` of entries at the beginning does not
matter: all families of masks that cover the units are equally likely. `P` is
chosen such that the condition is met often, and what is drawn again are only
the numbers of entries that each mask is the first to set.
"""

import numpy as np
import numpy.typing as npt

# Draws of the numbers of new entries at a time, of which one is to fit.
_TRIES = 1024
# NumPy draws from at most 10^9 entries. With so many, masks are disjoint.
_MOST_ENTRIES = 5 * 10**8


def make_masks(
    num_masks: int, units: int, scale: float, seed: int
) -> npt.NDArray[np.uint8]:
    """Returns binary masks, of which every unit is in at least one.

    Args:
        num_masks: Number `N` of masks.
        units: Number `C` of units.
        scale: `S`, at least 1. Two masks share about `1 / (2 S - 1)` of the
            units that are in one of them.
        seed: Non-negative int.

    Returns:
        Array [num_masks, units] of zeros and ones, as many ones in each row.
    """
    rng = np.random.default_rng(seed)
    ones = ones_per_mask(num_masks, units, scale)
    masks = np.zeros([num_masks, units], np.uint8)
    used = 0
    for mask, new in zip(
        masks, _new_units(num_masks, units, ones, rng), strict=True
    ):
        mask[rng.choice(used, ones - new, replace=False)] = 1
        mask[used : used + new] = 1
        used += new
    return masks[:, rng.permutation(units)]


def ones_per_mask(num_masks: int, units: int, scale: float) -> int:
    """Returns how many units each mask keeps."""
    covered = 1.0 - (1.0 - 1.0 / scale) ** num_masks
    ones = round(units / (scale * covered)) if covered > 0 else 0
    # Fewer could not cover the units.
    return min(max(ones, -(-units // num_masks)), units)


def _new_units(
    num_masks: int, units: int, ones: int, rng: np.random.Generator
) -> list[int]:
    """Draws how many units each mask has that no mask before it has."""
    entries = _entries(num_masks, units, ones)
    if num_masks * ones == units or entries >= _MOST_ENTRIES:
        # Disjoint, but for what there are too many of.
        return [min(ones, units - used) for used in range(0, units, ones)] + [
            0
        ] * (num_masks - -(-units // ones))
    while True:
        used = np.zeros([_TRIES], np.int64)
        new = np.zeros([num_masks, _TRIES], np.int64)
        for number in range(num_masks):
            new[number] = rng.hypergeometric(entries - used, used, ones)
            used += new[number]
        fits = np.flatnonzero(used == units)
        if len(fits):
            return [int(count) for count in new[:, fits[0]]]


def _entries(num_masks: int, units: int, ones: int) -> int:
    """Returns from how many entries about `units` are used by some mask."""

    def used(entries: int) -> float:
        return entries * (1.0 - (1.0 - ones / entries) ** num_masks)

    low, high = units, units
    while used(high) < units and high < _MOST_ENTRIES:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if used(middle) < units:
            low = middle + 1
        else:
            high = middle
    below = max(low - 1, units)
    return below if units - used(below) < used(low) - units else low
