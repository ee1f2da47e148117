# SPDX-License-Identifier: Apache-2.0
"""Draws the noise of a block of samples of a block of rows.

Samples are folded into the batch. A folded tensor has `rows * samples` entries
on its first axis, the samples of a row next to each other: entry
`row * samples + sample`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.dims import dims_from
from keras_bayesdrop._core.dims import first_axis_order
from keras_bayesdrop._core.dims import product_of
from keras_bayesdrop._core.dims import shape_of_dims
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.noise._drawn_weights import call_with_drawn_weights
from keras_bayesdrop.noise._noise_op import PutNoise
from keras_bayesdrop.noise._noise_op import put_by_op
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.layer_noise import WeightNoise
from keras_bayesdrop.noise.mask_table import MaskTable
from keras_bayesdrop.noise.mask_table import masks_of
from keras_bayesdrop.noise.noise_shape import NoiseShape
from keras_bayesdrop.noise.noise_shape import noise_dims
from keras_bayesdrop.noise.noise_shape import permuted
from keras_bayesdrop.random.philox import counter_words


class MaskRule(NamedTuple):
    """Says which masks are related to each other.

    Attributes:
        shared: Whether one mask serves all rows of a sample.
        balanced: Whether the samples of a counter block share out the strata
            of the words, see `random/balanced.py`.
    """

    shared: bool
    balanced: bool


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
        balanced: See `MaskRule`.
        unordered: Whether values with several entries per row hold them in
            an order of their own. Each entry then has noise of its own, and
            there must be one sample in the block.
        rows_mix: Whether rows depend on the rest of their batch. One draw of
            weights then serves all rows, whatever `shared` says.
        first_mask: Number that is added to the number of a sample where its
            masks come from a table.
        watched: Takes what the first row has of every value with several
            entries per row, if it is a list.
        noise_op: Puts noise on a tensor in one pass over it, if an engine has
            an op for that.
    """

    seed: Any
    first_sample: Any
    num_samples: Any
    num_blocks: int
    first_row: Any
    num_rows: Any
    shared: bool
    balanced: bool
    unordered: bool = False
    rows_mix: bool = False
    first_mask: Any = 0
    watched: list[Any] | None = None
    noise_op: PutNoise | None = None

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
            dims = [tf.shape(x)[0] // self.num_rows, *dims_from(x, 1)]
            by_row = tf.reshape(x, shape_of_dims([self.num_rows, *dims]))
            folded = tf.repeat(by_row, self.num_samples, axis=0)
            folded = tf.reshape(folded, shape_of_dims([-1, *dims[1:]]))
        folded.set_shape([None, *x.shape[1:]])
        mask = private_keras.get_mask(x)
        if mask is not None:
            private_keras.set_mask(folded, self.fold(mask, whole_rows))
        return folded

    def unfold(self, y: tf.Tensor, whole_rows: bool = True) -> tf.Tensor:
        """Returns [rows, samples, ...] of a folded tensor.

        With several entries per row each entry counts as a row.
        """
        dims = dims_from(y, 1)
        if isinstance(self.num_samples, int) and self.num_samples == 1:
            return y[:, tf.newaxis]
        sizes = [self.num_rows, self.num_samples]
        if whole_rows:
            return tf.reshape(y, shape_of_dims([*sizes, *dims]))
        entries = self._entries(tf.shape(y)[0])
        grouped = tf.reshape(y, shape_of_dims([*sizes, entries, *dims]))
        order = [0, 2, 1, *range(3, 3 + len(dims))]
        by_entry = tf.transpose(grouped, order)
        return tf.reshape(
            by_entry, shape_of_dims([-1, self.num_samples, *dims])
        )

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
            words: One step of `loop_words`, if a loop draws.
            steps_apart: Whether noise that is one for the whole batch still
                differs between the entries of a row.

        Returns:
            Folded tensor.
        """
        if isinstance(noise, WeightNoise):
            return call_with_drawn_weights(
                self, x, noise, site, folded, whole_rows
            )
        if self.unordered and not whole_rows and words is None:
            return self.perturb_whole(x, noise, noise_shape, site, None)
        samples = self.num_samples if folded else 1
        dims = dims_from(x, 1)
        if not whole_rows:
            dims = [tf.shape(x)[0] // (self.num_rows * samples), *dims]
        # [rows, samples or 1, ...]
        grouped = tf.reshape(x, shape_of_dims([self.num_rows, samples, *dims]))
        if self.watched is not None and words is None:
            self.watched.append(grouped[0])
        if words is None and isinstance(noise, MaskTable):
            words = masks_of(self, noise, len(dims))
        if noise_shape is not None and noise_shape[0] == 1 and steps_apart:
            extra = 1 + len(dims) - len(noise_shape)
            noise_shape = (1, *[None] * extra, *noise_shape[1:])
        perturbed = None
        if words is None and self.noise_op is not None:
            perturbed = put_by_op(
                self, grouped, noise, noise_shape, site, folded
            )
        if perturbed is None:
            if words is None:
                words = self.words(site, noise_shape, dims)
            perturbed = noise.apply(grouped, words)
        result = tf.reshape(perturbed, shape_of_dims([-1, *dims_from(x, 1)]))
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
        words: tf.Tensor | None = None,
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
            words: One step of `loop_words`, if a loop draws.

        Returns:
            Tensor of the shape of `x`.
        """
        if axis is None:
            if isinstance(noise, MaskTable):
                words = masks_of(self, noise, x.shape.rank, with_rows=False)
            if words is None:
                of_noise = noise_dims(noise_shape, dims_from(x, 0))
                words = self.words_of_shape(of_noise, site, axis=None)
            return _reshape_like(noise.apply(x, words), x)
        if isinstance(noise, MaskTable) and axis == x.shape.rank - 1:
            raise PlanError(
                "Rows lie on the last axis, which has the units of a mask. "
                "Expected rows on another axis. Received: masks of a table on "
                f"shape {tuple(x.shape)}"
            )
        order, back = first_axis_order(axis, x.shape.rank)
        moved = self.perturb(
            tf.transpose(x, order),
            noise,
            permuted(noise_shape, order),
            site,
            folded=True,
            whole_rows=False,
            words=words,
        )
        return _reshape_like(tf.transpose(moved, back), x)

    def loop_words(
        self,
        dims: Sequence[Any],
        noise_shape: NoiseShape,
        site: int,
        steps: Any,
        axis: int | None,
    ) -> tf.Tensor:
        """Makes the words of a site that draws at every step of a loop.

        Args:
            dims: Dimensions of the folded tensor that one step perturbs.
            noise_shape: Shape of the noise of a step, see `perturb`.
            site: Number of the site.
            steps: Number of steps.
            axis: The axis that holds the rows, see `perturb_whole`.

        Returns:
            Words of all steps, [steps, ...]: of each step what `perturb` (for
            axis 0) or `perturb_whole` takes.
        """
        if axis is None:
            of_noise = noise_dims(noise_shape, dims)
            return self.words_of_shape(of_noise, site, axis=None, steps=steps)
        order, _ = first_axis_order(axis, len(dims))
        moved = [dims[n] for n in order]
        words = self.words(
            site,
            permuted(noise_shape, order),
            [self._entries(moved[0]), *moved[1:]],
            steps,
        )
        return tf.transpose(words, [2, 0, 1, *range(3, 3 + len(dims))])

    def words_of_shape(
        self,
        shape: Sequence[Any],
        site: int,
        *,
        axis: int | None,
        steps: Any = None,
    ) -> tf.Tensor:
        """Makes words for a tensor that the code of a layer asks for.

        Args:
            shape: Dimensions, ints and scalar tensors.
            site: Number of the site.
            axis: The dimension that counts rows and samples (or several
                entries of each). `None`: no dimension does. There must then be
                one sample in the block, and all rows see the same noise.
            steps: Number of steps of the loop that draws, if one does.

        Returns:
            Words of that shape, behind an axis of steps if there are any.
        """
        if axis:
            order, back = first_axis_order(axis, len(shape))
            moved = [shape[n] for n in order]
            words = self.words_of_shape(moved, site, axis=0, steps=steps)
            if steps is not None:
                back = [0, *(n + 1 for n in back)]
            return tf.transpose(words, back)
        has_rows = axis is not None
        units = product_of(list(shape))
        if has_rows:
            units = units // (self.num_rows * self.num_samples)
        each = units if steps is None else units * steps
        words = self._words_of_units(site, each, has_rows and not self.shared)
        if has_rows and self.shared:
            sizes = shape_of_dims([self.num_rows, self.num_samples, each])
            words = tf.broadcast_to(words, sizes)
        if steps is None:
            return tf.reshape(words, shape_of_dims(shape))
        by_step = tf.reshape(words, shape_of_dims([-1, steps, units]))
        return tf.reshape(
            tf.transpose(by_step, [1, 0, 2]), shape_of_dims([steps, *shape])
        )

    def words(
        self,
        site: Any,
        noise_shape: NoiseShape,
        dims: Sequence[Any],
        steps: Any = None,
    ) -> tf.Tensor:
        """Makes the words of a site for [rows, samples, *dims].

        Args:
            site: Number of the site, int or integer tensor.
            noise_shape: Shape of the noise, see `perturb`.
            dims: Dimensions of what a row has in a sample.
            steps: Number of steps of the loop that draws, if one does.

        Returns:
            Words [rows or 1, samples, *noise dims], or [rows or 1, samples,
            steps, *noise dims].
        """
        one_mask_a_batch = noise_shape is not None and noise_shape[0] == 1
        of_noise = noise_dims(noise_shape, [None, *dims])[1:]
        if steps is not None:
            of_noise = [steps, *of_noise]
        per_row = not (self.shared or one_mask_a_batch)
        words = self._words_of_units(site, product_of(of_noise), per_row)
        num_rows = self.num_rows if per_row else 1
        return tf.reshape(
            words, shape_of_dims([num_rows, self.num_samples, *of_noise])
        )

    def _words_of_units(
        self, site: Any, units: Any, per_row: bool
    ) -> tf.Tensor:
        """Returns words [rows, samples, units], or [1, ...] for all rows."""
        return counter_words(
            self.seed,
            site,
            self.first_sample,
            self.num_samples,
            self.num_blocks,
            self.first_row if per_row else 0,
            self.num_rows if per_row else 1,
            units,
            self.balanced,
        )

    def _entries(self, size: Any) -> Any:
        """Returns the entries per row and sample of a folded axis."""
        return size // (self.num_rows * self.num_samples)


def _reshape_like(y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Gives a tensor the static shape and the Keras mask of another."""
    y.set_shape(x.shape)
    mask = private_keras.get_mask(x)
    if mask is not None:
        private_keras.set_mask(y, mask)
    return y
