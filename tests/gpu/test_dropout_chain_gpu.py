# SPDX-License-Identifier: Apache-2.0
"""The compiled op on a GPU, against itself on the CPU and the reference.

Run by `make test-gpu` alone. Masks are compared for equality. In float32
without TF32, errors against float64 are at most twice those of the reference
engine on the same GPU.
"""

import concurrent.futures

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from tests.engines import chain_cases as chain
from tests.engines.chain_cases import Block
from tests.gpu.chain_on_gpu import ALL_MASKS
from tests.gpu.chain_on_gpu import SIZES
from tests.gpu.chain_on_gpu import TF32_OFF_AND_ON
from tests.gpu.chain_on_gpu import _numpy_type
from tests.gpu.chain_on_gpu import changed
from tests.gpu.chain_on_gpu import errors
from tests.gpu.chain_on_gpu import run


def assert_as_exact_as_the_reference(cases):
    """Twice the reference's error, and one unit of the largest output."""
    ours, theirs = np.max([errors(*case) for case in cases], axis=0)
    assert ours <= 2 * theirs + 1, f"{ours:.3g} > 2 * {theirs:.3g} + 1 eps"


# What is kept.


@TF32_OFF_AND_ON
@ALL_MASKS
@pytest.mark.parametrize("width", [*chain.WIDTHS, 128, 300])
def test_masks_are_those_of_the_cpu(width, masks, tf32):
    ones = np.ones((3, width), "float32")
    for rate in (0.1, 0.5, 0.8):
        layer = chain.identity(width, noise=Bernoulli(rate), site=3)
        block = Block(7, 5, 35, 2, masks)
        shown = run(ones, [layer], block)
        chain.assert_same_bits(shown, run(ones, [layer], block, "CPU:0"))
        keep = chain.kept(layer, block, 3)
        np.testing.assert_array_equal(shown != 0, keep)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@ALL_MASKS
def test_masks_in_16_bits(masks, dtype):
    for width in (*chain.WIDTHS, 128):
        layer = chain.identity(width, dtype, noise=Bernoulli(0.5), site=1)
        block = Block(2**63, 14, 20, 9, masks)
        shown = run(np.ones((3, width), dtype), [layer], block)
        np.testing.assert_array_equal(
            shown.astype("float32"), 2.0 * chain.kept(layer, block, 3)
        )


@ALL_MASKS
@pytest.mark.parametrize("first_row", [0, 1000, 2**33 + 5, 2**50])
@pytest.mark.parametrize("first_sample", [0, 15, 17, 2**36 - 7, 2**40 + 5])
def test_masks_of_every_place(first_sample, first_row, masks):
    layer = chain.identity(5, noise=Bernoulli(0.4), site=2**32 - 1)
    ones = np.ones((2, 5), "float32")
    for seed in chain.SEEDS:
        block = Block(seed, first_sample, 19, first_row, masks)
        np.testing.assert_array_equal(
            run(ones, [layer], block) != 0, chain.kept(layer, block, 2)
        )


@ALL_MASKS
@pytest.mark.parametrize("per_entry", [False, True])
def test_masks_of_entries(per_entry, masks):
    for width in (1, 3, 4, 59):
        layer = chain.identity(
            width, noise=Bernoulli(0.4), site=2, per_entry=per_entry
        )
        block = Block(11, 10, 21, 6, masks)
        ones = np.ones((3, 5, width), "float32")
        chain.assert_same_bits(
            run(ones, [layer], block), run(ones, [layer], block, "CPU:0")
        )


@ALL_MASKS
def test_gaussian_multipliers(masks):
    """Within 8 roundings of the quantile in float64."""
    layer = chain.identity(1025, noise=Gaussian(0.5), site=6)
    block = Block(2**63, 13, 45, 8, masks)
    shown = run(np.ones((20, 1025), "float32"), [layer], block)
    factor = chain.multipliers(layer, block, 20, 1)[:, :, 0]
    miss = np.abs(shown - factor) / (1 + np.abs(factor - 1) / 0.5)
    assert miss.max() <= 8 * np.finfo("float32").eps


# How exact results are.


