# SPDX-License-Identifier: Apache-2.0
"""How channels pass through a layer.

A channel is an entry of the last axis. Two things are known of each, in
arrays with an entry per channel:

    constants   its value, if it is the same for all inputs and at all
                positions; NaN otherwise (infinity is not a constant, either)
    removed     whether it goes

A flow says, for one call of one layer, which constants it makes of constants,
which channels may go (it takes back what may not), and what the layer becomes
without them.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.copies import new_layer
from keras_bayesdrop.graph.surgery.kernels import BoolArray


class Flow:
    """A layer about which nothing is known: all its channels stay.

    Args:
        layer: The layer.
        widths: Channels of each of its outputs.
    """

    def __init__(self, layer: Any, widths: Sequence[int]) -> None:
        self.layer = layer
        self.widths = widths

    def constants(self, given: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns the constants that it makes.

        Args:
            given: Constants of its inputs.

        Returns:
            Constants of its outputs.
        """
        return [np.full(width, np.nan) for width in self.widths]

    def limit(
        self,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> None:
        """Takes back the removal of channels that have to stay.

        Args:
            given: Channels removed from its inputs. Changed in place.
            made: Channels removed from its outputs. Changed in place.
            constants: Constants of its inputs.
        """
        for removed in (*given, *made):
            removed[:] = False

    def part(
        self,
        name: str,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> Part | None:
        """Returns the layer without the channels that go.

        Args:
            name: Name of the new layer.
            given: Channels removed from its inputs.
            made: Channels removed from its outputs.
            constants: Constants of its inputs.

        Returns:
            `None` if a copy of the layer does.
        """
        return None


class Same(Flow):
    """A layer that makes each channel of the channels of the same number.

    Elementwise layers, pooling, merging layers.

    Args:
        layer: The layer.
        widths: Channels of its output.
        compute: Maps the constants of its inputs to those of its output.
    """

    def __init__(
        self,
        layer: Any,
        widths: Sequence[int],
        compute: Callable[..., Float64Array],
    ) -> None:
        super().__init__(layer, widths)
        self.compute = compute

    def constants(self, given: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns the constants that it makes of known ones."""
        known = np.all([np.isfinite(each) for each in given], axis=0)
        made = self.compute(*(np.where(known, each, 0.0) for each in given))
        return [np.where(known, made, np.nan)]

    def limit(
        self,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> None:
        """Removes a channel everywhere or nowhere."""
        removed = np.all([*given, *made], axis=0)
        for each in (*given, *made):
            each[:] = removed


class Tiled(Flow):
    """A layer that puts the channels of all positions behind each other.

    `Flatten`, and a `Reshape` that leaves channels whole: of [..., c] it makes
    [..., n * c], channel `i` of which was channel `i % c`.
    """

    def constants(self, given: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns the constants, once for each position."""
        return [np.tile(given[0], self.widths[0] // given[0].size)]

    def limit(
        self,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> None:
        """Removes a channel at all positions or at none."""
        positions = made[0].reshape(-1, given[0].size)
        given[0][:] &= positions.all(axis=0)
        positions[:] = given[0]


class Reshaped(Tiled):
    """A `Reshape` that leaves channels whole."""

    def part(
        self,
        name: str,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> Part | None:
        """Returns the layer with a smaller last axis."""
        if not made[0].any():
            return None
        shape = (*self.layer.target_shape[:-1], int((~made[0]).sum()))
        changes = {"name": name, "target_shape": shape}
        return Part(new_layer(self.layer, changes))


class Joined(Flow):
    """`Concatenate` along the channels."""

    def constants(self, given: Sequence[Float64Array]) -> list[Float64Array]:
        """Returns the constants behind each other."""
        return [np.concatenate(given)]

    def limit(
        self,
        given: Sequence[BoolArray],
        made: Sequence[BoolArray],
        constants: Sequence[Float64Array],
    ) -> None:
        """Removes a channel before and after or not at all."""
        start = 0
        for each in given:
            mine = made[0][start : start + each.size]
            each[:] &= mine
            mine[:] = each
            start += each.size
