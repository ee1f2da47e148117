# SPDX-License-Identifier: Apache-2.0
"""Samples folded into the batch: which rows are which draw, and their noise.

A folded tensor has `rows * samples` entries on its first axis, the samples of
a row next to each other: entry `row * samples + sample`.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop import _keras
from keras_bayesdrop._rng import counter_words
from keras_bayesdrop._rng import sample_words
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise

NoiseShape = tuple[int | None, ...] | None

# Draws of weights that may be under way together.
_DRAWS_AT_ONCE = 2


@dataclasses.dataclass(frozen=True)
class Draws:
    """A block of samples of a block of rows.

    Attributes:
        seed: Scalar uint64 tensor.
        first_sample: Number of the first sample, int or int64 tensor.
        num_samples: Samples in the block, int or int32 tensor.
        num_blocks: Counter blocks of 16 samples that cover the samples.
        first_row: Index in `x` of the first row, int or int64 tensor.
        num_rows: Rows in the block, int or int32 tensor.
        shared: Whether one mask serves all rows of a sample.
    """

    seed: Any
    first_sample: Any
    num_samples: Any
    num_blocks: int
    first_row: Any
    num_rows: Any
    shared: bool

    def fold(self, x: tf.Tensor, whole_rows: bool = True) -> tf.Tensor:
        """Repeats every row once per sample, and its Keras mask with it.

        Args:
            x: Tensor [rows, ...], or with several entries per row.
            whole_rows: Whether there is one entry per row.

        Returns:
            Folded tensor.
        """
        if isinstance(self.num_samples, int) and self.num_samples == 1:
            return x
        if whole_rows:
            folded = tf.repeat(x, self.num_samples, axis=0)
        else:
            dims = [tf.shape(x)[0] // self.num_rows, *_dims(x)]
            by_row = tf.reshape(x, _stack([self.num_rows, *dims]))
            folded = tf.repeat(by_row, self.num_samples, axis=0)
            folded = tf.reshape(folded, _stack([-1, *dims[1:]]))
        folded.set_shape([None, *x.shape[1:]])
        mask = _keras.get_mask(x)
        if mask is not None:
            _keras.set_mask(folded, self.fold(mask, whole_rows))
        return folded

    def unfold(self, y: tf.Tensor) -> tf.Tensor:
        """Returns [rows, samples, ...] of a folded tensor."""
        dims = _dims(y)
        return tf.reshape(y, _stack([self.num_rows, self.num_samples, *dims]))

    def perturb(
        self,
        x: tf.Tensor,
        noise: Noise,
        noise_shape: NoiseShape,
        site: int,
        *,
        folded: bool,
        whole_rows: bool,
    ) -> tf.Tensor:
        """Applies the noise of one site to a tensor.

        Args:
            x: Tensor, [rows, ...] or folded.
            noise: The distribution.
            noise_shape: Shape of the noise with its batch axis, `None` for an
                axis that follows `x`; or `None` for the shape of `x`.
            site: Number of the site.
            folded: Whether `x` is folded already. If not, the samples are
                made by broadcasting and no repeated input is written.
            whole_rows: Whether the first axis of `x` is known to hold one
                entry per row. Otherwise it may hold several (a layer that
                moved time into the batch), which count as units.

        Returns:
            Folded tensor.
        """
        if isinstance(noise, WeightNoise):
            return self._redraw(x, noise, site, folded, whole_rows)
        dims = _dims(x)
        samples = self.num_samples if folded else 1
        if not whole_rows:
            dims = [tf.shape(x)[0] // (self.num_rows * samples), *dims]
        # [rows, samples or 1, ...]
        grouped = tf.reshape(x, _stack([self.num_rows, samples, *dims]))
        words = self._words(site, noise_shape, dims)
        perturbed = noise.apply(grouped, words)
        result = tf.reshape(perturbed, _stack([-1, *_dims(x)]))
        result.set_shape([None, *x.shape[1:]])
        mask = _keras.get_mask(x)
        if mask is not None:
            _keras.set_mask(
                result, mask if folded else self.fold(mask, whole_rows)
            )
        return result

    def _redraw(
        self,
        x: tf.Tensor,
        noise: WeightNoise,
        site: int,
        folded: bool,
        whole_rows: bool,
    ) -> tf.Tensor:
        """Calls a layer whose weights are drawn, see `perturb`.

        A draw lives only as long as its product takes: memory is that of a
        few draws, however many samples there are.
        """
        layer = noise.layer
        samples = self.num_samples if folded else 1
        row_units = layer.row_units(x) if whole_rows else None
        if not self.shared and row_units is not None:
            grouped = tf.reshape(x, _stack([self.num_rows, samples, *_dims(x)]))
            words = self._words(site, None, [row_units])
            outputs = layer.call_rows(grouped, words)
            return _without_groups(outputs, 2)
        units = layer.weight_units
        entries = (
            1 if whole_rows else tf.shape(x)[0] // (self.num_rows * samples)
        )
        grouped = tf.reshape(
            x, _stack([self.num_rows, samples, entries, *_dims(x)])
        )
        by_sample = _swap(grouped)  # [samples or 1, rows, entries, ...]

        def inputs_of(sample: tf.Tensor) -> tf.Tensor:
            """Returns [rows, entries, ...] of a sample of the block."""
            return by_sample[sample if folded else 0]

        def run(inputs: tf.Tensor, sample: tf.Tensor, row: Any) -> tf.Tensor:
            number = tf.cast(self.first_sample + sample, tf.int64)
            words = sample_words(self.seed, site, number, row, units)
            return noise.apply(inputs, words)

        def run_sample(sample: tf.Tensor) -> tf.Tensor:
            return run(_merged(inputs_of(sample), x), sample, 0)

        def run_row(place: tf.Tensor) -> tf.Tensor:
            sample, row = place // rows, place % rows
            number = tf.cast(self.first_row, tf.int64) + row
            return run(inputs_of(sample)[row], sample, number)

        rows = tf.cast(self.num_rows, tf.int64)
        block = tf.cast(self.num_samples, tf.int64)
        spec = _output_spec(noise, x)
        outputs = tf.map_fn(
            # Nothing here depends on values, so there is nothing to convert.
            tf.autograph.experimental.do_not_convert(
                run_sample if self.shared else run_row
            ),
            tf.range(block if self.shared else block * rows),
            fn_output_signature=spec,
            parallel_iterations=_DRAWS_AT_ONCE,
        )
        sizes = [self.num_samples, self.num_rows, entries]
        shaped = tf.reshape(outputs, _stack([*sizes, *_dims_after(outputs, 2)]))
        return _without_groups(_swap(shaped), 3)

    def _words(
        self, site: int, noise_shape: NoiseShape, dims: Sequence[Any]
    ) -> tf.Tensor:
        """Returns the site's words as [rows or 1, samples, *noise dims]."""
        noise_dims = list(dims)
        one_mask_a_batch = False
        if noise_shape is not None:
            one_mask_a_batch = noise_shape[0] == 1
            asked = noise_shape[1:]
            extra = len(dims) - len(asked)
            noise_dims[extra:] = [
                dim if want is None else want
                for want, dim in zip(asked, dims[extra:], strict=True)
            ]
        same_for_all = self.shared or one_mask_a_batch
        num_rows = 1 if same_for_all else self.num_rows
        words = counter_words(
            self.seed,
            site,
            self.first_sample,
            self.num_samples,
            self.num_blocks,
            0 if same_for_all else self.first_row,
            num_rows,
            _product(noise_dims),
        )
        return tf.reshape(
            words, _stack([num_rows, self.num_samples, *noise_dims])
        )


