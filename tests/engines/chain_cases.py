# SPDX-License-Identifier: Apache-2.0
"""Chains of layers, their runs by the compiled op, and exact results.

Masks are those of the counter contract. `exact` is float64 NumPy under the same
masks, and `reference` the reference engine.
"""

import dataclasses
import warnings
from typing import Any

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.random import philox

SEEDS = (0, 1, 2**63, 2**64 - 1)
WIDTHS = (1, 3, 4, 5, 59, 97, 1025)
MASKS = ("shared", "independent")
DRAWS = ("independent", "balanced")
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
    draws: str = "independent"


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
        "tables": [],
        "masks": block.masks,
        "draws": block.draws,
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
        block.draws == "balanced",
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
        balanced=block.draws == "balanced",
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


def kept(layer, block, rows):
    """Says which units the contract keeps: bool [samples, rows, units]."""
    words = words_of(layer, block, rows, len(layer.kernel))
    keep = words >= layer.noise.threshold
    return np.broadcast_to(keep, (block.num_samples, rows, keep.shape[-1]))


CHAINS = {
    "dropped a little": ((59, 97, 33, 3), [0.1, 0.1, 0.2]),
    "dropped by half": ((59, 97, 33, 3), [0.2, 0.5, 0.5]),
    "dropped nearly all": ((97, 59, 3), [0.9, 0.95]),
    "gaussian": ((59, 33, 3), [-0.2, -0.5]),
    "mixed": ((59, 97, 33, 3), [None, 0.5, -0.1]),
    "wide": ((300, 260, 10), [0.2, 0.5]),
    "thin": ((1, 1), [0.3]),
}


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