@ALL_MASKS
@pytest.mark.parametrize("rate", [0.05, 0.5, -0.3])
@pytest.mark.parametrize("widths", SIZES)
def test_accuracy_of_odd_sizes(widths, rate, masks):
    assert_as_exact_as_the_reference(
        (
            chain.inputs((1, 20, 67, 131)[seed % 4], widths[0], seed=seed),
            chain.network(widths, [rate] * (len(widths) - 1), seed=seed),
            Block(seed, 0, 24, masks=masks),
        )
        for seed in range(8)
    )


@ALL_MASKS
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_accuracy_of_every_activation(activation, masks):
    cases = [
        (
            chain.inputs(67, 59, seed=seed),
            chain.network((59, 131, 5), [0.1, 0.5], activation, seed=seed),
            Block(seed, 3, 20, masks=masks),
        )
        for seed in range(3)
    ]
    for case in cases:
        chain.assert_within_bound(run(*case), *case)
    assert_as_exact_as_the_reference(cases)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_far_and_near(activation):
    """Each unit alone, so that large ones do not hide small ones."""
    sizes = [0.0, 1e-8, 1e-4, 0.01, 0.3, 1, 2, 5, 10, 20, 50, 88, 89, 104, 1e4]
    x = np.array([s * size for size in sizes for s in (1, -1)], "float32")
    layer = chain.identity(len(x), activation=activation)
    shown = run(x[None], [layer])[0, 0]
    expected = chain.activate(activation, x.astype("float64"))
    info = np.finfo("float32")
    allowed = 8 * info.eps * np.abs(expected) + 8 * info.tiny
    allowed += info.tiny * np.minimum(np.abs(x), 1e4)
    if activation == "gelu":
        allowed += 8 * info.eps * np.where(x < 0, 1e-2 * np.abs(x), 0)
    miss = np.abs(shown - expected)
    worst = np.argmax(miss - allowed)
    assert np.all(miss <= allowed), (x[worst], shown[worst], expected[worst])


@ALL_MASKS
@pytest.mark.parametrize("rate", [0.0, 0.999, 1.0])
def test_accuracy_of_extreme_rates(rate, masks):
    for rates in ([rate, 0.5], [0.1, rate], [rate, None]):
        assert_as_exact_as_the_reference(
            (
                chain.inputs(20, 97, seed=seed),
                chain.network(
                    (97, 59, 3), rates, ("tanh", "linear"), seed=seed
                ),
                Block(seed, 0, 64, masks=masks),
            )
            for seed in range(4)
        )


@ALL_MASKS
@pytest.mark.parametrize("per_sample", [False, True])
def test_close_to_the_cpu(per_sample, masks):
    """Entries, inputs of their own for each sample, softmax in between."""
    layers = chain.network(
        (13, 131, 67, 3),
        [0.2, 0.5, -0.1],
        ("relu", "softmax", "linear"),
        per_entry=True,
    )
    samples = [20] if per_sample else []
    x = chain.inputs(*samples, 40, 7, 13)
    block = Block(1, 2, 20, 5, masks, per_sample)
    chain.assert_within_bound(run(x, layers, block), x, layers, block)
    _, error = chain.exact(x, layers, block)
    there = run(x, layers, block, "CPU:0")
    assert np.all(np.abs(run(x, layers, block) - there) <= 2 * error)


# Results do not depend on what else is in the call.


@TF32_OFF_AND_ON
@ALL_MASKS
@pytest.mark.parametrize("kind", chain.CHAINS)
def test_rows_and_samples_in_pieces(kind, masks, tf32):
    widths, rates = chain.CHAINS[kind]
    activations = ("selu", "tanh", "softmax")[: len(rates)]
    layers = chain.network(widths, rates, activations)
    x = chain.inputs(300, widths[0])
    whole = run(x, layers, Block(9, 5, 40, 1000, masks))
    for begin, end in ((0, 1), (7, 8), (80, 85), (3, 90), (17, 300)):
        for first, count in ((5, 40), (5, 1), (20, 2), (30, 15)):
            part = run(
                x[begin:end],
                layers,
                Block(9, first, count, 1000 + begin, masks),
            )
            chain.assert_same_bits(
                part, whole[first - 5 : first - 5 + count, begin:end]
            )


@TF32_OFF_AND_ON
@ALL_MASKS
def test_many_samples(masks, tf32):
    """More than a grid has blocks along z."""
    layers = chain.network((5, 9, 2), [0.2, 0.5])
    x = chain.inputs(3, 5)
    whole = run(x, layers, Block(1, 0, 70_000, 3, masks))
    for first, count in ((0, 5), (65_530, 20), (69_999, 1)):
        part = run(x, layers, Block(1, first, count, 3, masks))
        chain.assert_same_bits(part, whole[first : first + count])


