# SPDX-License-Identifier: Apache-2.0
"""The compiled op: its masks, its arithmetic, and what it refuses.

Masks are those of the counter contract, compared for equality. Results are
compared with float64 NumPy under the same masks, and with themselves, bit for
bit, when the same rows and samples come in other pieces.
"""

import concurrent.futures
import dataclasses
import os
import pickle
import subprocess
import sys
import warnings
from typing import Any

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from keras_bayesdrop.random import philox

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)

SEEDS = (0, 1, 2**63, 2**64 - 1)
WIDTHS = (1, 3, 4, 5, 59, 97, 1025)
MASKS = ("shared", "independent")
InvalidArgument = tf.errors.InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Layer:
    """One step of a chain, as the tests see it."""

    kernel: Any
    bias: Any = None
    activation: str = "linear"
    noise: Bernoulli | Gaussian | None = None
    site: int = 0
    per_entry: bool = False


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of samples of a block of rows."""

    seed: int = 0
    first_sample: int = 0
    num_samples: int = 1
    first_row: int = 0
    masks: str = "shared"
    x_per_sample: bool = False


def arguments(x, layers, block=None, /, **changes):
    """Returns the arguments of a call of the op."""
    block = block or Block()
    noises = [layer.noise for layer in layers]
    settings = {
        "x": tf.constant(x),
        "kernels": [tf.constant(layer.kernel) for layer in layers],
        "biases": [
            tf.constant(layer.bias)
            for layer in layers
            if layer.bias is not None
        ],
        "seed": tf.constant(block.seed, tf.uint64),
        "thresholds": tf.constant(
            [getattr(noise, "threshold", 0) for noise in noises], tf.uint32
        ),
        "scales": tf.constant(
            [scale_of(noise) for noise in noises], tf.float64
        ),
        "sites": tf.constant([layer.site for layer in layers], tf.uint32),
        "first_sample": tf.constant(block.first_sample, tf.int64),
        "num_samples": tf.constant(block.num_samples, tf.int64),
        "first_row": tf.constant(block.first_row, tf.int64),
        "has_bias": [layer.bias is not None for layer in layers],
        "noise": ["none" if noise is None else noise.kind for noise in noises],
        "per_entry": [layer.per_entry for layer in layers],
        "activations": [layer.activation for layer in layers],
        "masks": block.masks,
        "x_per_sample": block.x_per_sample,
    }
    return {**settings, **changes}


def scale_of(noise):
    if noise is None:
        return 1.0
    return noise.scale if isinstance(noise, Bernoulli) else noise.stddev


def call(arguments):
    return op_library.library().ops.keras_bayesdrop_dropout_chain(**arguments)


def run(x, layers, block=None, /, **changes):
    """Runs the op: [samples, rows, (entries,) units]."""
    return call(arguments(x, layers, block, **changes)).numpy()


def words_of(layer, block, rows, units):
    """Returns the words of a site as the reference engine makes them.

    uint32 [samples, rows or 1, units].
    """
    shared = block.masks == "shared"
    offset = block.first_sample % 16
    words = philox.counter_words(
        tf.constant(block.seed, tf.uint64),
        layer.site,
        block.first_sample,
        block.num_samples,
        -(-(offset + block.num_samples) // 16),
        0 if shared else block.first_row,
        1 if shared else rows,
        units,
    )
    return np.swapaxes(words.numpy(), 0, 1)


def multipliers(layer, block, rows, entries):
    """Returns float64 [samples, rows or 1, entries or 1, units]."""
    units = len(layer.kernel)
    if layer.noise is None:
        return np.ones([1, 1, 1, units])
    places = entries if layer.per_entry else 1
    words = words_of(layer, block, rows, places * units)
    words = words.reshape(*words.shape[:2], places, units)
    if isinstance(layer.noise, Bernoulli):
        return (words >= layer.noise.threshold) * layer.noise.scale
    normal = philox.words_to_normal(tf.constant(words), tf.float64).numpy()
    return 1 + layer.noise.stddev * normal


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def activate(name, x):
    """Applies an activation in float64, as Keras defines it."""
    return {
        "linear": lambda: x,
        "relu": lambda: np.maximum(x, 0),
        "sigmoid": lambda: scipy.special.expit(x),
        "tanh": lambda: np.tanh(x),
        "softmax": lambda: scipy.special.softmax(x, axis=-1),
        "elu": lambda: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "selu": lambda: (
            SELU_SCALE
            * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))
        ),
        "gelu": lambda: x * scipy.special.ndtr(x),
        "silu": lambda: x * scipy.special.expit(x),
        "softplus": lambda: np.logaddexp(x, 0),
        "leaky_relu": lambda: np.where(x < 0, 0.2 * x, x),
    }[name]()


def exact(x, layers, block):
    """Computes the chain in float64 NumPy, with a bound on rounding errors.

    Returns:
        The result, and by how much float arithmetic of the dtype of `x` may
        miss it in any order of summation: n terms are off by at most
        (n + 4) eps of the sum of their sizes, an activation stretches errors
        by at most 2 and adds 8 eps of its size (and at most 8 eps near 0).
    """
    eps = np.finfo(x.dtype).eps
    lead = 1 if block.x_per_sample else 0
    rank = x.ndim - lead
    shape = x.shape if rank == 3 else (*x.shape[:-1], 1, x.shape[-1])
    value = np.asarray(x, np.float64).reshape(shape)
    value = value if lead else value[None]
    value = np.repeat(value, 1 if lead else block.num_samples, axis=0)
    rows, entries = value.shape[1:3]
    error = np.zeros_like(value)
    for layer in layers:
        factor = multipliers(layer, block, rows, entries)
        size = np.abs(layer.kernel).astype(np.float64)
        # Of normal draws, single ones have errors of a few eps themselves.
        error = (error + 8 * eps * np.abs(value)) * np.abs(factor)
        if isinstance(layer.noise, Gaussian):
            error = error + 8 * eps * np.abs(value) * (1 + layer.noise.stddev)
        value = value * factor
        terms = len(layer.kernel) + 4
        bias = 0 if layer.bias is None else np.asarray(layer.bias, np.float64)
        error = error @ size + terms * eps * (
            np.abs(value) @ size + np.abs(bias)
        )
        value = value @ np.asarray(layer.kernel, np.float64) + bias
        value = activate(layer.activation, value)
        error = 2 * error + 8 * eps * np.abs(value)
        if layer.activation != "linear":
            error = error + 8 * eps
    final = (*value.shape[:2], *value.shape[2 if rank == 3 else 3 :])
    return value.reshape(final), error.reshape(final)


def reference(x, layers, block):
    """Computes the chain as the reference engine does, in the dtype of `x`."""
    lead = 1 if block.x_per_sample else 0
    rows, rank = x.shape[lead], x.ndim - lead
    draws = Draws(
        seed=tf.constant(block.seed, tf.uint64),
        first_sample=block.first_sample,
        num_samples=block.num_samples,
        num_blocks=-(-(block.first_sample % 16 + block.num_samples) // 16),
        first_row=block.first_row,
        num_rows=rows,
        shared=block.masks == "shared",
    )
    value, folded = tf.constant(x), bool(lead)
    if folded:
        value = tf.reshape(
            tf.experimental.numpy.swapaxes(value, 0, 1), [-1, *x.shape[2:]]
        )
    for layer in layers:
        if layer.noise is not None:
            everywhere = rank == 2 or layer.per_entry
            value = draws.perturb(
                value,
                layer.noise,
                None if everywhere else (None, 1, None),
                layer.site,
                folded=folded,
                whole_rows=True,
            )
        elif not folded:
            value = draws.fold(value)
        folded = True
        value = keras.ops.matmul(value, layer.kernel)
        if layer.bias is not None:
            value = keras.ops.add(value, layer.bias)
        with warnings.catch_warnings():
            # Of a softmax over one unit, which Keras takes for a mistake.
            warnings.simplefilter("ignore")
            value = keras.activations.get(layer.activation)(value)
    return np.swapaxes(draws.unfold(value).numpy(), 0, 1)


def network(
    widths,
    rates,
    activations="relu",
    *,
    dtype="float32",
    bias=True,
    seed=0,
    per_entry=False,
):
    """Makes layers of Glorot weights; a negative rate is Gaussian noise."""
    rng = np.random.default_rng(seed)
    layers = []
    for index, rate in enumerate(rates):
        sizes = widths[index : index + 2]
        noise = None
        if rate is not None:
            noise = Bernoulli(rate) if rate >= 0 else Gaussian(-rate)
        activation = (
            activations if isinstance(activations, str) else activations[index]
        )
        layers.append(
            Layer(
                rng.normal(
                    size=sizes, scale=1.4 * max(1, sum(sizes)) ** -0.5
                ).astype(dtype),
                rng.normal(size=sizes[1]).astype(dtype) if bias else None,
                activation,
                noise,
                index,
                per_entry,
            )
        )
    return layers


def inputs(*shape, dtype="float32", seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def assert_same_bits(actual, desired):
    assert actual.dtype == desired.dtype and actual.shape == desired.shape
    integer = np.dtype(f"u{actual.dtype.itemsize}")
    np.testing.assert_array_equal(
        np.ascontiguousarray(actual).view(integer),
        np.ascontiguousarray(desired).view(integer),
    )


def assert_within_bound(actual, x, layers, block):
    value, error = exact(x, layers, block)
    assert actual.dtype == x.dtype and actual.shape == value.shape
    assert np.all(np.isfinite(value))
    miss = np.abs(actual - value)
    assert np.all(miss <= error), (miss / np.maximum(error, 1e-300)).max()


def identity(width, dtype="float32", **kwargs):
    return Layer(np.eye(width, dtype=dtype), **kwargs)


# What is kept.


def kept(layer, block, rows):
    """Says which units the contract keeps: bool [samples, rows, units]."""
    words = words_of(layer, block, rows, len(layer.kernel))
    keep = words >= layer.noise.threshold
    return np.broadcast_to(keep, (block.num_samples, rows, keep.shape[-1]))


def assert_masks(layer, block, rows, dtype="float32"):
    """Ones through an identity kernel show the mask, and nothing else."""
    width = len(layer.kernel)
    shown = run(np.ones((rows, width), dtype), [layer], block)
    keep = kept(layer, block, rows)
    scale = np.asarray(layer.noise.scale, dtype)
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


@pytest.mark.parametrize("site", [0, 1, 2, 77, 2**31, 2**32 - 1])
def test_masks_of_every_site(site):
    layer = identity(59, noise=Bernoulli(0.4), site=site)
    for seed in SEEDS:
        assert_masks(layer, Block(seed, 5, 20, 9, "independent"), 3)


@pytest.mark.parametrize("masks", MASKS)
def test_every_step_has_the_mask_of_its_site(masks):
    sites = (9, 2, 4)
    layers = [
        identity(97, noise=Bernoulli(0.3), site=site, activation=activation)
        for site, activation in zip(
            sites, ("relu", "linear", "leaky_relu"), strict=True
        )
    ]
    block = Block(5, 14, 20, 3, masks)
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


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaussian_multipliers(dtype, masks):
    """Within 8 roundings of the quantile in float64, tails and all.

    A million words reach quantiles of 4.8 standard deviations.
    """
    for width in (1, 3, 59, 1025):
        layer = identity(width, dtype, noise=Gaussian(0.5), site=6)
        block = Block(2**63, 13, 45, 8, masks)
        rows = 20 if masks == "independent" else 2
        shown = run(np.ones((rows, width), dtype), [layer], block)
        words = words_of(layer, block, rows, width)
        normal = philox.words_to_normal(tf.constant(words), tf.float64).numpy()
        size = 1 + np.abs(normal)
        miss = np.abs(shown - (1 + normal)) / size
        assert miss.max() <= 8 * np.finfo(dtype).eps
        if width == 1025 and masks == "independent":
            assert np.abs(normal).max() > 4.5


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("per_entry", [False, True])
@pytest.mark.parametrize("width", [1, 3, 4, 59])
def test_masks_of_entries(width, per_entry, masks):
    """Entry e of a row has the units from e * width on, or the same ones."""
    entries, rows = 5, 3
    layer = identity(width, noise=Bernoulli(0.4), site=2, per_entry=per_entry)
    block = Block(11, 10, 21, 6, masks)
    shown = run(np.ones((rows, entries, width), "float32"), [layer], block)
    factor = multipliers(layer, block, rows, entries)
    expected = np.broadcast_to(factor, shown.shape).astype("float32")
    np.testing.assert_array_equal(shown, expected)
    alike = np.array_equal(shown[:, :, 0], shown[:, :, 1])
    assert alike != per_entry


# How exact results are.


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


# Results do not depend on what else is in the call.

CHAINS = {
    "dropped a little": ((59, 97, 33, 3), [0.1, 0.1, 0.2]),
    "dropped by half": ((59, 97, 33, 3), [0.2, 0.5, 0.5]),
    "dropped nearly all": ((97, 59, 3), [0.9, 0.95]),
    "gaussian": ((59, 33, 3), [-0.2, -0.5]),
    "mixed": ((59, 97, 33, 3), [None, 0.5, -0.1]),
    "wide": ((300, 260, 10), [0.2, 0.5]),
    "thin": ((1, 1), [0.3]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("kind", CHAINS)
def test_rows_and_samples_in_pieces(kind, masks, dtype):
    """Sizes around those at which the op splits its work."""
    widths, rates = CHAINS[kind]
    layers = network(
        widths, rates, ("selu", "tanh", "softmax")[: len(rates)], dtype=dtype
    )
    rows = 300 if kind != "wide" else 90
    x = inputs(rows, widths[0], dtype=dtype)
    whole = run(x, layers, Block(9, 5, 40, 1000, masks))
    for begin, end in ((0, 1), (7, 8), (1, 5), (80, 85), (3, 90), (17, rows)):
        for first, count in ((5, 40), (5, 1), (20, 2), (30, 15)):
            part = run(
                x[begin:end],
                layers,
                Block(9, first, count, 1000 + begin, masks),
            )
            assert_same_bits(
                part, whole[first - 5 : first - 5 + count, begin:end]
            )


def test_one_row_and_many_samples_in_pieces():
    layers = network((59, 97, 3), [0.2, 0.5])
    x = inputs(1, 59)
    for masks in MASKS:
        whole = run(x, layers, Block(1, 0, 1000, 3, masks))
        for first, count in ((0, 1), (1, 500), (999, 1), (511, 2)):
            part = run(x, layers, Block(1, first, count, 3, masks))
            assert_same_bits(part, whole[first : first + count])


@pytest.mark.parametrize("per_entry", [False, True])
@pytest.mark.parametrize("masks", MASKS)
def test_entries_in_pieces(masks, per_entry):
    layers = network((13, 31, 3), [0.2, 0.5], per_entry=per_entry)
    x = inputs(40, 7, 13)
    whole = run(x, layers, Block(1, 2, 20, 5, masks))
    for begin, end in ((0, 1), (3, 4), (1, 38)):
        for first, count in ((2, 1), (9, 13)):
            part = run(
                x[begin:end], layers, Block(1, first, count, 5 + begin, masks)
            )
            assert_same_bits(
                part, whole[first - 2 : first - 2 + count, begin:end]
            )


@pytest.mark.parametrize("masks", MASKS)
def test_samples_of_their_own_in_pieces(masks):
    layers = network((13, 31, 3), [0.2, 0.5])
    x = inputs(20, 40, 13)
    whole = run(x, layers, Block(1, 2, 20, 5, masks, True))
    for begin, end in ((0, 1), (3, 4), (1, 38)):
        for first, count in ((2, 1), (9, 13)):
            part = run(
                x[first - 2 : first - 2 + count, begin:end],
                layers,
                Block(1, first, count, 5 + begin, masks, True),
            )
            assert_same_bits(
                part, whole[first - 2 : first - 2 + count, begin:end]
            )


def test_the_same_call_twice():
    layers = network((300, 260, 10), [0.2, 0.5])
    x = inputs(200, 300)
    for masks in MASKS:
        block = Block(1, 0, 30, 0, masks)
        assert_same_bits(run(x, layers, block), run(x, layers, block))


# Results in other processes.


# Loads the op library alone, which is much quicker than the package.
PROGRAM = """
import pickle
import sys
import tensorflow as tf
library, calls_file, results_file = sys.argv[1:]
ops = tf.load_op_library(library)
def tensors(value):
    if isinstance(value, list) and value and not hasattr(value[0], "dtype"):
        return value
    return tf.nest.map_structure(tf.constant, value)
