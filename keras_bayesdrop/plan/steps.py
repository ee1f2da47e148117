# SPDX-License-Identifier: Apache-2.0
"""The steps of a plan: data for the engines, which know no Keras layer."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.noise.noise_shape import NoiseShape
from keras_bayesdrop.plan.layer_forms import LayerForm
from keras_bayesdrop.plan.thin_forms import ThinForm


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
        axis: The axis that holds the rows, or `None` if none does. Samples
            run one at a time unless it is the first.
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
    axis: int | None = 0

    @property
    def random(self) -> bool:
        """Returns whether the output differs between samples."""
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
        has_entries: Whether one that is on perturbs several entries per row.
        form: What it computes, for engines that compile it, or why they
            cannot.
        thin: What it does to channels, for engines that leave some out, or
            why it gets all of them.
    """

    path: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    call: Callable[[Sequence[tf.Tensor], Draws | None], Sequence[tf.Tensor]]
    first_site: int = 0
    num_sites: int = 0
    active: bool = False
    has_entries: bool = False
    form: LayerForm | str = "noise inside"
    thin: ThinForm | str = "noise inside"

    @property
    def random(self) -> bool:
        """Returns whether the output differs between samples."""
        return self.active


Step = NoiseStep | CallStep


@dataclasses.dataclass(frozen=True)
class ChainLink:
    """One link of a chain: noise, matmul, bias, activation.

    Attributes:
        noise: The noise on its input, or `None`.
        per_entry: Whether the noise differs between the places of a row.
        weights: Returns kernel and bias (or `None`) as they are when called.
        activation: Name of the activation.
        sizes: Units in and out.
    """

    noise: NoiseStep | None
    per_entry: bool
    weights: Callable[[], tuple[tf.Tensor, tf.Tensor | None]]
    activation: str
    sizes: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class ChainStep:
    """A run of steps that one call of the compiled op does.

    Attributes:
        path: Path of its first step.
        kind: What it is, in words.
        inputs: Number of the value it takes, alone in a tuple.
        outputs: Number of the value it makes, alone in a tuple.
        links: The chain.
        steps: The steps that it stands for.
        flattens: Whether its input is flattened first.
        dtype: Name of the dtype of its input, weights and output.
    """

    path: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    links: tuple[ChainLink, ...]
    steps: tuple[Step, ...]
    flattens: bool
    dtype: str
