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

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.random.philox import counter_words
from keras_bayesdrop.random.philox import sample_words

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
        unordered: Whether values with several entries per row hold them in
            an order of their own. Each entry then has noise of its own, and
            there must be one sample in the block.
        rows_mix: Whether rows depend on the rest of their batch. One draw of
            weights then serves all rows, whatever `shared` says.
        watched: Takes what the first row has of every value with several
            entries per row, if it is a list.
    """

    seed: Any
    first_sample: Any
    num_samples: Any
    num_blocks: int
    first_row: Any
    num_rows: Any
    shared: bool
    unordered: bool = False
    rows_mix: bool = False
    watched: list[Any] | None = None

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
        mask = private_keras.get_mask(x)
        if mask is not None:
            private_keras.set_mask(folded, self.fold(mask, whole_rows))
        return folded

    def unfold(self, y: tf.Tensor, whole_rows: bool = True) -> tf.Tensor:
        """Returns [rows, samples, ...] of a folded tensor.

        With several entries per row each entry counts as a row.
        """
        dims = _dims(y)
        if isinstance(self.num_samples, int) and self.num_samples == 1:
            return y[:, tf.newaxis]
        sizes = [self.num_rows, self.num_samples]
        if whole_rows:
            return tf.reshape(y, _stack([*sizes, *dims]))
        entries = tf.shape(y)[0] // (self.num_rows * self.num_samples)
        grouped = tf.reshape(y, _stack([*sizes, entries, *dims]))
        order = [0, 2, 1, *range(3, 3 + len(dims))]
        by_entry = tf.transpose(grouped, order)
        return tf.reshape(by_entry, _stack([-1, self.num_samples, *dims]))

    def perturb(
        self,
        x: tf.Tensor,
        noise: Noise,
        noise_shape: NoiseShape,
        site: int,
        *,
        folded: bool,
        whole_rows: bool,
        words: tf.Tensor | None = None,
        steps_apart: bool = False,
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
            words: The words of the site, if they are made already.
            steps_apart: Whether noise that is one for the whole batch still
                differs between the entries of a row.

        Returns:
            Folded tensor.
        """
        if isinstance(noise, WeightNoise):
            return self._redraw(x, noise, site, folded, whole_rows)
        if self.unordered and not whole_rows and words is None:
            return self.perturb_whole(x, noise, noise_shape, site, None)
        dims = self._row_dims(x, folded, whole_rows)
        samples = self.num_samples if folded else 1
        # [rows, samples or 1, ...]
        grouped = tf.reshape(x, _stack([self.num_rows, samples, *dims]))
        if self.watched is not None and words is None:
            self.watched.append(grouped[0])
        if words is None:
            if noise_shape is not None and noise_shape[0] == 1 and steps_apart:
                extra = 1 + len(dims) - len(noise_shape)
                noise_shape = (1, *[None] * extra, *noise_shape[1:])
            words = self._words(site, noise_shape, dims)
        perturbed = noise.apply(grouped, words)
        result = tf.reshape(perturbed, _stack([-1, *_dims(x)]))
        result.set_shape([None, *x.shape[1:]])
        mask = private_keras.get_mask(x)
        if mask is not None:
            private_keras.set_mask(
                result, mask if folded else self.fold(mask, whole_rows)
            )
        return result

    def perturb_whole(
        self,
        x: tf.Tensor,
        noise: Noise,
        noise_shape: NoiseShape,
        site: int,
        axis: int | None,
    ) -> tf.Tensor:
        """Applies the noise of one site, of one sample, to any tensor.

        Args:
            x: Tensor of any shape. There must be one sample in the block.
            noise: The distribution. It must not be noise on weights.
            noise_shape: Shape of the noise, see `perturb`.
            site: Number of the site.
            axis: The axis of `x` that holds the rows, or several entries of
                each, the rows outermost. `None`: no axis does, and all rows
                see the same noise.

        Returns:
            Tensor of the shape of `x`.
        """
        if axis is None:
            dims = _dims_after(x, 0)
            alone = dataclasses.replace(self, first_row=0, num_rows=1)
            noise_dims = _noise_dims(noise_shape, dims)
            words = alone.words_of_shape(noise_dims, site, rows=False)
            return _reshape_like(noise.apply(x, words), x)
        order = [axis, *(n for n in range(x.shape.rank) if n != axis)]
        back = [order.index(n) for n in range(x.shape.rank)]
        if noise_shape is not None:
            noise_shape = tuple(noise_shape[n] for n in order)
        moved = self.perturb(
            tf.transpose(x, order),
            noise,
            noise_shape,
            site,
            folded=True,
            whole_rows=False,
        )
        return _reshape_like(tf.transpose(moved, back), x)

    def loop_words(
        self,
        dims: Sequence[int],
        noise_shape: NoiseShape,
        site: int,
        steps: Any,
    ) -> tf.Tensor:
        """Makes the words of a site that draws at every step of a loop.

        Args:
            dims: Entries per row and sample of what one step perturbs, and
                all its dimensions but the first.
            noise_shape: Shape of the noise of a step, see `perturb`.
            site: Number of the site.
            steps: Number of steps.

        Returns:
            Words [steps, rows or 1, samples, ...].
        """
        words = self._words(site, noise_shape, dims, steps)
        rank = len(dims)
        return tf.transpose(words, [2, 0, 1, *range(3, 3 + rank)])

    def words_of_shape(
        self,
        shape: Sequence[Any],
        site: int,
        *,
        rows: bool,
        steps: Any = None,
    ) -> tf.Tensor:
        """Makes words for a tensor that code of a layer asks for.

        Args:
            shape: Dimensions, ints and scalar tensors.
            site: Number of the site.
            rows: Whether the first dimension counts rows and samples (or
                several entries of each). Otherwise there must be one sample
                in the block, and all rows see the same noise.
            steps: Number of steps of the loop that draws, if one does.

        Returns:
            Words of that shape, behind an axis of steps if there are any.
        """
        total = _product(list(shape))
        num_rows = 1 if self.shared or not rows else self.num_rows
        units = total
        if rows:
            units = total // (self.num_rows * self.num_samples)
        each = units if steps is None else units * steps
        words = counter_words(
            self.seed,
            site,
            self.first_sample,
            self.num_samples,
            self.num_blocks,
            0 if self.shared or not rows else self.first_row,
            num_rows,
            each,
        )
        if rows and self.shared:
            sizes = _stack([self.num_rows, self.num_samples, each])
            words = tf.broadcast_to(words, sizes)
        if steps is None:
            return tf.reshape(words, _stack(shape))
        by_step = tf.reshape(words, _stack([-1, steps, units]))
        return tf.reshape(
            tf.transpose(by_step, [1, 0, 2]), _stack([steps, *shape])
        )

    def _row_dims(
        self, x: tf.Tensor, folded: bool, whole_rows: bool
    ) -> list[Any]:
        """Returns the dimensions of what a row, or its sample, has of `x`."""
        dims = _dims(x)
        if whole_rows:
            return dims
        samples = self.num_samples if folded else 1
        return [tf.shape(x)[0] // (self.num_rows * samples), *dims]

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
        shared = self.shared or self.rows_mix
        samples = self.num_samples if folded else 1
        row_units = layer.row_units(x) if whole_rows else None
        if not shared and row_units is not None:
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
                run_sample if shared else run_row
            ),
            tf.range(block if shared else block * rows),
            fn_output_signature=spec,
            parallel_iterations=_DRAWS_AT_ONCE,
        )
        sizes = [self.num_samples, self.num_rows, entries]
        shaped = tf.reshape(outputs, _stack([*sizes, *_dims_after(outputs, 2)]))
        return _without_groups(_swap(shaped), 3)

    def _words(
        self,
        site: int,
        noise_shape: NoiseShape,
        dims: Sequence[Any],
        steps: Any = None,
    ) -> tf.Tensor:
        """Returns the site's words as [rows or 1, samples, *noise dims].

        With `steps` they are [rows or 1, samples, steps, *noise dims].
        """
        one_mask_a_batch = noise_shape is not None and noise_shape[0] == 1
        noise_dims = _noise_dims(noise_shape, [None, *dims])[1:]
        if steps is not None:
            noise_dims = [steps, *noise_dims]
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


def _noise_dims(noise_shape: NoiseShape, dims: Sequence[Any]) -> list[Any]:
    """Returns the dimensions of the noise on a tensor, the first included.

    A tensor with several entries per row has one more than the shape of the
    noise tells of. The noise differs between the entries, unless it is one for
    the whole batch.
    """
    if noise_shape is None:
        return list(dims)
    extra = len(dims) - len(noise_shape)
    entries = 1 if noise_shape[0] == 1 else None
    asked = [noise_shape[0], *[entries] * extra, *noise_shape[1:]]
    return [
        dim if want is None else want
        for want, dim in zip(asked, dims, strict=True)
    ]


def _reshape_like(y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Gives a tensor the static shape and the Keras mask of another."""
    y.set_shape(x.shape)
    mask = private_keras.get_mask(x)
    if mask is not None:
        private_keras.set_mask(y, mask)
    return y


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
