# SPDX-License-Identifier: Apache-2.0
"""Dense and convolutional layers as functions of their kernel.

    y = activation(linear(x, kernel) + bias)

An operation wraps a Keras layer, and computes the same with another kernel.
"""

from typing import Any

import keras


class KernelOperation:
    """A Keras layer with a `kernel` and a `bias`, applied to any kernel.

    Args:
        layer: A built layer.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.dtype = str(layer.compute_dtype)

    @property
    def wide(self) -> str:
        """The compute dtype, or float32 if that is better."""
        return wide_dtype(self.layer)

    @property
    def input_axis(self) -> int:
        """The axis of the inputs that holds the input units or channels."""
        raise NotImplementedError

    def independent_outputs(self, x: Any) -> bool:
        """Returns True if no two outputs of an example share a weight."""
        raise NotImplementedError

    def linear(self, x: Any, kernel: Any) -> Any:
        """Returns the product or the convolution."""
        raise NotImplementedError

    def bias_shape(self, outputs: Any) -> list[int]:
        """Returns a shape of the bias that broadcasts against `outputs`."""
        raise NotImplementedError

    def finish(self, outputs: Any) -> Any:
        """Adds the bias and applies the activation."""
        layer = self.layer
        if layer.bias is not None:
            bias = keras.ops.cast(layer.bias, outputs.dtype)
            shape = self.bias_shape(outputs)
            outputs = outputs + keras.ops.reshape(bias, shape)
        if layer.activation is not None:
            outputs = layer.activation(outputs)
        return outputs

    def apply(self, x: Any, kernel: Any) -> Any:
        """Calls the layer with a kernel, in the compute dtype."""
        x = keras.ops.cast(x, self.dtype)
        kernel = keras.ops.cast(kernel, self.dtype)
        return self.finish(self.linear(x, kernel))


class DenseOperation(KernelOperation):
    """A `keras.layers.Dense`."""

    @property
    def input_axis(self) -> int:
        """The last axis."""
        return -1

    def independent_outputs(self, x: Any) -> bool:
        """Returns True if `x` has no axes beside rows and units."""
        return len(x.shape) == 2

    def linear(self, x: Any, kernel: Any) -> Any:
        """Returns the product."""
        return keras.ops.matmul(x, kernel)

    def bias_shape(self, outputs: Any) -> list[int]:
        """Returns the shape of the bias itself."""
        return [self.layer.units]


class ConvOperation(KernelOperation):
    """A `keras.layers.Conv1D` or `keras.layers.Conv2D`."""

    @property
    def input_axis(self) -> int:
        """The axis of the channels."""
        return -1 if self.layer.data_format == "channels_last" else 1

    def independent_outputs(self, x: Any) -> bool:
        """Returns False: all positions have the same weights."""
        return False

    def linear(self, x: Any, kernel: Any) -> Any:
        """Returns the convolution."""
        layer = self.layer
        padding = layer.padding
        if padding == "causal":
            padding = "valid"
            before = layer.dilation_rate[0] * (layer.kernel_size[0] - 1)
            pads = [[0, 0], [before, 0], [0, 0]]
            if layer.data_format == "channels_first":
                pads = [[0, 0], [0, 0], [before, 0]]
            x = keras.ops.pad(x, pads)
        return keras.ops.conv(
            x,
            kernel,
            strides=list(layer.strides),
            padding=padding,
            dilation_rate=layer.dilation_rate,
            data_format=layer.data_format,
        )

    def bias_shape(self, outputs: Any) -> list[int]:
        """Returns 1 for all axes but that of the channels."""
        shape = [1] * len(outputs.shape)
        shape[self.input_axis] = self.layer.filters
        return shape


def operation_of(layer: Any) -> KernelOperation:
    """Returns the operation of a dense or a convolutional layer."""
    if isinstance(layer, keras.layers.Dense):
        return DenseOperation(layer)
    return ConvOperation(layer)


def wide_dtype(layer: Any) -> str:
    """Returns the compute dtype of a layer, or float32 if that is better."""
    return str(keras.backend.result_type(layer.compute_dtype, "float32"))
