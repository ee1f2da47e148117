# SPDX-License-Identifier: Apache-2.0
"""The masks of `Masksembles`: their counts, their cover, their overlap."""

import itertools

import numpy as np
import pytest

from keras_bayesdrop.layers._dropout.mask_families import make_masks
from keras_bayesdrop.layers._dropout.mask_families import ones_per_mask

SIZES = [
    (num_masks, units, scale)
    for num_masks in (1, 2, 3, 4, 7, 32)
    for units in (1, 2, 5, 16, 97, 513)
    for scale in (1.0, 1.3, 2.0, 5.0, 1e3, 1e12)
]


@pytest.mark.parametrize(("num_masks", "units", "scale"), SIZES)
def test_all_units_are_used_and_all_masks_are_as_large(num_masks, units, scale):
    masks = make_masks(num_masks, units, scale, seed=units)
    assert masks.shape == (num_masks, units) and masks.dtype == np.uint8
    assert set(np.unique(masks)) <= {0, 1}
    assert masks.any(axis=0).all()
    ones = ones_per_mask(num_masks, units, scale)
    np.testing.assert_array_equal(masks.sum(axis=1), ones)


@pytest.mark.parametrize("num_masks", [2, 4, 9])
@pytest.mark.parametrize("scale", [1.5, 2.0, 4.0])
def test_the_number_of_ones_follows_the_equation_of_the_paper(num_masks, scale):
    ones = ones_per_mask(num_masks, 10_000, scale)
    units = ones * scale * (1 - (1 - 1 / scale) ** num_masks)
    # A unit more or less in each mask is at most `scale` units in all.
    assert abs(units - 10_000) <= scale


def overlap(masks):
    """Returns the mean of |a and b| / |a or b| over pairs."""
    pairs = itertools.combinations(masks.astype(bool), 2)
    return np.mean([(a & b).sum() / (a | b).sum() for a, b in pairs])


@pytest.mark.parametrize("scale", [1.5, 2.0, 4.0])
def test_masks_overlap_as_the_scale_says(scale):
    shares = [overlap(make_masks(4, 4096, scale, seed)) for seed in range(20)]
    # A pair shares about 1 / (2 S - 1) of some 3,000 units, with a standard
    # deviation of at most 0.5 / sqrt(3,000) = 0.009; the mean of 120 pairs
    # has a hundredth of that variance.
    np.testing.assert_allclose(
        np.mean(shares), 1 / (2 * scale - 1), atol=4 * 0.009 / 10
    )


def test_a_large_scale_makes_disjoint_masks():
    for units in (64, 66):  # 4 masks of 17 have 2 units too many
        masks = make_masks(4, units, 1e9, seed=0)
        assert (masks.sum(axis=0) > 1).sum() <= 4 * -(-units // 4) - units


def as_in_the_paper(num_masks, units, ones, entries, rng):
    """Draws by the letter of the paper until the number of units is right."""
    while True:
        masks = np.zeros([num_masks, entries], np.uint8)
        for mask in masks:
            mask[rng.choice(entries, ones, replace=False)] = 1
        used = masks[:, masks.any(axis=0)]
        if used.shape[1] == units:
            return used


def times_used(masks):
    """Returns how many units are in one mask, in two, and so on."""
    return np.bincount(masks.sum(axis=0), minlength=len(masks) + 1)[1:]


@pytest.mark.parametrize("entries", [8, 10, 14])
def test_masks_have_the_distribution_of_the_paper(entries):
    """Whatever the number of entries that the paper's masks begin with."""
    draws, (num_masks, units, ones) = 3000, (3, 7, 4)
    scale = 2.0
    assert ones_per_mask(num_masks, units, scale) == ones
    rng = np.random.default_rng(1)
    desired = [
        times_used(as_in_the_paper(num_masks, units, ones, entries, rng))
        for _ in range(draws)
    ]
    actual = [
        times_used(make_masks(num_masks, units, scale, seed))
        for seed in range(draws)
    ]
    # Counts of units in {0, ..., 7} with variances below 1.8: the difference
    # of two means of 3,000 has a standard deviation below 0.035.
    np.testing.assert_allclose(
        np.mean(actual, axis=0), np.mean(desired, axis=0), atol=4 * 0.035
    )
    np.testing.assert_allclose(
        np.var(actual, axis=0), np.var(desired, axis=0), atol=0.15
    )
    assert np.max(np.var(desired, axis=0)) < 1.8


def test_every_unit_and_every_mask_is_alike():
    masks = np.stack([make_masks(3, 7, 2.0, seed) for seed in range(3000)])
    # Shares of 3,000: four standard deviations are 0.037.
    np.testing.assert_allclose(masks.mean(axis=0), 4 / 7, atol=0.037)


def test_seeds_make_masks():
    one, same, other = (make_masks(4, 32, 2.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
