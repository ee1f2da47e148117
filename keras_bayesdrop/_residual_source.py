# SPDX-License-Identifier: Apache-2.0
"""What a residual layer tells about itself, so that it can be taken apart."""

import abc
from typing import Any


class ResidualSource(abc.ABC):
    """Mix-in of layers that are others in a row, beside a shortcut.

        y = add([shortcut(x), branch(x)])

    Not a word more: with one input and no arguments it is these layers.
    """

    @abc.abstractmethod
    def residual_layers(self) -> tuple[list[Any], list[Any], Any]:
        """Returns the layers of the shortcut, of the branch, and `add`.

        Returns:
            Two lists of layers, in the order of their calls, the first empty
            if the shortcut is the input itself; and a `keras.layers.Add`.
        """
