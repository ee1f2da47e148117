# SPDX-License-Identifier: Apache-2.0
"""Hand-made noise of other distributions, and stochastic depth."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.fuzz.own_layers.spellings import Rated

ops = keras.ops


class Law(Rated):
    """Perturbs by a distribution, drawn by hand."""

    def __init__(self, law: str, gated: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.law = law
        self.gated = gated

    def call(self, x, training=None):
        if self.gated and not training:
            return x
        return getattr(self, self.law)(x)

    def normal(self, x):
        return x * keras.random.normal(
            ops.shape(x), mean=1.0, stddev=self.rate, seed=self.seed
        )

    def normal_added(self, x):
        noise = keras.random.normal(ops.shape(x), seed=self.seed)
        return x + self.rate * noise

    def normal_per_row(self, x):
        shape = (ops.shape(x)[0], *[1] * (len(x.shape) - 1))
        return x + self.rate * keras.random.normal(shape, seed=self.seed)

    def normal_used_twice(self, x):
        noise = keras.random.normal(ops.shape(x), seed=self.seed)
        return (x + self.rate * noise) * (1.0 + 0.3 * noise)

    def two_draws(self, x):
        x = x + self.rate * keras.random.normal(ops.shape(x), seed=self.seed)
        return x * keras.random.uniform(ops.shape(x), 0.5, 1.5, seed=self.seed)

    def uniform(self, x):
        return x * keras.random.uniform(ops.shape(x), 0.2, 1.8, seed=self.seed)

    def threshold(self, x):
        uniform = keras.random.uniform(ops.shape(x), seed=self.seed)
        keep = ops.cast(uniform >= self.rate, x.dtype)
        return x * keep / (1.0 - self.rate)

    def truncated_normal(self, x):
        return x + keras.random.truncated_normal(
            ops.shape(x), stddev=self.rate, seed=self.seed
        )

    def randint(self, x):
        factor = keras.random.randint(ops.shape(x), 0, 3, seed=self.seed)
        return x * ops.cast(factor, x.dtype)

    def categorical(self, x):
        """Draws classes of fixed probabilities, one a unit: rank 2 only."""
        logits = ops.zeros_like(x)[:, :1] + ops.convert_to_tensor(
            [[0.0, 1.0, -0.5]], x.dtype
        )
        drawn = keras.random.categorical(logits, x.shape[-1], seed=self.seed)
        return x * ops.cast(drawn, x.dtype)

    def categorical_of_inputs(self, x):
        """Keeps one unit, drawn by the softmax of all: rank 2 only."""
        drawn = keras.random.categorical(x, 1, seed=self.seed)[:, 0]
        return x * ops.one_hot(drawn, x.shape[-1], dtype=x.dtype)

    def gamma(self, x):
        return x * keras.random.gamma(ops.shape(x), 2.0, seed=self.seed) / 2.0

    def beta(self, x):
        return x * keras.random.beta(ops.shape(x), 2.0, 2.0, seed=self.seed)

    def binomial(self, x):
        return x * keras.random.binomial(ops.shape(x), 2.0, 0.5, seed=self.seed)

    def shuffle(self, x):
        return keras.random.shuffle(x, axis=-1, seed=self.seed)

    def without_rows(self, x):
        """One draw for the whole batch."""
        return x * keras.random.normal(
            (x.shape[-1],), mean=1.0, stddev=self.rate, seed=self.seed
        )


LAWS = (
    "normal",
    "normal_added",
    "normal_per_row",
    "normal_used_twice",
    "two_draws",
    "uniform",
    "threshold",
    "truncated_normal",
    "randint",
)
LAWS_OF_VECTORS = ("categorical", "categorical_of_inputs")
LAWS_OUT_OF_REACH = ("gamma", "beta", "binomial", "shuffle")


class RawTensorFlow(Rated):
    """Noise that TensorFlow draws, past Keras."""

    def __init__(self, draw: str, gated: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.draw = draw
        self.gated = gated
        self.generator = tf.random.Generator.from_seed(3)

    def call(self, x, training=None):
        if self.gated and not training:
            return x
        return getattr(self, self.draw)(x)

    def normal(self, x):
        return x + self.rate * tf.random.normal(tf.shape(x))

    def uniform(self, x):
        return x * tf.random.uniform(tf.shape(x), 0.5, 1.5)

    def nn_dropout(self, x):
        return tf.nn.dropout(x, self.rate)

    def stateless(self, x):
        seed = tf.random.uniform((2,), 0, 1 << 20, tf.int32)
        return x + self.rate * tf.random.stateless_normal(tf.shape(x), seed)

    def from_generator(self, x):
        return x + self.rate * self.generator.normal(tf.shape(x))

    def in_a_function(self, x):
        return tf.function(self.normal, autograph=False)(x)

    def py_function(self, x):
        def draw(value):
            noise = np.random.default_rng().normal(size=value.shape)
            return value + (self.rate * noise).astype("float32")

        y = tf.numpy_function(draw, [x], tf.float32, stateful=True)
        y.set_shape(x.shape)
        return y


RAW_DRAWS = (
    "normal",
    "uniform",
    "nn_dropout",
    "stateless",
    "from_generator",
    "in_a_function",
    "py_function",
)


class NumPyNoise(Rated):
    """Noise that is a constant once the layer is traced."""

    def call(self, x, training=None):
        noise = np.random.normal(size=x.shape[-1])  # noqa: NPY002
        return x + self.rate * noise.astype("float32")


# Stochastic depth.


class ConvNeXtDepth(Rated):
    """As in `keras.applications.convnext`."""

    def call(self, x, training=None):
        if training:
            keep = 1 - self.rate
            shape = (ops.shape(x)[0],) + (1,) * (len(ops.shape(x)) - 1)
            kept = ops.floor(keep + keras.random.uniform(shape, 0, 1))
            return (x / keep) * kept
        return x


class HubDropPath(Rated):
    """As in KerasHub's MiT and Swin."""

    def call(self, x, training=None):
        if self.rate == 0.0 or not training:
            return x
        batch = x.shape[0] or ops.shape(x)[0]
        shape = (batch,) + (1,) * (len(x.shape) - 1)
        kept = ops.cast(
            keras.random.uniform(shape, seed=self.seed) > self.rate, x.dtype
        )
        return x / (1.0 - self.rate) * kept


class DepthOfTwo(Rated):
    """Takes the shortcut and the branch, as KerasCV does."""

    def call(self, x, training=None):
        shortcut, branch = x
        if not training:
            return shortcut + branch
        shape = (ops.shape(branch)[0],) + (1,) * (len(branch.shape) - 1)
        kept = keras.random.uniform(shape, seed=self.seed) >= self.rate
        scale = ops.cast(kept, branch.dtype) / (1.0 - self.rate)
        return shortcut + branch * scale
