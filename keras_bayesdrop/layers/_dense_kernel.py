# SPDX-License-Identifier: Apache-2.0
"""Dense layers with a Gaussian kernel: how it is applied."""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.layers._gaussian_kernel import GaussianKernel
from keras_bayesdrop.random.philox import words_to_normal


class DenseKernel(GaussianKernel):
    """Mixin of `keras.layers.Dense`: a product with the kernel."""

    # Of the layer of Keras.
    units: int
    bias: Any
    activation: Any

    _input_axis = -1

    def row_units(self, x: tf.Tensor) -> int | None:
        """Returns how many words a row takes, if all its outputs are apart.

        Along other axes the outputs of a row share weights.
        """
        if x.shape.rank != 2:
            return None
        correlated = self.parametrization == "correlated"
        return int(self.kernel.shape[0] if correlated else self.units)

    def call_rows(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Draws the outputs of every row and sample on their own."""
        draw = words_to_normal(words, self._wide)
        if self.parametrization != "correlated":
            return self._draw_outputs(x, self.mean_kernel(), lambda mean: draw)
        scale = self._scale()
        if len(scale.shape):
            scale = scale[:, 0]
        noisy = keras.ops.cast(x, self._wide) * (1.0 + scale * draw)
        return self._apply(noisy, self.mean_kernel())

    def plain_layer(self) -> keras.layers.Layer:
        """Returns the `Dense` layer without noise, not built."""
        return keras.layers.Dense.from_config(
            keras.layers.Dense.get_config(self)
        )

    def _linear(self, x: Any, kernel: Any) -> Any:
        return keras.ops.matmul(x, kernel)

    def _finish(self, outputs: Any) -> Any:
        if self.bias is not None:
            outputs = outputs + keras.ops.cast(self.bias, outputs.dtype)
        return outputs if self.activation is None else self.activation(outputs)