with open(calls_file, "rb") as file:
    calls = pickle.load(file)
results = {
    name: ops.keras_bayesdrop_dropout_chain(
        **{key: value if isinstance(value, (str, bool)) else tensors(value)
           for key, value in call.items()}).numpy()
    for name, call in calls.items()}
results["isa"] = ops.keras_bayesdrop_build().numpy().decode()
with open(results_file, "wb") as file:
    pickle.dump(results, file)
"""


def process_cases():
    """Returns x, layers and block, by names."""
    calls = {}
    for masks in MASKS:
        block = Block(5, 9, 40, 4, masks)
        for width in (5, 97):
            layers = [identity(width, noise=Bernoulli(0.4))]
            ones = np.ones((9, width), "float32")
            calls[f"{masks} masks {width}"] = ones, layers, block
        for kind in ("dropped a little", "dropped by half", "mixed", "wide"):
            widths, rates = CHAINS[kind]
            activations = ("selu", "gelu", "softmax")[: len(rates)]
            layers = network(widths, rates, activations)
            x = inputs(130, widths[0])
            calls[f"{masks} chain {kind}"] = x, layers, block
    return calls


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Results of processes of one thread, by the name of the instruction set.

    A set that the machine does not have is replaced by one that it has.
    """
    folder = tmp_path_factory.mktemp("processes")
    calls = {
        name: tf.nest.map_structure(
            lambda leaf: leaf.numpy() if tf.is_tensor(leaf) else leaf,
            arguments(*case),
        )
        for name, case in process_cases().items()
    }
    calls_file = folder / "calls"
    calls_file.write_bytes(pickle.dumps(calls))

    def results_in(isa):
        results_file = folder / isa
        library = op_library.library().path
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                PROGRAM,
                library,
                str(calls_file),
                str(results_file),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env={
                **os.environ,
                "KBD_ISA": isa,
                "TF_NUM_INTRAOP_THREADS": "1",
            },
        )
        assert done.returncode == 0, done.stderr
        return pickle.loads(results_file.read_bytes())

    names = sorted({"portable", "avx2", own_isa()})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(results_in, names), strict=True))


