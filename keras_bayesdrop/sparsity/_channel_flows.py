# SPDX-License-Identifier: Apache-2.0
"""Tracks channels through one call of a layer.

A channel is an entry of the last axis. Two arrays, with an entry per channel,
describe a value:

    constants   the value of a channel that is the same for all inputs and at
                all positions; NaN for other channels (infinity does not count
                as a constant)
    removed     whether the channel is removed

A flow computes the constants of a call's outputs, restricts which channels may
be removed, and creates the layer without them.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.surgery import BoolArray
from keras_bayesdrop.graph.surgery import Replacement
from keras_bayesdrop.graph.surgery import as_array
from keras_bayesdrop.graph.surgery import is_user_defined
from keras_bayesdrop.graph.surgery import new_layer
from keras_bayesdrop.sparsity._elementwise import apply
from keras_bayesdrop.sparsity._elementwise import is_elementwise


@dataclasses.dataclass(frozen=True)
class CallChannels:
    """Channels of the inputs and outputs of a call.

    Attributes:
        inputs: Channels removed from each input.
        outputs: Channels removed from each output.
        constants: Constants of each input.
    """

    inputs: Sequence[BoolArray]
    outputs: Sequence[BoolArray]
    constants: Sequence[Float64Array]


class Flow:
    """A layer of unknown effect: all its channels stay.

    Args:
        layer: The layer.
        widths: Number of channels of each output.
    """

    def __init__(self, layer: Any, widths: Sequence[int]) -> None:
        self.layer = layer
        self.widths = widths

    def constants(self, inputs: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns the constants of the outputs.

        Args:
            inputs: Constants of the inputs.
        """
        return [np.full(width, np.nan) for width in self.widths]

    def limit(self, channels: CallChannels) -> None:
        """Restores channels that must stay.

        Args:
            channels: Removed channels. Changed in place.
        """
        for removed in (*channels.inputs, *channels.outputs):
            removed[:] = False

    def replacement(
        self, name: str, channels: CallChannels
    ) -> Replacement | None:
        """Returns the layer without the removed channels.

        Args:
            name: Name of the new layer.
            channels: Removed channels.

        Returns:
            `None` if a plain copy of the layer suffices.
        """
        return None


class SameChannels(Flow):
    """A layer that computes each channel from channels of the same number.

    Elementwise layers, pooling, merging layers.

    Args:
        layer: The layer.
        widths: Number of channels of its output.
        compute: Maps the constants of the inputs to those of the output.
    """

    def __init__(
        self,
        layer: Any,
        widths: Sequence[int],
        compute: Callable[..., Float64Array],
    ) -> None:
        super().__init__(layer, widths)
        self.compute = compute

    def constants(self, inputs: Sequence[Float64Array]) -> list[Float64Array]:
        """Computes constants where all inputs are constant."""
        known = np.all([np.isfinite(each) for each in inputs], axis=0)
        outputs = self.compute(*(np.where(known, each, 0.0) for each in inputs))
        return [np.where(known, outputs, np.nan)]

    def limit(self, channels: CallChannels) -> None:
        """Removes a channel from all values or from none."""
        values = (*channels.inputs, *channels.outputs)
        removed = np.all(values, axis=0)
        for each in values:
            each[:] = removed