def _swap(x: tf.Tensor) -> tf.Tensor:
    """Swaps the first two axes."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _merged(grouped: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Returns [rows * entries, ...] of [rows, entries, ...]."""
    merged = tf.reshape(grouped, _stack([-1, *_dims(like)]))
    merged.set_shape([None, *like.shape[1:]])
    return merged


def _without_groups(x: tf.Tensor, groups: int) -> tf.Tensor:
    """Merges the first axes into one."""
    merged = tf.reshape(x, _stack([-1, *_dims_after(x, groups)]))
    merged.set_shape([None, *x.shape[groups:]])
    return merged


def _output_spec(noise: WeightNoise, x: tf.Tensor) -> tf.TensorSpec:
    """Returns what the layer makes of a batch, without computing it."""
    given = tf.TensorSpec([None, *x.shape[1:]], x.dtype)
    made = tf.function(noise.expected, autograph=False).get_concrete_function(
        given
    )
    shape = made.structured_outputs.shape
    return tf.TensorSpec([None, *shape[1:]], made.structured_outputs.dtype)


def _dims(x: tf.Tensor) -> list[Any]:
    """Returns all but the first dimension, static where known."""
    return _dims_after(x, 1)


def _dims_after(x: tf.Tensor, first: int) -> list[Any]:
    """Returns the dimensions from `first` on, static where known."""
    static = x.shape[first:].as_list()
    if None not in static:
        return list(static)
    dynamic = tf.shape(x)
    return [
        dynamic[axis + first] if dim is None else dim
        for axis, dim in enumerate(static)
    ]


def _product(dims: Sequence[Any]) -> Any:
    if all(isinstance(dim, int) for dim in dims):
        return math.prod(dims)
    return tf.reduce_prod(tf.stack(dims))


def _stack(dims: Sequence[Any]) -> Any:
    if all(isinstance(dim, int) for dim in dims):
        return list(dims)
    return tf.stack([tf.cast(dim, tf.int32) for dim in dims])
