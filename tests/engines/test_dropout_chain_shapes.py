# SPDX-License-Identifier: Apache-2.0
"""The compiled op on empty inputs, unknown shapes and non-finite numbers."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from tests.engines.chain_cases import MASKS
from tests.engines.chain_cases import Block
from tests.engines.chain_cases import arguments
from tests.engines.chain_cases import assert_same_bits
from tests.engines.chain_cases import assert_within_bound
from tests.engines.chain_cases import call
from tests.engines.chain_cases import identity
from tests.engines.chain_cases import inputs
from tests.engines.chain_cases import kept
from tests.engines.chain_cases import network
from tests.engines.chain_cases import run
from tests.engines.chain_cases import traced

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)


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
