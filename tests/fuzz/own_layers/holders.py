# SPDX-License-Identifier: Apache-2.0
"""Layers that hold noise layers, and layers that misuse `training`."""

from typing import Any

import keras
import numpy as np

from tests.fuzz.own_layers.spellings import Rated

layers = keras.layers
ops = keras.ops


def noise_layer(noise: str, rate: float) -> Any:
    """Returns a Keras noise layer for inputs of any rank."""
    if noise == "gaussian_noise":
        return layers.GaussianNoise(rate)
    if noise == "gaussian_dropout":
        return layers.GaussianDropout(rate)
    if noise == "alpha_dropout":
        return layers.AlphaDropout(rate)
    return layers.Dropout(rate)


class Holder(layers.Layer):
    def __init__(self, rate: float, noise: str = "dropout", **kwargs: Any):
        super().__init__(**kwargs)
        self.rate = rate
        self.drop = noise_layer(noise, rate)
        self.supports_masking = True


class HoldsBare(Holder):
    def call(self, x):
        return self.drop(x) + 0.5 * x


class HoldsAndPasses(Holder):
    def call(self, x, training=None):
        return self.drop(x, training=training) * 1.5


class HoldsAlwaysOn(Holder):
    def call(self, x):
        return self.drop(x, training=True) + 0.5 * x


class GatedBare(Holder):
    def call(self, x, training=None):
        if training:
            x = self.drop(x)
        return x


class GatedOn(Holder):
    def call(self, x, training=False):
        if training and self.rate > 0:
            x = self.drop(x, training=True)
        return x * 1.5


class GatedPassing(Holder):
    def call(self, x, training=None):
        return self.drop(x, training=training) if training else x


class GatedTwice(Holder):
    """One layer, two masks, one of them always drawn."""

    def call(self, x, training=None):
        y = self.drop(x)
        return y + self.drop(0.5 * x) if training else y + 0.5 * x


class GatedDeep(layers.Layer):
    """The inner layer learns of training from Keras' context."""

    def __init__(self, rate: float, noise: str = "dropout", **kwargs: Any):
        super().__init__(**kwargs)
        self.inner = GatedBare(rate, noise)
        self.supports_masking = True

    def call(self, x):
        return self.inner(x) * 1.5


class TwoOutputs(Holder):
    def call(self, x, training=None):
        return self.drop(x), 0.5 * self.drop(x * x, training=training)


HOLDERS = {
    cls.__name__: cls for cls in (HoldsBare, HoldsAndPasses, HoldsAlwaysOn)
}
GATES = {
    cls.__name__: cls
    for cls in (GatedBare, GatedOn, GatedPassing, GatedTwice, GatedDeep)
}


class NoisyDense(Rated):
    """Weights of its own, and noise made by hand."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 4), name="kernel")
        self.bias = self.add_weight(shape=(4,), name="bias")

    def call(self, x, training=None):
        if training:
            x = keras.random.dropout(x, self.rate, seed=self.seed)
        return ops.matmul(x, self.kernel) + self.bias


class HandMadeBesideLayers(Rated):
    """A sublayer, and noise made by hand."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dense = layers.Dense(4, activation="tanh")

    def call(self, x, training=None):
        if training:
            x = keras.random.dropout(x, self.rate, seed=self.seed)
        return self.dense(x)


class DrawsInALoop(Rated):
    """Three masks, drawn in the body of a loop."""

    def __init__(self, loop: str = "fori", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.loop = loop

    def call(self, x, training=None):
        if not training:
            return x

        def body(_, y):
            return keras.random.dropout(y, self.rate, seed=self.seed)

        if self.loop == "fori":
            return ops.fori_loop(0, 3, body, x)
        for number in range(3):
            x = body(number, x)
        return x


# Where `training` means more than noise.


class ScaledInTraining(layers.Layer):
    """No noise, but other values while training, like BatchNormalization.

    Attributes:
        frozen: Whether all of them run as at inference; brute force sets it.
    """

    frozen = False

    def call(self, x, training=None):
        return x * 2.0 if training and not self.frozen else x


class HarmfulScale(Holder):
    def call(self, x, training=None):
        return 2.0 * self.drop(x) if training else x


class HarmfulNorm(Holder):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = layers.BatchNormalization()

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x, training=None):
        return self.norm(self.drop(x)) if training else x


class HarmfulUnbuilt(Holder):
    """Its BatchNormalization has no weights before the first training step."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = layers.BatchNormalization()

    def call(self, x, training=None):
        return self.norm(self.drop(x)) if training else x


class HarmfulMomentum(Holder):
    """Its BatchNormalization moves no statistics, and still uses the batch."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = layers.BatchNormalization(momentum=1.0)

    def call(self, x, training=None):
        x = self.norm(x)
        return self.drop(x) if training else x


class CountsCalls(Holder):
    def build(self, shape):
        self.calls = self.add_weight(
            shape=(), initializer="zeros", trainable=False, name="calls"
        )

    def call(self, x, training=None):
        if training:
            self.calls.assign_add(1.0)
            x = self.drop(x)
        return x


HARMFUL = {
    cls.__name__: cls for cls in (HarmfulScale, HarmfulNorm, HarmfulUnbuilt)
}


class EagerOnly(Holder):
    """Needs a value, so it cannot be traced."""

    def call(self, x):
        return self.drop(x) * float(np.sign(np.max(x.numpy()) + 1e3))

    def compute_output_shape(self, shape):
        return shape
