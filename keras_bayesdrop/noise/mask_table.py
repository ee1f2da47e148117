# SPDX-License-Identifier: Apache-2.0
"""Noise that is one of the masks of a table, chosen by the sample's number."""

import dataclasses
import weakref
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.random.philox import rate_tensor_to_threshold

if TYPE_CHECKING:
    from keras_bayesdrop.noise.draws import Draws


@dataclasses.dataclass(frozen=True)
class MaskTable(Noise):
    """Multiplies the units by a mask of a table that a layer owns.

        y = x * masks[(t + row) mod num_masks]

    for sample `t`; `row` is 0 where a sample has one mask for all rows. The
    layer has `masks`, zeros and ones [num_masks, units], and `call_expected`.

    Attributes:
        source: Weak reference to the layer. The noise keeps the compiled
            programs of a model alive, and must not keep the model alive.
        num_masks: Number of masks.
        varies: Whether the masks differ.
    """

    source: weakref.ref[Any]
    num_masks: int
    varies: bool
    kind: ClassVar[str] = "table"
    one_draw_per_loop: ClassVar[bool] = True

    @property
    def active(self) -> bool:
        """True if the masks differ."""
        return self.varies

    @property
    def period(self) -> int:
        """The number of samples after which they repeat."""
        return self.num_masks

    def expected(self, x: tf.Tensor) -> tf.Tensor:
        """Multiplies by the mean of the masks."""
        return self.source().call_expected(x)  # type: ignore[union-attr]

    def op_settings(self) -> tuple[tf.Tensor, float]:
        """Returns the share of zeros as a threshold, and the scale 1."""
        share = 1.0 - tf.reduce_mean(tf.cast(self.table(), tf.float64))
        # The op's words of a table are 0 and 2^32 - 1.
        threshold = tf.maximum(
            rate_tensor_to_threshold(share), tf.constant(1, tf.uint32)
        )
        return threshold, 1.0

    def op_table(self) -> tf.Tensor:
        """Returns the masks, uint8 [num_masks, units]."""
        return self.table()

    def table(self) -> tf.Tensor:
        """Returns the masks as they are now, uint8 [num_masks, units]."""
        return tf.cast(self.source().masks, tf.uint8)  # type: ignore[union-attr]

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Sets units to zero.

        Args:
            x: Floating tensor.
            words: Bool tensor that broadcasts with `x`: the units to keep, as
                `masks_of` returns them.

        Returns:
            Tensor of the dtype of `x` and the broadcast shape.
        """
        return tf.where(words, x, tf.zeros([], x.dtype))

    def describe(self) -> str:
        """Returns the number of masks."""
        return f"table of {self.num_masks} masks"


def masks_of(
    draws: "Draws", noise: MaskTable, rank: int, with_rows: bool = True
) -> tf.Tensor:
    """Returns the masks of a block of samples and rows.

    Args:
        draws: The block.
        noise: The table.
        rank: Rank of what a row has in a sample, the units last.
        with_rows: Whether rows and samples have axes. Otherwise there must be
            one sample in the block, and all rows have its mask.

    Returns:
        Bool tensor [rows or 1, samples, 1, ..., 1, units], or [1, ..., units].
    """
    size = tf.constant(noise.num_masks, tf.int64)
    first = tf.cast(draws.first_sample, tf.int64) % size
    first += tf.cast(draws.first_mask, tf.int64) % size
    table = tf.cast(noise.table(), tf.bool)
    units = [*[1] * (rank - 1), table.shape[1]]
    if not with_rows:
        return tf.reshape(table[first % size], units)
    numbers = first + tf.range(tf.cast(draws.num_samples, tf.int64))
    numbers = numbers[tf.newaxis]
    if not draws.shared:
        row = tf.cast(draws.first_row, tf.int64) % size
        rows = row + tf.range(tf.cast(draws.num_rows, tf.int64))
        numbers += rows[:, tf.newaxis]
    keep = tf.gather(table, numbers % size)
    shape = tf.concat([tf.shape(keep)[:2], units], axis=0)
    return tf.reshape(keep, shape)