@ALL_MASKS
def test_more_samples_than_the_workspace_holds(masks):
    layers = chain.network((300, 1200, 1200, 10), [0.2, 0.5, 0.5])
    x = chain.inputs(256, 300)
    whole = run(x, layers, Block(1, 0, 100, 3, masks))
    for first, count in ((0, 1), (20, 30), (99, 1)):
        part = run(x, layers, Block(1, first, count, 3, masks))
        chain.assert_same_bits(part, whole[first : first + count])


@ALL_MASKS
def test_many_rows(masks):
    layers = chain.network((5, 9, 2), [0.2, 0.5])
    x = chain.inputs(200_001, 5)
    whole = run(x, layers, Block(1, 0, 2, 3, masks))
    for begin, end in ((0, 5), (65_530, 65_550), (200_000, 200_001)):
        part = run(x[begin:end], layers, Block(1, 0, 2, 3 + begin, masks))
        chain.assert_same_bits(part, whole[:, begin:end])


@TF32_OFF_AND_ON
@ALL_MASKS
def test_the_same_call_twice_and_at_the_same_time(masks, tf32):
    layers = chain.network((300, 260, 10), [0.2, 0.5])
    x, block = chain.inputs(200, 300), Block(1, 0, 30, 0, masks)
    first = run(x, layers, block)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for again in pool.map(lambda _: run(x, layers, block), range(8)):
            chain.assert_same_bits(again, first)


# Empty and wrong.


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_nothing_to_do(shape):
    layers = chain.network((shape[1], 4, 3), [0.5, 0.5])
    x = np.zeros(shape, "float32")
    for samples in (0, 3):
        block = Block(0, 0, samples)
        chain.assert_same_bits(
            run(x, layers, block), run(x, layers, block, "CPU:0")
        )


def test_wrong_shapes_are_refused():
    layers = chain.network((5, 4, 3), [0.5, 0.5])
    with pytest.raises(chain.InvalidArgument, match="kernel 0"):
        run(chain.inputs(2, 6), layers)


# The engine around it.


@ALL_MASKS
@pytest.mark.parametrize(
    "policy", ["float32", "mixed_float16", "mixed_bfloat16"]
)
def test_whole_predictions(policy, masks):
    """The engine that is chosen, beside the reference.

    Both compute in the policy's numbers, and probabilities are at most 1:
    after three layers some 16 roundings are allowed.
    """
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential(
        [
            keras.Input((59,)),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(131, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(67, activation="gelu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    x = chain.inputs(67, 59)
    answers = [
        np.asarray(
            kbd.predict_with_uncertainty(
                model,
                x,
                24,
                seed=3,
                return_samples=True,
                verbose=0,
                method=kbd.Sampling(masks=masks, engine=engine),
            ).samples,
            "float64",
        )
        for engine in ("auto", "reference")
    ]
    eps = {
        "float32": 2.0**-23,
        "mixed_float16": 2.0**-10,
        "mixed_bfloat16": 2.0**-7,
    }[policy]
    np.testing.assert_allclose(*answers, rtol=0, atol=16 * eps)


# For compute-sanitizer, which makes everything many times slower.


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@TF32_OFF_AND_ON
@ALL_MASKS
def test_one_of_everything(masks, tf32, dtype):
    """Every tile and every kind of copy, in few launches."""
    kind = _numpy_type(dtype) if dtype != "float32" else np.dtype("float32")
    for widths, rows in (((59, 67, 3), 5), ((64, 128, 8), 131), ((5, 300), 70)):
        for rate in (0.5, -0.3):
            layers = [
                changed(layer, lambda a: a.astype(kind))
                for layer in chain.network(
                    widths, [rate] * (len(widths) - 1), "softmax"
                )
            ]
            x = chain.inputs(rows, widths[0]).astype(kind)
            y = run(x, layers, Block(1, 3, 7, 2, masks))
            # Rows of probabilities, each rounded: 300 of at most eps each.
            total = y.astype("float64").sum(axis=-1)
            np.testing.assert_allclose(total, 1, atol=0.05)
