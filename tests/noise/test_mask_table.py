# SPDX-License-Identifier: Apache-2.0
"""Masks of a table by the numbers of samples and rows, on any axis."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.layers import Masksembles
from keras_bayesdrop.noise.draws import Draws

UNITS, ROWS, SAMPLES = 8, 5, 3


@pytest.fixture
def layer():
    made = Masksembles(4, 2.0, seed=0)
    made.build((None, UNITS))
    return made


def draws(shared=False, **kwargs):
    settings = {
        "seed": tf.constant(5, tf.uint64),
        "first_sample": 6,
        "num_samples": SAMPLES,
        "num_blocks": 1,
        "first_row": 3,
        "num_rows": ROWS,
        "shared": shared,
        "balanced": False,
        **kwargs,
    }
    return Draws(**settings)


def masks(layer, shared=False, first=9, samples=SAMPLES):
    """Returns [rows, samples, units], of sample 6 (and row 3) on."""
    first = first - 3 if shared else first
    rows = np.arange(ROWS)[:, None] * (not shared)
    numbers = first + rows + np.arange(samples)
    return layer.masks.numpy()[numbers % 4]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("entries", [None, 1, 2])
def test_perturb(layer, shared, folded, entries):
    """`entries` is how many a row has on the first axis; `None` is known 1."""
    noise, _ = layer.noise_site()
    count = ROWS * (entries or 1) * (SAMPLES if folded else 1)
    x = np.random.default_rng(0).normal(size=(count, UNITS)).astype("float32")
    y = draws(shared).perturb(
        tf.constant(x),
        noise,
        (None, None),
        0,
        folded=folded,
        whole_rows=entries is None,
    )
    size = (ROWS, SAMPLES if folded else 1, entries or 1, UNITS)
    desired = x.reshape(size) * masks(layer, shared)[:, :, None]
    np.testing.assert_array_equal(y, desired.reshape(-1, UNITS))


def test_first_mask_shifts_the_masks(layer):
    noise, _ = layer.noise_site()
    for first_mask in (1, tf.constant(2**40 + 2, tf.int64)):
        y = draws(True, first_mask=first_mask).perturb(
            tf.ones([ROWS, UNITS]),
            noise,
            (None, None),
            0,
            folded=False,
            whole_rows=True,
        )
        shift = int(first_mask) % 4
        desired = masks(layer, True, first=9 + shift)
        desired = np.broadcast_to(desired, (ROWS, SAMPLES, UNITS))
        np.testing.assert_array_equal(y, desired.reshape(-1, UNITS))


@pytest.mark.parametrize("shared", [True, False])
def test_rows_on_another_axis(layer, shared):
    noise, _ = layer.noise_site()
    one = draws(shared, num_samples=1)
    x = np.random.default_rng(0).normal(size=(2, ROWS, 3, UNITS))
    y = one.perturb_whole(tf.constant(x), noise, (None,) * 4, 0, 1)
    mask = masks(layer, shared, samples=1)[:, 0]
    np.testing.assert_array_equal(y, x * mask[:, None])


def test_rows_on_no_axis_share_the_mask_of_the_sample(layer):
    noise, _ = layer.noise_site()
    x = np.random.default_rng(0).normal(size=(3, 7, UNITS))
    one = draws(False, num_samples=1)
    y = one.perturb_whole(tf.constant(x), noise, (None,) * 3, 0, None)
    np.testing.assert_array_equal(y, x * layer.masks.numpy()[6 % 4])


def test_rows_on_the_axis_of_the_units_are_refused(layer):
    noise, _ = layer.noise_site()
    one = draws(False, num_samples=1)
    with pytest.raises(PlanError, match=r"last axis.*Expected.*Received"):
        one.perturb_whole(tf.ones([3, UNITS]), noise, (None,) * 2, 0, 1)


def test_the_noise_does_not_keep_its_layer_alive():
    layer = Masksembles(4, 2.0)
    layer.build((None, UNITS))
    noise, shape = layer.noise_site()
    assert shape == (None, None)
    assert noise == layer.noise_site()[0]
    assert noise.period == 4 and noise.active
    source = noise.source
    del layer
    gc.collect()
    assert source() is None