class TiledChannels(Flow):
    """A layer that joins the channels of all positions.

    `Flatten`, and a `Reshape` that leaves channels whole: it maps [..., c] to
    [..., n * c], where channel `i` was channel `i % c`.
    """

    def constants(self, inputs: Sequence[Float64Array]) -> list[Float64Array]:
        """Repeats the constants for each position."""
        return [np.tile(inputs[0], self.widths[0] // inputs[0].size)]

    def limit(self, channels: CallChannels) -> None:
        """Removes a channel at all positions or at none."""
        removed = channels.inputs[0]
        positions = channels.outputs[0].reshape(-1, removed.size)
        removed[:] &= positions.all(axis=0)
        positions[:] = removed


class ReshapedChannels(TiledChannels):
    """A `Reshape` that leaves channels whole."""

    def replacement(
        self, name: str, channels: CallChannels
    ) -> Replacement | None:
        """Returns the layer with a smaller last axis."""
        removed = channels.outputs[0]
        if not removed.any():
            return None
        shape = (*self.layer.target_shape[:-1], int((~removed).sum()))
        changes = {"name": name, "target_shape": shape}
        return Replacement(new_layer(self.layer, changes))


class ConcatenatedChannels(Flow):
    """`Concatenate` along the channels."""

    def constants(self, inputs: Sequence[Float64Array]) -> list[Float64Array]:
        """Concatenates the constants."""
        return [np.concatenate(inputs)]

    def limit(self, channels: CallChannels) -> None:
        """Removes a channel from input and output or from neither."""
        start = 0
        for each in channels.inputs:
            part = channels.outputs[0][start : start + each.size]
            each[:] &= part
            part[:] = each
            start += each.size


class KernelChannels(Flow):
    """`Dense` or a convolution, channels last.

        y = activation(sum{ x[c] * w[c] : c } + bias)

    An input channel may be removed if no remaining unit uses it, or if it is a
    constant, which is then added to the bias:

        bias' = bias + sum{ constant[c] * sum{ w[p, c] : p } : c }

    with `p` the positions under a convolution's kernel. If the input is padded
    with zeros, only the constant zero is constant at the border as well.

    Args:
        layer: The layer.
        widths: Number of channels of its output.
        padded: Whether the input is padded with zeros.
    """

    def __init__(self, layer: Any, widths: Sequence[int], padded: bool) -> None:
        super().__init__(layer, widths)
        self.padded = padded
        self.kernel = as_array(layer.kernel)  # [..., channels, units]
        around = tuple(range(self.kernel.ndim - 2))
        self.used = (self.kernel != 0).any(axis=around)  # [channels, units]
        self.summed = self.kernel.sum(axis=around, dtype=np.float64)
        self.bias = np.zeros(widths[0])  # [units]
        if layer.use_bias:
            self.bias += as_array(layer.bias)
        self.elementwise = is_elementwise(layer.activation)

    def constants(self, inputs: Sequence[Float64Array]) -> list[Float64Array]:
        """Computes units that depend on constants alone."""
        if not self.elementwise:
            return super().constants(inputs)
        known = self._foldable(inputs[0])  # [channels]
        constant = ~self.used[~known].any(axis=0)  # [units]
        sums = self.bias + np.where(known, inputs[0], 0.0) @ self.summed
        outputs = apply(self.layer.activation, sums)
        return [np.where(constant, outputs, np.nan)]

    def limit(self, channels: CallChannels) -> None:
        """Restores inputs that the remaining units use."""
        removed_units = channels.outputs[0]
        if not self.elementwise:
            removed_units[:] = False
        needed = self.used[:, ~removed_units].any(axis=1)
        foldable = self._foldable(channels.constants[0])
        channels.inputs[0][:] &= ~needed | foldable

    def replacement(
        self, name: str, channels: CallChannels
    ) -> Replacement | None:
        """Returns the smaller layer."""
        constants = channels.constants[0]
        kept, units = ~channels.inputs[0], ~channels.outputs[0]
        if kept.all() and units.all():
            return None
        # Remaining units do not use a removed channel that is not a constant.
        known = ~kept & self._foldable(constants)
        folded = np.where(known, constants, 0.0) @ self.summed
        use_bias = bool(self.layer.use_bias or folded[units].any())
        size = "units" if "units" in self.layer.get_config() else "filters"
        new = new_layer(
            self.layer,
            {
                "name": name,
                size: int(units.sum()),
                "use_bias": use_bias,
                **_resizable_initializers(self.layer),
            },
        )

        def load() -> None:
            new.kernel.assign(self.kernel[..., kept, :][..., units])
            if use_bias:
                new.bias.assign((self.bias + folded)[units])

        return Replacement(new, load)

    def _foldable(self, constants: Float64Array) -> BoolArray:
        if self.padded:
            return np.asarray(constants == 0)
        return np.isfinite(constants)


class NormalizedChannels(Flow):
    """`BatchNormalization` along the channels, in inference mode.

    y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
    """

    def constants(self, inputs: Sequence[Float64Array]) -> list[Float64Array]:
        """Normalizes constants; a channel with a gamma of 0 is beta."""
        layer = self.layer
        variance = as_array(layer.moving_variance).astype(np.float64)
        scale = 1.0 / np.sqrt(variance + layer.epsilon)
        if layer.scale:
            scale = scale * as_array(layer.gamma)
        known = np.isfinite(inputs[0])
        centred = np.where(known, inputs[0], 0.0) - as_array(layer.moving_mean)
        outputs = centred * scale
        if layer.center:
            outputs = outputs + as_array(layer.beta)
        return [np.where(known | (scale == 0), outputs, np.nan)]

    def limit(self, channels: CallChannels) -> None:
        """Removes a channel from input and output or from neither."""
        channels.inputs[0][:] &= channels.outputs[0]
        channels.outputs[0][:] = channels.inputs[0]

    def replacement(
        self, name: str, channels: CallChannels
    ) -> Replacement | None:
        """Returns the layer with shorter vectors."""
        kept = ~channels.outputs[0]
        if kept.all():
            return None
        old = self.layer
        new = new_layer(old, {"name": name, **_resizable_initializers(old)})

        def load() -> None:
            new.moving_mean.assign(as_array(old.moving_mean)[kept])
            new.moving_variance.assign(as_array(old.moving_variance)[kept])
            if old.scale:
                new.gamma.assign(as_array(old.gamma)[kept])
            if old.center:
                new.beta.assign(as_array(old.beta)[kept])

        return Replacement(new, load)


def _resizable_initializers(layer: Any) -> dict[str, str]:
    """Returns replacements for initializers that may require one shape."""
    return {
        name: "zeros"
        for name, value in vars(layer).items()
        if name.endswith("_initializer")
        and (is_user_defined(value) or _is_array(value))
    }


def _is_array(initializer: Any) -> bool:
    constant = isinstance(initializer, keras.initializers.Constant)
    return constant and np.ndim(initializer.value) > 0
