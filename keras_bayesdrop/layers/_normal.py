# SPDX-License-Identifier: Apache-2.0
"""Normal draws that are cheap in a compiled training step."""

import math
from typing import Any

import tensorflow as tf

from keras_bayesdrop.layers._words import draw_words


def draw_normal(sizes: Any, dtype: str, seed: Any) -> tf.Tensor:
    """Draws from N(0, 1), in float32.

        z = sqrt(2) * erfinv((2 * k + 1) / 2^23 - 1),    k of 23 random bits

    The largest draw is 5.3, which a normal draw exceeds once in 8 million.

    Args:
        sizes: Shape, of ints and scalar tensors.
        dtype: `"float32"` or `"float64"`, of the result.
        seed: The `keras.random.SeedGenerator` to draw from.

    Returns:
        A tensor.
    """
    words = draw_words(sizes, seed)
    bits = tf.bitwise.right_shift(words, tf.constant(9, tf.uint32))
    # Exact in float32, and half a step away from both ends.
    uniform = (tf.cast(bits, tf.float32) + 0.5) * 2.0**-22 - 1.0
    return tf.cast(math.sqrt(2.0) * tf.math.erfinv(uniform), dtype)
