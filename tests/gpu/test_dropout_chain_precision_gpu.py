# SPDX-License-Identifier: Apache-2.0
"""The compiled op on a GPU in TF32 and in 16 bits.

Run by `make test-gpu` alone. The references are chains in float64 with rounded
operands (TF32) or rounded results (16 bits).
"""

import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from tests.engines import chain_cases as chain
from tests.engines.chain_cases import Block
from tests.gpu.chain_on_gpu import ALL_MASKS
from tests.gpu.chain_on_gpu import EPS
from tests.gpu.chain_on_gpu import SIZES
from tests.gpu.chain_on_gpu import changed
from tests.gpu.chain_on_gpu import run
from tests.gpu.chain_on_gpu import run_16_bits
from tests.gpu.chain_on_gpu import to_16_bits


def to_tf32(value):
    """Rounds to the nearest number of TF32, ties away from zero."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def rounded(x, layers, block, operand, result):
    """Computes a chain in float64, but for what is rounded.

    Args:
        x: float32 [rows, units].
        layers: Of the network.
        block: Which samples.
        operand: Rounds both operands of a matmul.
        result: Rounds what a layer returns.
    """
    value = np.repeat(x[None].astype("float64"), block.num_samples, axis=0)
    for layer in layers:
        factor = chain.multipliers(layer, block, len(x), 1)[:, :, 0]
        scale = 1.0
        if isinstance(layer.noise, Bernoulli):
            scale = layer.noise.scale
            factor = factor != 0
        left = operand(value * factor).astype("float64")
        total = scale * (left @ operand(layer.kernel).astype("float64"))
        if layer.bias is not None:
            total = total + layer.bias
        value = result(chain.activate(layer.activation, total))
        value = value.astype("float64")
    return value


def assert_as_exact_as_rounded(cases, name, operand, result, compute):
    """Twice the error of the rounded chain, and one unit of the largest."""
    ours, theirs = [], []
    for x, layers, block in cases:
        value, _ = chain.exact(x, layers, block)
        unit = EPS[name] * max(np.abs(value).max(), 1e-30)
        low = rounded(x, layers, block, operand, result)
        ours.append(np.abs(compute(x, layers, block) - value).max() / unit)
        theirs.append(np.abs(low - value).max() / unit)
    limit = 2 * max(theirs) + 1
    assert max(ours) <= limit, f"{max(ours):.3g} > {limit:.3g} eps"


@pytest.mark.parametrize("tf32", [True], indirect=True)
@ALL_MASKS
@pytest.mark.parametrize("rate", [0.05, 0.5, -0.3])
@pytest.mark.parametrize("widths", SIZES)
def test_accuracy_of_tf32(widths, rate, masks, tf32):
    cases = [
        (
            chain.inputs((1, 20, 67, 131)[seed % 4], widths[0], seed=seed),
            chain.network(widths, [rate] * (len(widths) - 1), seed=seed),
            Block(seed, 0, 24, masks=masks),
        )
        for seed in range(4)
    ]
    assert_as_exact_as_rounded(cases, "tf32", to_tf32, np.asarray, run)


@pytest.mark.parametrize("tf32", [True], indirect=True)
def test_the_switch_is_obeyed(tf32):
    """On, products are rounded to TF32 if the GPU can; off, they are not."""
    details = tf.config.experimental.get_device_details(
        tf.config.list_physical_devices("GPU")[0]
    )
    layers = chain.network((300, 300, 10), [0.2, 0.5], "tanh")
    x, block = chain.inputs(131, 300), Block(1, 0, 20)
    value, _ = chain.exact(x, layers, block)
    on = np.abs(run(x, layers, block) - value).max()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    off = np.abs(run(x, layers, block) - value).max()
    if details.get("compute_capability", (0, 0)) >= (8, 0):
        assert on > 20 * off
    else:
        assert on == off


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@ALL_MASKS
@pytest.mark.parametrize("rate", [0.05, 0.5, -0.3])
@pytest.mark.parametrize("widths", SIZES)
def test_accuracy_in_16_bits(widths, rate, masks, dtype):
    cases = []
    for seed in range(4):
        layers = chain.network(widths, [rate] * (len(widths) - 1), seed=seed)
        rows = (1, 20, 67, 131)[seed % 4]
        cases.append(
            (
                to_16_bits(chain.inputs(rows, widths[0], seed=seed), dtype),
                [
                    changed(layer, lambda a: to_16_bits(a, dtype))
                    for layer in layers
                ],
                Block(seed, 0, 24, masks=masks),
            )
        )
    assert_as_exact_as_rounded(
        cases,
        dtype,
        # Noise that is not zero or one is rounded with what it falls on.
        lambda value: to_16_bits(value, dtype),
        lambda value: to_16_bits(value, dtype),
        lambda *case: run_16_bits(*case, dtype),
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_in_16_bits(activation, dtype):
    layers = [
        changed(layer, lambda a: to_16_bits(a, dtype))
        for layer in chain.network((59, 131, 5), [0.1, 0.5], activation)
    ]
    x = to_16_bits(chain.inputs(67, 59), dtype)
    assert_as_exact_as_rounded(
        [(x, layers, Block(3, 3, 20))],
        dtype,
        lambda value: to_16_bits(value, dtype),
        lambda value: to_16_bits(value, dtype),
        lambda *case: run_16_bits(*case, dtype),
    )