def own_isa():
    return op_library.library().instruction_set()[0]


def test_threads_do_not_matter(processes):
    """One thread there; here as many as `conftest.py` asks for, two."""
    there = processes[own_isa()]
    assert there["isa"].startswith(f"isa={own_isa()};")
    for name, case in process_cases().items():
        assert_same_bits(run(*case), there[name])


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_instruction_sets(processes, isa):
    """Same masks; results of each as exact as its arithmetic allows."""
    there = processes[isa]
    if isa == "portable":
        assert there["isa"].startswith("isa=portable;")
    for name, case in process_cases().items():
        if "masks" in name.split():
            np.testing.assert_array_equal(run(*case), there[name])
        else:
            assert_within_bound(there[name], *case)


# Shapes.


def traced(op_arguments, specs):
    """Traces a call whose tensors have only the shapes of `specs`."""
    tensors = {
        name: value
        for name, value in op_arguments.items()
        if isinstance(value, tf.Tensor)
        or (isinstance(value, list) and value and tf.is_tensor(value[0]))
    }
    rest = {
        name: op_arguments[name]
        for name in op_arguments.keys() - tensors.keys()
    }

    def spec(tensor):
        if specs == "unknown":
            return tf.TensorSpec(None, tensor.dtype)
        if specs == "ranks":
            return tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)
        return tf.TensorSpec(tensor.shape, tensor.dtype)

    signature = {
        name: [spec(each) for each in value]
        if isinstance(value, list)
        else spec(value)
        for name, value in tensors.items()
    }
    function = tf.function(
        lambda op_arguments: call({**op_arguments, **rest}),
        input_signature=[signature],
        autograph=False,
    )
    return function.get_concrete_function(), lambda: function(tensors)


