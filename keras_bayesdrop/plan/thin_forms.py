# SPDX-License-Identifier: Apache-2.0
"""Describes what a layer does to the channels of its input.

    ProductForm     a convolution or a matmul: mixes all channels
    EachForm        the same function of every channel by itself
    ScaleShiftForm  a factor and a summand per channel
    DepthwiseForm   a convolution of every channel by itself
    MergeForm       a function of the same channel of several inputs
    JoinForm        puts the channels of its inputs one after another
    FlattenForm     moves places and channels into one axis
    IdentityForm    hands its input on

Layers of these forms work on some of the channels as they do on all.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm

DTYPES = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class EachForm:
    """The same function of every channel by itself.

    Attributes:
        keeps_zero: Whether a channel that is 0 stays 0.
        scales: Whether f(s x) = s f(x) for s >= 0.
    """

    keeps_zero: bool
    scales: bool


@dataclasses.dataclass(frozen=True)
class MergeForm:
    """A function of the same channel of several inputs.

    If the channel is 0 in all inputs, then it is 0 in the output.
    """


@dataclasses.dataclass(frozen=True)
class JoinForm:
    """Puts the channels of its inputs one after another."""


@dataclasses.dataclass(frozen=True)
class DepthwiseForm:
    """A convolution of each channel with a kernel of its own.

    Attributes:
        weights: Returns kernel [..., channels, 1] and bias (or `None`).
        product: Maps an input and a kernel of the same channels to the product.
        activate: The activation, which works on each entry by itself.
        keeps_zero: Whether a channel that is 0 stays 0.
    """

    weights: Callable[[], tuple[tf.Tensor, tf.Tensor | None]]
    product: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    activate: Callable[[tf.Tensor], tf.Tensor]
    keeps_zero: bool


@dataclasses.dataclass(frozen=True)
class ProductForm:
    """A product with a kernel over all channels, a bias and an activation.

    Attributes:
        weights: Returns kernel and bias (or `None`) as they are when called.
        product: Maps an input and a kernel, some of whose channels may be left
            out, to the product.
        activate: The activation.
        elementwise: Whether the activation works on each entry by itself.
        sizes: Channels in and out.
        axes: The axes of the kernel that hold them.
        places: Entries of the kernel for a pair of channels.
        transposed: Whether it is the transpose of a convolution, which needs
            to know the sizes of its input.
        first: A convolution of each channel by itself that comes first, or
            `None`.
    """

    weights: Callable[[], tuple[tf.Tensor, tf.Tensor | None]]
    product: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    activate: Callable[[tf.Tensor], tf.Tensor]
    elementwise: bool
    sizes: tuple[int, int]
    axes: tuple[int, int]
    places: int
    transposed: bool = False
    first: DepthwiseForm | None = None


ThinForm = (
    EachForm
    | DepthwiseForm
    | MergeForm
    | JoinForm
    | ProductForm
    | ScaleShiftForm
    | FlattenForm
    | IdentityForm
)
