# SPDX-License-Identifier: Apache-2.0
"""The compiled op draws the masks of the counter contract, bit for bit."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.random import philox
from tests.engines.chain_cases import DRAWS
from tests.engines.chain_cases import MASKS
from tests.engines.chain_cases import SEEDS
from tests.engines.chain_cases import WIDTHS
from tests.engines.chain_cases import Block
from tests.engines.chain_cases import identity
from tests.engines.chain_cases import kept
from tests.engines.chain_cases import multipliers
from tests.engines.chain_cases import run
from tests.engines.chain_cases import words_of

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)


def assert_masks(layer, block, rows, dtype="float32", draws=DRAWS):
    """Ones through an identity kernel show the mask, and nothing else."""
    width = len(layer.kernel)
    scale = np.asarray(layer.noise.scale, dtype)
    for each in draws:
        block = dataclasses.replace(block, draws=each)
        shown = run(np.ones((rows, width), dtype), [layer], block)
        keep = kept(layer, block, rows)
        np.testing.assert_array_equal(shown, keep * scale)
    return keep


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("width", WIDTHS)
def test_masks_of_every_width(width, masks, dtype):
    for rate in (0.1, 0.5, 0.8):
        layer = identity(width, dtype, noise=Bernoulli(rate), site=3)
        block = Block(7, num_samples=35, masks=masks)
        keep = assert_masks(layer, block, 3, dtype)
        assert (
            masks == "shared" or width < 3 or (keep[:, 0] != keep[:, 1]).any()
        )
        # 35 or more draws: not all alike, unless 0.9^35 = 0.03 happens.
        assert keep.any() and not keep.all()


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("first_row", [0, 1, 1000, 2**31, 2**33 + 5, 2**50])
@pytest.mark.parametrize(
    "first_sample", [0, 1, 15, 16, 17, 2**20 + 3, 2**36 - 7, 2**40 + 5]
)
def test_masks_of_every_place(first_sample, first_row, masks):
    """Both halves of both counters are used, with their carries."""
    for seed in SEEDS:
        layer = identity(5, noise=Bernoulli(0.4), site=1)
        block = Block(seed, first_sample, 19, first_row, masks)
        assert_masks(layer, block, 2)


@pytest.mark.parametrize("site", [0, 1, 2, 77, 2**31 - 1, 2**31, 2**32 - 1])
def test_masks_of_every_site(site):
    layer = identity(59, noise=Bernoulli(0.4), site=site)
    # From 2^31 on are the orders of balanced words.
    draws = DRAWS if site < 2**31 else ("independent",)
    for seed in SEEDS:
        block = Block(seed, 5, 20, 9, "independent")
        assert_masks(layer, block, 3, draws=draws)


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("masks", MASKS)
def test_every_step_has_the_mask_of_its_site(masks, draws):
    sites = (9, 2, 4)
    layers = [
        identity(97, noise=Bernoulli(0.3), site=site, activation=activation)
        for site, activation in zip(
            sites, ("relu", "linear", "leaky_relu"), strict=True
        )
    ]
    block = Block(5, 14, 20, 3, masks, draws=draws)
    shown = run(np.ones((4, 97), "float32"), layers, block)
    keep = np.all([kept(layer, block, 4) for layer in layers], axis=0)
    np.testing.assert_array_equal(shown != 0, keep)


def test_thresholds_are_exact():
    """A unit whose word is the threshold stays; one below it does not."""
    block = Block(3, num_samples=1)
    layer = identity(4, noise=Bernoulli(0.5))
    words = words_of(layer, block, 1, 4)[0, 0]
    x = np.ones((1, 4), "float32")
    for word in words.tolist():
        for threshold in (0, word - 1, word, word + 1, 2**32 - 1):
            shown = run(
                x,
                [layer],
                block,
                thresholds=tf.constant([threshold], tf.uint32),
                scales=tf.constant([1.0], tf.float64),
            )
            np.testing.assert_array_equal(shown[0, 0], words >= threshold)


@pytest.mark.parametrize("masks", MASKS)
def test_shared_masks_are_those_of_row_zero(masks):
    layer = identity(59, noise=Bernoulli(0.5))
    x = np.ones((5, 59), "float32")
    late = run(x, [layer], Block(1, 0, 3, 100, masks))
    first = run(x, [layer], Block(1, 0, 3, 0, "independent"))
    same = np.array_equal(late, np.repeat(first[:, :1], 5, axis=1))
    assert same == (masks == "shared")


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaussian_multipliers(dtype, masks, draws):
    """Within 8 roundings of the quantile in float64, tails and all.

    A million words reach quantiles of 4.8 standard deviations.
    """
    for width in (1, 3, 59, 1025):
        layer = identity(width, dtype, noise=Gaussian(0.5), site=6)
        block = Block(2**63, 13, 45, 8, masks, draws=draws)
        rows = 20 if masks == "independent" else 2
        shown = run(np.ones((rows, width), dtype), [layer], block)
        words = words_of(layer, block, rows, width)
        normal = philox.words_to_normal(tf.constant(words), tf.float64).numpy()
        size = 1 + np.abs(normal)
        miss = np.abs(shown - (1 + normal)) / size
        assert miss.max() <= 8 * np.finfo(dtype).eps
        if width == 1025 and masks == "independent":
            assert np.abs(normal).max() > 4.5


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("per_entry", [False, True])
@pytest.mark.parametrize("width", [1, 3, 4, 5, 59])
def test_masks_of_entries(width, per_entry, masks, draws):
    """Entry e of a row has the units from e * width on, or the same ones."""
    entries, rows = 5, 3
    layer = identity(width, noise=Bernoulli(0.4), site=2, per_entry=per_entry)
    block = Block(11, 10, 21, 6, masks, draws=draws)
    shown = run(np.ones((rows, entries, width), "float32"), [layer], block)
    factor = multipliers(layer, block, rows, entries)
    expected = np.broadcast_to(factor, shown.shape).astype("float32")
    np.testing.assert_array_equal(shown, expected)
    alike = np.array_equal(shown[:, :, 0], shown[:, :, 1])
    assert alike != per_entry
