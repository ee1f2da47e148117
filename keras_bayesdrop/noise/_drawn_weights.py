# SPDX-License-Identifier: Apache-2.0
"""Calls a layer whose weights are drawn, for a block of samples and rows."""

from typing import TYPE_CHECKING
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.dims import dims_from
from keras_bayesdrop._core.dims import shape_of_dims
from keras_bayesdrop.noise.layer_noise import WeightNoise
from keras_bayesdrop.random.philox import sample_words

if TYPE_CHECKING:
    from keras_bayesdrop.noise.draws import Draws

# Draws of weights that may be under way together.
_DRAWS_AT_ONCE = 2


def call_with_drawn_weights(
    draws: "Draws",
    x: tf.Tensor,
    noise: WeightNoise,
    site: int,
    folded: bool,
    whole_rows: bool,
) -> tf.Tensor:
    """Calls a layer with weights of their own for every sample.

    With one mask per row every row has weights of its own too. A draw lives
    only as long as its product takes: memory is that of a few draws, however
    many samples there are.

    Args:
        draws: The block of samples and rows.
        x: Tensor, [rows, ...] or folded.
        noise: The noise on the weights, with its layer.
        site: Number of the site.
        folded: Whether `x` is folded already.
        whole_rows: Whether the first axis of `x` is known to hold one entry
            per row.

    Returns:
        Folded tensor.
    """
    layer = noise.layer
    shared = draws.shared or draws.rows_mix
    samples = draws.num_samples if folded else 1
    row_units = layer.row_units(x) if whole_rows else None
    dims = dims_from(x, 1)
    if not shared and row_units is not None:
        grouped = tf.reshape(x, shape_of_dims([draws.num_rows, samples, *dims]))
        words = draws.words(site, None, [row_units])
        return _without_groups(layer.call_rows(grouped, words), 2)
    entries = 1 if whole_rows else tf.shape(x)[0] // (draws.num_rows * samples)
    grouped = tf.reshape(
        x, shape_of_dims([draws.num_rows, samples, entries, *dims])
    )
    by_sample = _swap(grouped)  # [samples or 1, rows, entries, ...]

    def inputs_of(sample: tf.Tensor) -> tf.Tensor:
        """Returns [rows, entries, ...] of a sample of the block."""
        return by_sample[sample if folded else 0]

    def run(inputs: tf.Tensor, sample: tf.Tensor, row: Any) -> tf.Tensor:
        number = tf.cast(draws.first_sample + sample, tf.int64)
        words = sample_words(
            draws.seed, site, number, row, layer.weight_units, draws.balanced
        )
        return noise.apply(inputs, words)

    def run_sample(sample: tf.Tensor) -> tf.Tensor:
        return run(_merged(inputs_of(sample), x), sample, 0)

    def run_row(place: tf.Tensor) -> tf.Tensor:
        sample, row = place // rows, place % rows
        number = tf.cast(draws.first_row, tf.int64) + row
        return run(inputs_of(sample)[row], sample, number)

    rows = tf.cast(draws.num_rows, tf.int64)
    block = tf.cast(draws.num_samples, tf.int64)
    outputs = tf.map_fn(
        # Nothing here depends on values, so there is nothing to convert.
        tf.autograph.experimental.do_not_convert(
            run_sample if shared else run_row
        ),
        tf.range(block if shared else block * rows),
        fn_output_signature=_output_spec(noise, x),
        parallel_iterations=_DRAWS_AT_ONCE,
    )
    sizes = [draws.num_samples, draws.num_rows, entries]
    shaped = tf.reshape(
        outputs, shape_of_dims([*sizes, *dims_from(outputs, 2)])
    )
    return _without_groups(_swap(shaped), 3)


def _swap(x: tf.Tensor) -> tf.Tensor:
    """Swaps the first two axes."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _merged(grouped: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Returns [rows * entries, ...] of [rows, entries, ...]."""
    merged = tf.reshape(grouped, shape_of_dims([-1, *dims_from(like, 1)]))
    merged.set_shape([None, *like.shape[1:]])
    return merged


def _without_groups(x: tf.Tensor, groups: int) -> tf.Tensor:
    """Merges the first axes into one."""
    merged = tf.reshape(x, shape_of_dims([-1, *dims_from(x, groups)]))
    merged.set_shape([None, *x.shape[groups:]])
    return merged


def _output_spec(noise: WeightNoise, x: tf.Tensor) -> tf.TensorSpec:
    """Returns the spec of what the layer computes of a batch."""
    batch = tf.TensorSpec([None, *x.shape[1:]], x.dtype)
    traced = tf.function(noise.expected, autograph=False)
    output = traced.get_concrete_function(batch).structured_outputs
    return tf.TensorSpec([None, *output.shape[1:]], output.dtype)
