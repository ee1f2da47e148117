# SPDX-License-Identifier: Apache-2.0
"""A noise site: one place in a model where a call draws noise."""

import dataclasses
from typing import Any

from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise.noise_shape import NoiseShape


@dataclasses.dataclass(frozen=True)
class Site:
    """A place that draws noise when its layer is called.

    Attributes:
        path: Names from the model down to the layer, joined by `/`; for noise
            inside a recurrent or attention layer, with the part appended.
        layer: The Keras layer (or recurrent cell) that owns the noise.
        noise: Its distribution.
        noise_shape: Shape of the noise with its batch axis, or `None` for the
            shape of the input.
    """

    path: str
    layer: Any
    noise: Noise
    noise_shape: NoiseShape = None

    @property
    def name(self) -> str:
        """Name of the layer that owns the noise."""
        return str(self.layer.name)
