# SPDX-License-Identifier: Apache-2.0
"""The steps of a plan: data for the engines, which know no Keras layer."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop._draws import Draws
from keras_bayesdrop._draws import NoiseShape
from keras_bayesdrop.noise import Noise


@dataclasses.dataclass(frozen=True)
class NoiseStep:
    """Perturbs one value.

    Attributes:
        path: Names from the model down to the layer.
        kind: Class name of the layer.
        inputs: Number of the value it takes, alone in a tuple.
        outputs: Number of the value it makes, alone in a tuple.
        noise: The distribution.
        noise_shape: Shape of the noise, see `Site`.
        site: Number of the noise site.
        active: Whether the noise is on. An inactive step hands its input on.
        whole_rows: Whether the first axis is known to hold one entry a row.
    """

    path: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    noise: Noise
    noise_shape: NoiseShape
    site: int
    active: bool
    whole_rows: bool

    @property
    def random(self) -> bool:
        """Whether the step makes its output differ between samples."""
        return self.active


@dataclasses.dataclass(frozen=True)
class CallStep:
    """Calls an operation in inference mode.

    Attributes:
        path: Names from the model down to the operation.
        kind: Class name of the operation.
        inputs: Numbers of the values it takes.
        outputs: Numbers of the values it makes.
        call: Maps tensors for `inputs`, and draws for the noise inside (or
            `None`), to tensors for `outputs`.
        first_site: Number of the first noise site inside.
        num_sites: How many there are.
        active: Whether any of them is on.
    """

    path: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    call: Callable[[Sequence[tf.Tensor], Draws | None], Sequence[tf.Tensor]]
    first_site: int = 0
    num_sites: int = 0
    active: bool = False

    @property
    def random(self) -> bool:
        """Whether the step makes its output differ between samples."""
        return self.active


Step = NoiseStep | CallStep
