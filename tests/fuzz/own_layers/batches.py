# SPDX-License-Identifier: Apache-2.0
"""Layers that fold or mix the batch, a recurrent cell, and a model."""

from typing import Any

import keras

layers = keras.layers
ops = keras.ops


class Fold(layers.Layer):
    """Moves all places into the batch, and does not say so."""

    def call(self, x):
        return ops.reshape(x, (-1, x.shape[-1]))

    def compute_output_shape(self, shape):
        return (shape[0], shape[-1])


class Unfold(layers.Layer):
    """Moves places out of the batch again."""

    def __init__(self, places: tuple[int, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.places = tuple(places)

    def call(self, x):
        return ops.reshape(x, (-1, *self.places, x.shape[-1]))

    def compute_output_shape(self, shape):
        return (shape[0], *self.places, shape[-1])


class MixesRows(layers.Layer):
    """Lets rows of a batch see each other."""

    def __init__(self, how: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.how = how
        self.supports_masking = True

    def call(self, x):
        if self.how == "centre":
            return x - ops.mean(x, axis=0, keepdims=True)
        if self.how == "reverse":
            return ops.flip(x, axis=0) + 0.5 * x
        if self.how == "softmax":
            return ops.softmax(x, axis=0)
        return x + 1e-2 * ops.mean(x, axis=0, keepdims=True)


MIXTURES = ("centre", "reverse", "softmax", "slightly")


class Positions(layers.Layer):
    """Returns weights without a batch axis."""

    def build(self, shape):
        self.table = self.add_weight(shape=(1, *shape[1:]), name="kernel")

    def call(self, x):
        return ops.convert_to_tensor(self.table)

    def compute_output_shape(self, shape):
        return (1, *shape[1:])


# Recurrent cells.


@keras.saving.register_keras_serializable("tests.fuzz")
class OwnCell(layers.Layer):
    """A recurrent cell with noise of its own, drawn at every step.

    Args:
        units: Width of the state.
        rate: Rate of its noise.
        noise: `"layer"`, `"gated layer"`, or `"by hand"`.
        on: `"inputs"` or `"state"`.
        **kwargs: Passed to the layer.
    """

    def __init__(
        self, units: int, rate: float, noise: str, on: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.state_size = units
        self.output_size = units
        self.rate = rate
        self.noise = noise
        self.on = on
        self.seed = None
        if noise == "by hand":
            self.seed = keras.random.SeedGenerator()
        else:
            self.drop = layers.Dropout(rate)

    def build(self, shape):
        units = self.state_size
        self.kernel = self.add_weight(shape=(shape[-1], units), name="kernel")
        self.recurrent = self.add_weight(shape=(units, units), name="recurrent")

    def call(self, inputs, states, training=None):
        state = states[0]
        if self.on == "inputs":
            inputs = self.disturb(inputs, training)
        else:
            state = self.disturb(state, training)
        state = ops.tanh(
            ops.matmul(inputs, self.kernel)
            + ops.matmul(state, self.recurrent)
            + 0.3
        )
        return state, [state]

    def disturb(self, x, training):
        if self.noise == "layer":
            return self.drop(x)
        if self.noise == "gated layer":
            return self.drop(x) if training else x
        if training:
            return keras.random.dropout(x, self.rate, seed=self.seed)
        return x


class OwnModel(keras.Model):
    """A subclassed model that runs layers one after the other.

    Args:
        members: The layers.
        passes: Whether `training` is handed on by name; Keras' context does
            otherwise.
        gate: Rate of a Dropout behind `if training`, or 0.
        **kwargs: Passed to the model.
    """

    def __init__(
        self,
        members: list[Any],
        passes: bool = False,
        gate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.members = members
        self.passes = passes
        self.gate = layers.Dropout(gate) if gate > 0 else None

    def call(self, inputs, training=None):
        x = inputs
        for layer in self.members:
            # Keras knows which layers take the argument.
            if self.passes and layer._call_has_training_arg:
                x = layer(x, training=training)
            else:
                x = layer(x)
        if self.gate is not None and training:
            x = self.gate(x)
        return x
