# SPDX-License-Identifier: Apache-2.0
"""The compiled op is as exact as the reference engine.

Results are compared with float64 NumPy under the same masks.
"""

import dataclasses

import numpy as np
import pytest

from keras_bayesdrop._core import op_library
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from tests.engines.chain_cases import MASKS
from tests.engines.chain_cases import Block
from tests.engines.chain_cases import Layer
from tests.engines.chain_cases import activate
from tests.engines.chain_cases import assert_same_bits
from tests.engines.chain_cases import assert_within_bound
from tests.engines.chain_cases import exact
from tests.engines.chain_cases import identity
from tests.engines.chain_cases import inputs
from tests.engines.chain_cases import kept
from tests.engines.chain_cases import network
from tests.engines.chain_cases import reference
from tests.engines.chain_cases import run

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)


def errors(x, layers, block, where=None):
    """Returns the largest error of the op, and that of the reference.

    Over all outputs, or those `where`, in units of eps of the largest.
    """
    value, _ = exact(x, layers, block)
    assert np.all(np.isfinite(value))
    where = slice(None) if where is None else where
    value = value[where]
    unit = np.finfo(x.dtype).eps * max(np.abs(value).max(), 1e-30)
    return tuple(
        np.abs(engine(x, layers, block)[where] - value).max() / unit
        for engine in (run, reference)
    )


def assert_as_exact_as_the_reference(cases):
    """Asserts the rule of accuracy.

    The largest error over all outputs is at most twice that of the reference
    engine in the same dtype, and one unit in the last place of the largest
    output: a reference that happens to be exact is no standard. Both are
    taken over several networks, so that neither is lucky.
    """
    ours, theirs = np.max([errors(*case) for case in cases], axis=0)
    assert ours <= 2 * theirs + 1, f"{ours:.3g} > 2 * {theirs:.3g} + 1 eps"


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, -0.3])
@pytest.mark.parametrize(
    "widths",
    [(1, 1), (1, 59, 1), (3, 97, 59), (59, 1, 97), (97, 1025, 3), (1025, 59)],
)
def test_accuracy_of_odd_sizes(widths, rate, masks):
    assert_as_exact_as_the_reference(
        (
            inputs(20 if seed % 2 else 1, widths[0], seed=seed),
            network(widths, [rate] * (len(widths) - 1), seed=seed),
            Block(seed, 0, 24, masks=masks),
        )
        for seed in range(6)
    )


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("rate", [0.0, 0.999, 1 - 2**-24, 1.0])
def test_accuracy_of_extreme_rates(rate, masks):
    for rates in ([rate, 0.5], [0.1, rate], [rate, None]):
        assert_as_exact_as_the_reference(
            (
                inputs(20, 97, seed=seed),
                network((97, 59, 3), rates, ("tanh", "linear"), seed=seed),
                Block(seed, 0, 64, masks=masks),
            )
            for seed in range(4)
        )


@pytest.mark.parametrize("masks", MASKS)
def test_nothing_but_the_bias_when_all_is_dropped(masks):
    x = inputs(3, 5)
    layers = network((5, 4, 2), [0.7, 0.5], "tanh")
    block = Block(0, 0, 200, masks=masks)
    gone = ~kept(layers[0], block, 3).any(axis=-1)
    assert gone.any()  # 0.7^5 = 0.17 of the samples.
    shown = run(x, layers[:1], block)
    alone = run(np.zeros_like(x), layers[:1], block)
    assert_same_bits(shown[gone], alone[gone])
    assert_as_exact_as_the_reference([(x, layers, block, gone)])
    for layer in (0, 1):  # Rate 1: not by chance, but in every sample.
        rates = [0.3, 0.3]
        rates[layer] = 1.0
        layers = network((5, 4, 2), rates, "tanh")
        shown = run(x, layers, block)
        without = [*layers]
        without[layer] = dataclasses.replace(
            layers[layer], kernel=np.zeros_like(layers[layer].kernel)
        )
        np.testing.assert_array_equal(shown, run(x, without, block))


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("depth", range(1, 9))
def test_accuracy_of_every_depth(depth, masks):
    assert_as_exact_as_the_reference(
        (
            inputs(20, 33, seed=seed),
            network([33] * (depth + 1), [0.2] + [0.5] * (depth - 1), seed=seed),
            Block(seed, 3, 20, masks=masks),
        )
        for seed in range(5)
    )