@pytest.mark.parametrize("entries", [[], [7]])
@pytest.mark.parametrize("per_sample", [False, True])
def test_shapes(per_sample, entries):
    layers = network((5, 6, 3), [0.2, None])
    samples = [4] if per_sample else []
    x = inputs(*samples, 2, *entries, 5)
    block = Block(1, 0, 4, 0, "shared", per_sample)
    op_arguments = arguments(x, layers, block)
    shape = (4, 2, *entries, 3)
    whole = call(op_arguments).numpy()
    assert whole.shape == shape
    # Where `num_samples` is a constant its size is known to the shape function.
    constant = tf.function(lambda: call(op_arguments)).get_concrete_function()
    assert tuple(constant.output_shapes) == shape
    for specs, known in (
        ("full", (None, *shape[1:])),
        ("ranks", (None,) * len(shape)),
        ("unknown", None),
    ):
        function, run_it = traced(op_arguments, specs)
        if known is None:
            assert function.output_shapes.rank is None
        else:
            assert tuple(function.output_shapes) == known
        assert_same_bits(run_it().numpy(), whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("noise", [0.2, -0.2])
def test_nothing_of_everything(noise, masks, dtype):
    """Sizes of zero: an empty result, or what the bias makes of nothing."""
    x = inputs(3, 5, dtype=dtype)
    layers = network((5, 4, 2), [noise, noise], "tanh", dtype=dtype)
    block = Block(0, 0, 6, masks=masks)
    none = run(x, layers, dataclasses.replace(block, num_samples=0))
    assert none.shape == (0, 3, 2)
    assert run(x[:0], layers, block).shape == (6, 0, 2)
    assert run(np.zeros((3, 0, 5), dtype), layers, block).shape == (6, 3, 0, 2)
    for widths in ((0, 4, 2), (5, 0, 2), (0, 0, 2)):
        layers = network(widths, [noise, noise], "tanh", dtype=dtype)
        narrow = inputs(3, widths[0], dtype=dtype)
        shown = run(narrow, layers, block)
        assert_within_bound(shown, narrow, layers, block)
    layers = network((5, 4, 0), [noise, noise], "tanh", dtype=dtype)
    assert run(x, layers, block).shape == (6, 3, 0)
    layers = network((5, 0, 0), [noise, noise], "softmax", dtype=dtype)
    assert run(x, layers, block).shape == (6, 3, 0)


@pytest.mark.parametrize("masks", MASKS)
def test_no_noise_at_all(masks):
    layers = network((5, 4, 2), [None, None], "tanh")
    x = inputs(3, 5)
    shown = run(x, layers, Block(0, 0, 3, 0, masks))
    assert_same_bits(shown[0], shown[2])
    assert_within_bound(shown, x, layers, Block(0, 0, 3, 0, masks))


def test_scale_of_a_step_without_noise_is_not_used():
    layers = network((5, 4, 2), [None, 0.5])
    x = inputs(3, 5)
    odd = run(
        x,
        layers,
        scales=tf.constant([7.0, 2.0], tf.float64),
        thresholds=tf.constant([2**32 - 1, 2**31], tf.uint32),
    )
    assert_same_bits(odd, run(x, layers))


# What it refuses.


def vector(*values, dtype=tf.uint32):
    return tf.constant(list(values), dtype)


def floats(*shape):
    return tf.zeros(shape, tf.float32)


def int64(value):
    return tf.constant(value, tf.int64)


# Changes to a good call of two steps, [3, 5] to 4 to 2 units, and what the
# message must say.
BAD_TENSORS = {
    "x of rank 1": ({"x": floats(5)}, "x.*rank"),
    "x of rank 4": ({"x": floats(1, 2, 3, 5)}, "x.*rank"),
    "scalar x": ({"x": floats()}, "x.*rank"),
    "x too wide": ({"x": floats(3, 6)}, r"kernel 0.*\[6, units\].*\[5,4\]"),
    "x of no width": ({"x": floats(3, 0)}, "kernel 0"),
    "no samples axis": ({"x_per_sample": True}, "x.*samples, rows, k"),
    "too many axes": (
        {"x_per_sample": True, "x": floats(4, 1, 2, 3, 5)},
        "x.*rank",
    ),
    "too few samples": (
        {"x_per_sample": True, "x": floats(3, 2, 5)},
        "x.*samples.*Expected 4.*Received.*3,2,5",
    ),
    "kernel of rank 1": ({"kernels": [floats(5), floats(4, 2)]}, "kernel 0"),
    "kernel of rank 3": (
        {"kernels": [floats(5, 4), floats(4, 2, 1)]},
        "kernel 1",
    ),
    "kernels that do not chain": (
        {"kernels": [floats(5, 4), floats(5, 2)]},
        r"kernel 1.*\[4, units\].*\[5,2\]",
    ),
    "transposed kernel": (
        {"kernels": [floats(4, 5), floats(4, 2)]},
        "kernel 0",
    ),
    "long bias": (
        {"biases": [floats(5), floats(2)]},
        r"bias of kernel 0.*\[4\]",
    ),
    "scalar bias": ({"biases": [floats(4), floats()]}, "bias of kernel 1"),
    "bias of rank 2": ({"biases": [floats(4, 1), floats(2)]}, "bias.*kernel 0"),
    "seed that is a vector": (
        {"seed": vector(1, dtype=tf.uint64)},
        "seed.*scalar",
    ),
    "one threshold": ({"thresholds": vector(1)}, "thresholds.*per kernel"),
    "three scales": (
        {"scales": vector(1.0, 1.0, 1.0, dtype=tf.float64)},
        "scales.*per kernel",
    ),
    "no sites": ({"sites": tf.zeros([0], tf.uint32)}, "sites.*per kernel"),
    "sites of rank 2": ({"sites": tf.zeros([2, 1], tf.uint32)}, "sites"),
    "scalar threshold": (
        {"thresholds": tf.constant(0, tf.uint32)},
        "thresholds.*per kernel",
    ),
    "first samples": (
        {"first_sample": vector(0, 1, dtype=tf.int64)},
        "first_sample.*scalar",
    ),
    "numbers of samples": (
        {"num_samples": vector(4, dtype=tf.int64)},
        "num_samples.*scalar",
    ),
    "first rows": (
        {"first_row": vector(0, 1, 2, dtype=tf.int64)},
        "first_row.*scalar",
    ),
}
BAD_VALUES = {
    "negative number of samples": ({"num_samples": int64(-1)}, "num_samples"),
    "least number of samples": (
        {"num_samples": int64(-(2**63))},
        "num_samples",
    ),
    "most samples": ({"num_samples": int64(2**63 - 1)}, "num_samples"),
    "negative row": ({"first_row": int64(-1)}, "first_row"),
    "last row": ({"first_row": int64(2**63 - 1)}, "first_row"),
    "negative sample": ({"first_sample": int64(-1)}, "first_sample"),
    "last sample": ({"first_sample": int64(2**63 - 1)}, "first_sample"),
}
BAD_SETTINGS = {
    "short has_bias": ({"has_bias": [True]}, "has_bias.*per kernel"),
    "long has_bias": ({"has_bias": [True] * 3}, "has_bias.*per kernel"),
    "short noise": ({"noise": ["bernoulli"]}, "noise.*per kernel"),
    "long activations": ({"activations": ["relu"] * 3}, "activations.*kernel"),
    "short per_entry": ({"per_entry": [False]}, "per_entry.*per kernel"),
    "a bias too many": ({"has_bias": [True, False]}, "has_bias.*Expected 1"),
    "a bias too few": ({"biases": [floats(4)]}, "has_bias.*Expected 2"),
}
BAD_NAMES = {
    "unknown activation": ({"activations": ["relu", "mish"]}, "activations"),
    "upper case": ({"activations": ["relu", "ReLU"]}, "activations"),
    "no activation": ({"activations": ["relu", ""]}, "activations"),
    "unknown noise": ({"noise": ["bernoulli", "alpha"]}, "noise"),
    "unknown masks": ({"masks": "own"}, "masks"),
    "no settings": ({"has_bias": []}, "has_bias"),
}


def bad_call(changes):
    layers = network((5, 4, 2), [0.2, 0.5])
    return arguments(inputs(3, 5), layers, Block(0, 0, 4), **changes)


def cases(*tables):
    return pytest.mark.parametrize(
        ("changes", "message"),
        [
            pytest.param(*case, id=name)
            for table in tables
            for name, case in table.items()
        ],
    )


@cases(BAD_TENSORS, BAD_VALUES, BAD_SETTINGS, BAD_NAMES)
def test_bad_input_eagerly(changes, message):
    with pytest.raises(InvalidArgument, match=message) as caught:
        call(bad_call(changes))
    if changes.keys() & {"activations", "noise", "masks", "has_bias"}:
        return
    assert "DropoutChain" in str(caught.value)
    for beat in ("Expected", "Received"):
        assert beat in str(caught.value)


@cases(BAD_TENSORS, BAD_VALUES, BAD_SETTINGS)
def test_bad_input_in_a_function_of_unknown_shapes(changes, message):
    _, run_it = traced(bad_call(changes), "unknown")
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        run_it()


@cases(BAD_TENSORS, BAD_VALUES, BAD_SETTINGS)
def test_bad_input_in_a_function_of_known_shapes(changes, message):
    """A wrong shape is told when it is traced, everything else when it runs."""
    seen_by_shape = changes.keys() & {
        *("x", "kernels", "biases", "seed", "thresholds", "scales", "sites"),
        *("first_sample", "num_samples", "first_row"),
    }
    with pytest.raises((ValueError, InvalidArgument)):
        _, run_it = traced(bad_call(changes), "full")
        assert not seen_by_shape or changes.keys() & {
            *("first_sample", "num_samples", "first_row", "biases"),
            "x_per_sample",
        }
        run_it()


@cases(BAD_NAMES)
def test_bad_names_in_a_function(changes, message):
    with pytest.raises((ValueError, InvalidArgument), match=message):
        traced(bad_call(changes), "unknown")


@pytest.mark.parametrize(
    "changes",
    [
        {"x": tf.zeros([3, 5], tf.float64)},
        {"x": tf.zeros([3, 5], tf.float16)},
        {"x": tf.zeros([3, 5], tf.int32)},
        {"kernels": [floats(5, 4), tf.zeros([4, 2], tf.float64)]},
        {"biases": [tf.zeros([4], tf.float64), floats(2)]},
        {"kernels": [], "biases": []},
    ],
)
def test_bad_dtypes_and_no_steps(changes):
    # Half precision has kernels on GPUs only.
    wrong = (
        InvalidArgument,
        ValueError,
        TypeError,
        tf.errors.NotFoundError,
    )
    with pytest.raises(wrong):
        call(bad_call(changes))
    with pytest.raises(wrong):
        tf.function(lambda: call(bad_call(changes)))()


def test_more_samples_than_memory():
    for samples in (2**45, 2**57 - 1):
        with pytest.raises((InvalidArgument, tf.errors.ResourceExhaustedError)):
            call(bad_call({"num_samples": int64(samples)}))
    # The library lives.
    assert call(bad_call({})).shape == (4, 3, 2)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_do_not_touch_others(odd, masks):
    for rates in ([0.1, 0.5], [0.5, 0.2], [-0.2, -0.2], [None, 0.5]):
        layers = network((59, 97, 3), rates, "relu")
        block = Block(3, 0, 40, 0, masks)
        x = inputs(7, 59)
        clean = run(x, layers, block)
        x[2, 13] = odd
        shown = run(x, layers, block)
        others = [0, 1, 3, 4, 5, 6]
        assert_same_bits(shown[:, others], clean[:, others])


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(odd, masks):
    block = Block(3, 0, 40, 0, masks)
    x = np.ones((2, 5), "float32")
    for rate in (0.1, 0.5, -0.3):
        (layer,) = network((5, 4), [rate], "linear")
        keep = np.ones((40, 2), bool)
        if rate > 0:
            keep = kept(layer, block, 2)[..., 3]
        bad_x = x.copy()
        bad_x[:, 3] = odd
        shown = run(bad_x, [layer], block)
        assert not np.isfinite(shown[keep]).any()
        kernel = layer.kernel.copy()
        kernel[3, 2] = odd
        shown = run(x, [dataclasses.replace(layer, kernel=kernel)], block)
        assert not np.isfinite(shown[keep][:, 2]).any()
        assert np.isfinite(shown[..., [0, 1, 3]]).all()
        bias = layer.bias.copy()
        bias[1] = odd
        shown = run(x, [dataclasses.replace(layer, bias=bias)], block)
        assert not np.isfinite(shown[..., 1]).any()
        assert np.isfinite(shown[..., [0, 2, 3]]).all()
        if rate > 0:
            any_kept = kept(layer, block, 2).any(axis=-1)
            scales = tf.constant([odd], tf.float64)
            shown = run(x, [layer], block, scales=scales)
            assert not np.isfinite(shown[any_kept]).any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activations_of_what_is_not_finite(activation, dtype):
    """As TensorFlow has it: NaN stays NaN, infinities have their limits."""
    width = 2 if activation == "softmax" else 1
    x = np.ones((4, width), dtype)
    x[1:, 0] = np.nan, np.inf, -np.inf
    shown = run(x, [identity(width, dtype, activation=activation)])[0]
    with np.errstate(invalid="ignore"):
        # Zeros of the identity kernel turn infinities into NaN.
        product = tf.constant(x @ np.eye(width, dtype=dtype))
    expected = keras.activations.get(activation)(product).numpy()
    if activation in ("gelu", "silu"):
        # -inf times 0 is NaN in TensorFlow; the limit would do as well.
        expected[3] = expected[3] if np.isnan(shown[3]) else 0.0
    if activation == "softmax":
        # With AVX-512 TensorFlow makes [0, NaN] of [-inf, NaN].
        expected[np.isnan(product).any(axis=1)] = np.nan
    np.testing.assert_allclose(shown, expected, rtol=1e-6)


# Any chain.


@st.composite
def chains(draw):
    """Draws x, layers and a block, small enough to be exact about."""
    depth = draw(st.integers(1, 5), "depth")
    width = st.integers(1, 40)
    widths = draw(
        st.lists(width, min_size=depth + 1, max_size=depth + 1), "widths"
    )
    rate = st.none() | st.sampled_from(
        [0.0, 0.05, 0.25, 0.26, 0.5, 0.9, 1.0, -0.1, -0.5]
    )
    rates = draw(st.lists(rate, min_size=depth, max_size=depth), "rates")
    if draw(st.booleans(), "one rate next to 1"):
        # One only: its scale of 2^24 to the fifth would be too large.
        rates[draw(st.integers(0, depth - 1))] = 1 - 2**-24
    activations = draw(
        st.lists(st.sampled_from(ACTIVATIONS), min_size=depth, max_size=depth),
        "activations",
    )
    entries = draw(st.sampled_from([None, None, 1, 3, 5]), "entries")
    dtype = draw(st.sampled_from(["float32", "float64"]))
    layers = network(
        widths,
        rates,
        activations,
        dtype=dtype,
        seed=draw(st.integers(0, 3), "weights"),
    )
    layers = [
        dataclasses.replace(
            layer,
            bias=layer.bias if draw(st.booleans(), "bias") else None,
            site=draw(st.integers(0, 9), "site"),
            per_entry=entries is not None and draw(st.booleans(), "per_entry"),
        )
        for layer in layers
    ]
    block = Block(
        draw(st.integers(0, 2**64 - 1), "seed"),
        draw(st.integers(0, 40) | st.integers(0, 2**40), "first sample"),
        draw(st.integers(1, 40), "samples"),
        draw(st.integers(0, 40) | st.integers(0, 2**40), "first row"),
        draw(st.sampled_from(MASKS), "masks"),
        draw(st.booleans(), "x per sample"),
    )
    rows = draw(st.integers(1, 30), "rows")
    shape = [rows, *([] if entries is None else [entries]), widths[0]]
    if block.x_per_sample:
        shape = [block.num_samples, *shape]
    return inputs(*shape, dtype=dtype), layers, block


@hypothesis.settings(max_examples=120)
@hypothesis.given(chain=chains(), data=st.data())
def test_any_chain_in_any_pieces(chain, data):
    x, layers, block = chain
    whole = run(x, layers, block)
    assert_within_bound(whole, x, layers, block)
    first = data.draw(st.integers(0, block.num_samples - 1), "first")
    count = data.draw(st.integers(1, block.num_samples - first), "count")
    lead = 1 if block.x_per_sample else 0
    begin = data.draw(st.integers(0, x.shape[lead] - 1), "begin")
    end = data.draw(st.integers(begin + 1, x.shape[lead]), "end")
    part = x[first : first + count, begin:end] if lead else x[begin:end]
    there = dataclasses.replace(
        block,
        first_sample=block.first_sample + first,
        num_samples=count,
        first_row=block.first_row + begin,
    )
    assert_same_bits(
        run(part, layers, there), whole[first : first + count, begin:end]
    )


@hypothesis.settings(max_examples=40)
@hypothesis.given(chain=chains())
def test_any_chain_is_that_of_the_reference(chain):
    x, layers, block = chain
    # TensorFlow has their constants in float32, for float64 as well.
    rough = {"gelu", "leaky_relu"} & {layer.activation for layer in layers}
    hypothesis.assume(x.dtype == np.float32 or not rough)
    _, error = exact(x, layers, block)
    miss = np.abs(run(x, layers, block) - reference(x, layers, block))
    assert np.all(miss <= 2 * error)
