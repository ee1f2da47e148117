# SPDX-License-Identifier: Apache-2.0
"""Uniform numbers that are cheap in a compiled training step."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.observer import current_observer


def uniform(sizes: Sequence[Any], dtype: str, seed: Any) -> tf.Tensor:
    """Draws from [0, 1), as `keras.random.uniform` does.

    Keras leaves the choice of the generator to TensorFlow, which under XLA
    on a CPU then makes the key anew for every number: 80 ms for 128 x 1024 of
    them, against 0.8 ms with the generator named here. Without XLA the
    numbers are the same.

    Args:
        sizes: Shape, of ints and scalar tensors.
        dtype: `"float32"` or `"float64"`.
        seed: The `keras.random.SeedGenerator` to draw from.

    Returns:
        A tensor.
    """
    observer = current_observer()
    if observer is not None:
        arguments = {"shape": sizes, "minval": 0.0, "maxval": 1.0}
        return observer.draw("uniform", {**arguments, "dtype": dtype})
    return tf.random.stateless_uniform(
        sizes, seed=seed.next(), dtype=dtype, alg="philox"
    )