@pytest.mark.parametrize(
    ("dtype", "bias"),
    [("float32", True), ("float32", False), ("float64", True)],
)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_accuracy_of_every_activation(activation, bias, dtype):
    for masks in MASKS:
        cases = [
            (
                inputs(30, 59, dtype=dtype, seed=seed),
                network(
                    (59, 31, 5),
                    [0.1, 0.5],
                    activation,
                    bias=bias,
                    dtype=dtype,
                    seed=seed,
                ),
                Block(seed, 3, 20, masks=masks),
            )
            for seed in range(3)
        ]
        for x, layers, block in cases:
            assert_within_bound(run(x, layers, block), x, layers, block)
        if dtype == "float32":
            assert_as_exact_as_the_reference(cases)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_far_and_near(activation, dtype):
    """Each unit alone, so that large ones do not hide small ones."""
    sizes = [0.0, 1e-30, 1e-8, 1e-4, 0.01, 0.3, 0.7, 1, 2, 5, 10, 20, 50]
    sizes += [80, 88, 89, 100, 103, 104, 110, 200, 700, 750, 1e4, 1e30]
    x = np.array([sign * size for size in sizes for sign in (1, -1)], dtype)
    width = len(x)
    shown = run(
        x[None], [identity(width, dtype, activation=activation)], Block()
    )[0, 0]
    expected = activate(activation, x.astype(np.float64))
    assert np.all(np.isfinite(shown))
    # 8 roundings of the result. A factor below the smallest normal number is
    # lost, as in TensorFlow; so are digits of gelu far below zero, where it is
    # the product of x and a difference.
    info = np.finfo(dtype)
    allowed = 8 * info.eps * np.abs(expected) + 8 * info.tiny
    allowed += info.tiny * np.minimum(np.abs(x), 1e4)
    if activation == "gelu":
        allowed += 8 * info.eps * np.where(x < 0, 1e-2 * np.abs(x), 0)
    miss = np.abs(shown - expected)
    worst = np.argmax(miss - allowed)
    assert np.all(miss <= allowed), (x[worst], shown[worst], expected[worst])


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("size", [30.0, 1e4, 1e8])
def test_a_large_input_that_is_dropped_leaves_no_trace(size, masks):
    """Samples without it are as exact as if it had never been there."""
    assert_as_exact_as_the_reference(without_unit_17(size, 1.0, masks))


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("size", [30.0, 1e4, 1e8])
def test_a_large_weight_that_is_dropped_leaves_no_trace(size, masks):
    assert_as_exact_as_the_reference(without_unit_17(1.0, size, masks))


def without_unit_17(input_size, weight_size, masks):
    """Yields networks with one unit that counts, and samples that drop it."""
    for seed in range(3):
        block = Block(seed, 0, 100, masks=masks)
        first, last = network((64, 32, 4), [0.1, 0.5], seed=seed)
        x = inputs(6, 64, seed=seed)
        x[:, 17] *= input_size
        first.kernel[17] *= weight_size
        gone = ~kept(first, block, 6)[..., 17]
        assert gone.any()
        yield x, [first, last], block, gone


def test_sums_that_would_overflow_with_what_is_dropped():
    """3.5e38 in all is too much for float32; what is kept is not."""
    x = np.full((3, 16), np.float32(3.5e38 / 16))
    layers = [Layer(np.ones((16, 2), "float32"), noise=Bernoulli(0.2))]
    block = Block(0, 0, 60)
    count = kept(layers[0], block, 3).sum(axis=-1)
    assert {11, 12} <= set(count[:, 0].tolist())
    fits = count <= 12
    shown = run(x, layers, block)
    value, error = exact(x, layers, block)
    assert np.all(np.abs(shown - value)[fits] <= error[fits])


@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e-20, 1e15, 1e18])
def test_tiny_and_huge_inputs(size):
    x = (inputs(4, 33) * size).astype("float32")
    for rate in (0.1, 0.5):
        layers = network((33, 8), [rate], "linear", bias=False)
        for masks in MASKS:
            block = Block(4, 0, 40, masks=masks)
            value, error = exact(x, layers, block)
            # What is smaller than the smallest normal number may be lost.
            lost = 64 * np.finfo(np.float32).tiny
            miss = np.abs(run(x, layers, block) - value)
            assert np.all(miss <= error + lost)
