# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a Gaussian kernel: how it is applied."""

from typing import Any

import keras

from keras_bayesdrop.layers._gaussian_kernel import GaussianKernel


class ConvKernel(GaussianKernel):
    """Mixin of a convolution of Keras."""

    # Of the layer of Keras.
    filters: int
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str
    dilation_rate: tuple[int, ...]
    data_format: str
    groups: int
    use_bias: bool
    bias: Any
    activation: Any

    @property
    def _input_axis(self) -> int:  # type: ignore[override]
        return -1 if self.data_format == "channels_last" else 1

    def _linear(self, x: Any, kernel: Any) -> Any:
        padding = self.padding
        if padding == "causal":
            padding = "valid"
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            pads = [[0, 0], [before, 0], [0, 0]]
            if self.data_format == "channels_first":
                pads = [[0, 0], [0, 0], [before, 0]]
            x = keras.ops.pad(x, pads)
        return keras.ops.conv(
            x,
            kernel,
            strides=list(self.strides),
            padding=padding,
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )

    def _finish(self, outputs: Any) -> Any:
        if self.use_bias:
            shape = [1] * len(outputs.shape)
            shape[self._input_axis] = self.filters
            bias = keras.ops.reshape(self.bias, shape)
            outputs = outputs + keras.ops.cast(bias, outputs.dtype)
        return outputs if self.activation is None else self.activation(outputs)
