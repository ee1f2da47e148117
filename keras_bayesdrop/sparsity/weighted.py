# SPDX-License-Identifier: Apache-2.0
"""How channels pass through layers with weights: cut, and constants folded."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.copies import is_users
from keras_bayesdrop.graph.surgery.copies import new_layer
from keras_bayesdrop.graph.surgery.kernels import BoolArray
from keras_bayesdrop.graph.surgery.kernels import as_array
from keras_bayesdrop.sparsity.activations import apply
from keras_bayesdrop.sparsity.activations import is_elementwise
from keras_bayesdrop.sparsity.flow import Flow


class KernelFlow(Flow):
    """`Dense` or a convolution, channels last.

        y = activation(sum{ x[c] * w[c] : c } + bias)

    An input channel may go if the units that stay do not use it, or if it is a
    constant, which the bias then takes over:

        bias' = bias + sum{ constant[c] * sum{ w[p, c] : p } : c }

    with `p` the positions under a convolution's kernel. Where the input is
    padded with zeros, only the constant zero is one at the border as well.

    Args:
        layer: The layer.
        widths: Channels of its output.
        padded: Whether zeros are put around its input.
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

    def constants(self, given: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns what units make of constants alone."""
        if not self.elementwise:
            return super().constants(given)
        known = self._foldable(given[0])  # [channels]
        constant = ~self.used[~known].any(axis=0)  # [units]
        sums = self.bias + np.where(known, given[0], 0.0) @ self.summed
        made = apply(self.layer.activation, sums)
        return [np.where(constant, made, np.nan)]

    def limit(
        self,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> None:
        """Keeps inputs that units which stay make use of."""
        if not self.elementwise:
            made[0][:] = False
        needed = self.used[:, ~made[0]].any(axis=1)
        given[0][:] &= ~needed | self._foldable(constants[0])

    def part(
        self,
        name: str,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> Part | None:
        """Returns the smaller layer."""
        gone, lost = given[0], made[0]  # [channels], [units]
        if not gone.any() and not lost.any():
            return None
        # Of a channel that goes and is no constant, nothing is used.
        known = gone & self._foldable(constants[0])
        folded = np.where(known, constants[0], 0.0) @ self.summed
        use_bias = bool(self.layer.use_bias or folded[~lost].any())
        units = "units" if "units" in self.layer.get_config() else "filters"
        new = new_layer(
            self.layer,
            {
                "name": name,
                units: int((~lost).sum()),
                "use_bias": use_bias,
                **_resizable_initializers(self.layer),
            },
        )

        def load() -> None:
            new.kernel.assign(self.kernel[..., ~gone, :][..., ~lost])
            if use_bias:
                new.bias.assign((self.bias + folded)[~lost])

        return Part(new, load)

    def _foldable(self, constants: Float64Array) -> BoolArray:
        if self.padded:
            return np.asarray(constants == 0)
        return np.isfinite(constants)


class NormFlow(Flow):
    """`BatchNormalization` along the channels, in inference mode.

    y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
    """

    def constants(self, given: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns what becomes of constants, and beta where gamma is 0."""
        layer = self.layer
        variance = as_array(layer.moving_variance).astype(np.float64)
        scale = 1.0 / np.sqrt(variance + layer.epsilon)
        if layer.scale:
            scale = scale * as_array(layer.gamma)
        known = np.isfinite(given[0])
        centred = np.where(known, given[0], 0.0) - as_array(layer.moving_mean)
        made = centred * scale
        if layer.center:
            made = made + as_array(layer.beta)
        return [np.where(known | (scale == 0), made, np.nan)]

    def limit(
        self,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> None:
        """Removes a channel before and after or not at all."""
        given[0][:] &= made[0]
        made[0][:] = given[0]

    def part(
        self,
        name: str,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> Part | None:
        """Returns the layer with shorter vectors."""
        kept = ~made[0]
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

        return Part(new, load)


def _resizable_initializers(layer: Any) -> dict[str, str]:
    """Returns a replacement for initializers that may know but one shape."""
    return {
        name: "zeros"
        for name, value in vars(layer).items()
        if name.endswith("_initializer")
        and (is_users(value) or _is_array(value))
    }


def _is_array(initializer: Any) -> bool:
    constant = isinstance(initializer, keras.initializers.Constant)
    return constant and np.ndim(initializer.value) > 0
