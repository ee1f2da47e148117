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
from keras_bayesdrop.noise import Noise

NoiseShape = tuple[int | None, ...] | None


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


def _dims(x: tf.Tensor) -> list[Any]:
    """Returns all but the first dimension, static where known."""
    static = x.shape[1:].as_list()
    if None not in static:
        return list(static)
    dynamic = tf.shape(x)
    return [
        dynamic[axis + 1] if dim is None else dim
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
