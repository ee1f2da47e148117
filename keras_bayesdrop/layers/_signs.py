# SPDX-License-Identifier: Apache-2.0
"""Random signs, for flipout."""

from typing import Any

import tensorflow as tf

from keras_bayesdrop.layers._words import draw_words


def draw_signs(sizes: Any, dtype: str, seed: Any) -> tf.Tensor:
    """Draws -1 or 1, each with probability 1/2.

    Args:
        sizes: Shape, of ints and scalar tensors.
        dtype: Of the result.
        seed: The `keras.random.SeedGenerator` to draw from.

    Returns:
        A tensor.
    """
    words = draw_words(sizes, seed)
    bits = tf.bitwise.right_shift(words, tf.constant(31, tf.uint32))
    return 1.0 - 2.0 * tf.cast(bits, dtype)
