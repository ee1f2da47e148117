# SPDX-License-Identifier: Apache-2.0
"""Activations, as layers and after a product."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.moments import activations
from keras_bayesdrop.moments.fusing import fused
from keras_bayesdrop.moments.moments import Factor
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome
from keras_bayesdrop.moments.registry import register_rule
from keras_bayesdrop.moments.rules.softmax import softmax_outcome

# Those that never decrease.
INCREASING = frozenset(
    {
        keras.activations.relu,
        keras.activations.leaky_relu,
        keras.activations.sigmoid,
        keras.activations.tanh,
        keras.activations.elu,
        keras.activations.selu,
        keras.activations.softplus,
        keras.activations.softsign,
        keras.activations.exponential,
        keras.activations.hard_sigmoid,
        keras.activations.relu6,
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Activated(Moments):
    """Moments of feature maps behind an activation that never decreases.

    A rule may go back: what is not used of the graph is not computed.

    Attributes:
        activation: The rule of the activation.
        before: What it was applied to.
    """

    activation: activations.Activation
    before: Moments


def activate(function: Any, x: Moments, name: str) -> Outcome:
    """Applies one of Keras' activation functions.

    Args:
        function: The function, or `None`.
        x: What it is applied to.
        name: Of the layer, for messages.
    """
    if function is keras.activations.softmax:
        return softmax_outcome(x)
    known = activations.activation_of(function)
    if known is None:
        label = getattr(function, "__name__", repr(function))
        raise PlanError(
            f"Layer `{name}` has an activation without a rule for moments. "
            "Expected one of Keras' own with its default settings. Received: "
            f"activation={label}"
        )
    return apply(known, x, function in INCREASING)


def apply(
    activation: activations.Activation, x: Moments, increasing: bool = False
) -> Outcome:
    """Applies the moments of an activation to every unit alone.

    Args:
        activation: Its rule.
        x: What it is applied to.
        increasing: Whether it never decreases.
    """
    if activation is activations.linear:
        return Outcome(x, (Factor(tf.ones_like(x.mean)),), linear=True)
    if x.mean.shape.rank != 2:
        # Covariances are not carried, so the derivative is not needed.
        made = Moments(
            *fused([lambda *x: activation(*x)[:2]], x.mean, x.spread())
        )
        if increasing:
            made = Activated(
                made.mean, made.variance, activation=activation, before=x
            )
        return Outcome(made)
    mean, variance, gain = activation(x.mean, x.spread())
    made = Moments(mean, variance)
    if activation is not activations.relu:
        return Outcome(made, (Factor(gain),))

    def joint(before: tf.Tensor) -> tuple[Moments, tf.Tensor]:
        return made, activations.relu_covariance(x.mean, before)

    return Outcome(made, (Factor(gain),), joint)


@register_rule(keras.layers.Activation)
def activation(
    layer: keras.layers.Activation, inputs: Sequence[Moments]
) -> Outcome:
    """Any activation that is known by its function."""
    return activate(layer.activation, inputs[0], layer.name)


@register_rule(keras.layers.ReLU)
def relu(layer: keras.layers.ReLU, inputs: Sequence[Moments]) -> Outcome:
    """max(x, 0), with a slope below zero; with other settings by quadrature."""
    slope = float(layer.negative_slope or 0.0)
    rule = activations.leaky_relu(slope) if slope else activations.relu
    if layer.max_value is not None or layer.threshold:
        rule = activations.quadrature(layer.call)
    return apply(rule, inputs[0], increasing=True)


@register_rule(keras.layers.LeakyReLU)
def leaky_relu(
    layer: keras.layers.LeakyReLU, inputs: Sequence[Moments]
) -> Outcome:
    """max(x, slope * x)."""
    rule = activations.leaky_relu(float(layer.negative_slope))
    return apply(rule, inputs[0], increasing=True)


@register_rule(keras.layers.ELU)
def elu(layer: keras.layers.ELU, inputs: Sequence[Moments]) -> Outcome:
    """The exponential linear unit, by quadrature."""
    rule = activations.quadrature(layer.call)
    return apply(rule, inputs[0], increasing=layer.alpha >= 0)
