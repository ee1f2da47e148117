# SPDX-License-Identifier: Apache-2.0
"""Masks of a table in the compiled op."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.engines.fused import Fused
from keras_bayesdrop.layers import Masksembles
from keras_bayesdrop.layers._dropout.mask_families import make_masks
from keras_bayesdrop.plan import build_plan
from tests.engines.both_engines import assert_engines_agree
from tests.engines.both_engines import fused_paths
from tests.engines.chain_cases import MASKS
from tests.engines.chain_cases import Block
from tests.engines.chain_cases import InvalidArgument
from tests.engines.chain_cases import arguments
from tests.engines.chain_cases import assert_same_bits
from tests.engines.chain_cases import call
from tests.engines.chain_cases import identity
from tests.engines.chain_cases import inputs
from tests.engines.chain_cases import network
from tests.engines.chain_cases import traced

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)


def with_tables(x, layers, block, tables):
    """Returns arguments of the op; a step with a table has no other noise."""
    settings = arguments(x, layers, block)
    noise, thresholds = list(settings["noise"]), settings["thresholds"].numpy()
    for number, table in enumerate(tables):
        if table is not None:
            noise[number] = "table"
            share = 1 - (table != 0).mean()
            thresholds[number] = max(1, int(share * 2.0**32))
    return {
        **settings,
        "noise": noise,
        "thresholds": tf.constant(thresholds),
        "tables": [tf.constant(each) for each in tables if each is not None],
    }


def keep(table, block, rows):
    """Returns the masks, bool [samples, rows, units]."""
    t = block.first_sample + np.arange(block.num_samples)[:, None]
    row = block.first_row + np.arange(rows)
    numbers = t + (0 if block.masks == "shared" else row)
    return (table != 0)[np.broadcast_to(numbers % len(table), (len(t), rows))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("num_masks", [1, 3, 5])
@pytest.mark.parametrize("width", [1, 3, 16, 17, 97, 1025])
def test_masks_are_those_of_the_table(width, num_masks, masks, dtype):
    rng = np.random.default_rng(width)
    table = rng.integers(0, 3, size=(num_masks, width)).astype("uint8")
    # 2^40 + 7 is not a multiple of 3 or 5.
    block = Block(3, 2**40 + 7, 6, 2**41 + 2, masks)
    x = inputs(4, width, dtype=dtype)
    y = call(with_tables(x, [identity(width, dtype)], block, [table])).numpy()
    assert_same_bits(y, np.where(keep(table, block, 4), x, x.dtype.type(0)))


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("rows", [1, 5, 300])
@pytest.mark.parametrize("scale", [1.1, 2.0, 6.0])
def test_chains_with_tables(scale, rows, masks):
    """Cut, masked and by columns; with and without subtraction."""
    widths = (160, 97, 33, 3)
    layers = network(widths, [None, None, None])
    tables = [
        make_masks(4, widths[0], scale, 0),
        None,
        make_masks(3, widths[2], scale, 1),
    ]
    block = Block(0, 5, 7, 11, masks)
    x = inputs(rows, widths[0])
    y = call(with_tables(x, layers, block, tables)).numpy()
    value = np.broadcast_to(x.astype("float64"), (7, *x.shape))
    for layer, table in zip(layers, tables, strict=True):
        if table is not None:
            value = value * keep(table, block, rows)
        value = value @ layer.kernel.astype("float64") + layer.bias
        value = np.maximum(value, 0)
    # 300 terms of float32 rounding, of sums of size 10.
    np.testing.assert_allclose(y, value, rtol=0, atol=300 * 1e-7 * 10)
    part = Block(0, 7, 3, 11 + rows // 2, masks)
    few = x[rows // 2 : rows // 2 + 1]
    alone = call(with_tables(few, layers, part, tables)).numpy()
    assert_same_bits(alone, y[2:5, rows // 2 : rows // 2 + 1])


def test_a_table_beside_other_noise():
    layers = network((59, 97, 33, 3), [0.3, None, -0.2])
    table = make_masks(4, 97, 2.0, 0)
    x, block = inputs(9, 59), Block(1, 2, 5, 3, "shared")
    y = call(with_tables(x, layers, block, [None, table, None])).numpy()
    for t in range(5):
        # The same network, whose hidden units the mask removes for good.
        mask = table[(2 + t) % 4][:, None].astype("float32")
        second = dataclasses.replace(layers[1], kernel=layers[1].kernel * mask)
        cut = [layers[0], second, layers[2]]
        one = call(arguments(x, cut, Block(1, 2 + t, 1, 3, "shared"))).numpy()
        np.testing.assert_allclose(y[t], one[0], rtol=1e-4, atol=1e-5)


def test_sequences_have_one_mask_per_row():
    table = make_masks(3, 16, 2.0, 0)
    layers = [identity(16)]
    x = inputs(4, 6, 16)
    for masks in MASKS:
        block = Block(0, 1, 4, 2, masks)
        y = call(with_tables(x, layers, block, [table])).numpy()
        mask = keep(table, block, 4)[:, :, None]
        assert_same_bits(y, np.where(mask, x, np.float32(0)))


BAD_TABLES = {
    "rank 1": np.ones([8], "uint8"),
    "rank 3": np.ones([2, 8, 1], "uint8"),
    "no mask": np.ones([0, 8], "uint8"),
    "too narrow": np.ones([2, 7], "uint8"),
    "too wide": np.ones([2, 9], "uint8"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused(name):
    good = with_tables(
        inputs(3, 8), [identity(8)], Block(), [np.ones([2, 8], "uint8")]
    )
    assert call(good).shape == (1, 3, 8)
    bad = {**good, "tables": [tf.constant(BAD_TABLES[name])]}
    with pytest.raises(InvalidArgument, match=r"table .*Expected.*Received"):
        call(bad)
    # Where only the ranks are known, the kernel says so when it runs.
    _, run = traced(bad, "unknown")
    with pytest.raises(InvalidArgument, match=r"table .*Expected.*Received"):
        run()


def test_other_bad_calls_are_refused():
    table = np.ones([2, 8], "uint8")
    good = with_tables(inputs(3, 8), [identity(8)], Block(), [table])
    for change, what in (
        ({"tables": []}, r"Expected 1 tables. Received: 0"),
        ({"tables": [tf.constant(table)] * 2}, "Received: 2"),
        ({"noise": ["bernoulli"]}, r"Expected 0 tables. Received: 1"),
        ({"thresholds": tf.constant([0], tf.uint32)}, "at least 1"),
    ):
        with pytest.raises(InvalidArgument, match=what):
            call({**good, **change})
    with pytest.raises((TypeError, InvalidArgument)):
        call({**good, "tables": [tf.ones([2, 8])]})


def test_shapes_are_checked_when_a_graph_is_traced():
    table = np.ones([2, 7], "uint8")
    good = with_tables(inputs(3, 8), [identity(8)], Block(), [table])
    with pytest.raises(ValueError, match="must be equal, but are"):
        traced(good, "known")


def model(*shape, **kwargs):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input(shape),
            Masksembles(3, 2.0, name="first", **kwargs),
            keras.layers.Dense(24, activation="relu"),
            keras.layers.BatchNormalization(),
            Masksembles(4, 2.0, name="second", **kwargs),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


@pytest.mark.parametrize("shape", [(16,), (5, 16)])
def test_engines_agree(shape):
    assert_engines_agree(model(*shape), inputs(5, *shape))


@pytest.mark.parametrize("on", ["first", "second"])
def test_engines_agree_where_masks_are_off(on):
    net = model(16)
    # Not ones: the factor of masks that are off matters.
    assert net.get_layer("first").masks.numpy().mean(axis=0).std() > 0.1
    assert_engines_agree(net, inputs(5, 16), layers=on)


def test_chains_go_through_tables():
    net = model(16)
    names = [layer.name for layer in net.layers]
    # A normalization between an activation and noise ends a chain.
    assert fused_paths(net) == names[:2] + names[3:]
    assert fused_paths(net, layers="first") == names


def test_new_masks_are_seen_without_a_new_program():
    net, x = model(16), inputs(5, 16)

    def mean():
        return kbd.predict_with_uncertainty(net, x, 12, verbose=0).mean

    before = mean()
    layer = net.get_layer("first")
    layer.masks.assign(layer.masks.numpy()[:, ::-1])
    assert np.abs(mean() - before).max() > 1e-3


def test_gpus_leave_tables_to_tensorflow():
    net = model(16)
    plan = build_plan(net)
    ops = op_library.library().ops
    engine = Fused(ops, ("float32",), on_cpu=False)
    why = "masks of a table are not compiled for GPUs"
    assert engine.why_not_fused(plan)[0] == why
    assert list(engine.steps(plan)) == list(plan.suffix)
    assert not Fused(ops, ("float32",)).why_not_fused(plan)[0]
