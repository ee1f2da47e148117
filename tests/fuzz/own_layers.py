# SPDX-License-Identifier: Apache-2.0
"""Layers as users write them, for the grammar of random models.

Every class spells its noise in another way. Bodies are written out, since the
spelling is what a search for noise may miss.
"""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.random import dropout as imported_dropout
from keras.src import backend
from keras.src.backend.tensorflow.random import dropout as captured_dropout

layers = keras.layers
ops = keras.ops


class _Rated(layers.Layer):
    """Holds a rate, and a seed generator of its own if asked to."""

    def __init__(self, rate: float, seeded: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = keras.random.SeedGenerator() if seeded else None
        self.supports_masking = True


# Spellings of hand-made dropout.


class ByModule(_Rated):
    def call(self, x, training=None):
        if training:
            return keras.random.dropout(x, self.rate, seed=self.seed)
        return x


class ByImportedName(_Rated):
    def call(self, x, training=False):
        return imported_dropout(x, self.rate, seed=self.seed) if training else x


class ByAttribute(_Rated):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fn = keras.random.dropout

    def call(self, x, training=None):
        return self.fn(x, self.rate, seed=self.seed) if training else x


class ByGetattr(_Rated):
    def call(self, x, training=None):
        draw = getattr(keras.random, "drop" + "out")
        return draw(x, self.rate, seed=self.seed) if training else x


class ByPartial(_Rated):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fn = functools.partial(
            keras.random.dropout, rate=self.rate, seed=self.seed
        )

    def call(self, x, training=None):
        return self.fn(x) if training else x


class _Helper:
    def __init__(self, rate: float, seed: Any) -> None:
        self.rate, self.seed = rate, seed

    def disturb(self, x: Any) -> Any:
        return keras.random.dropout(x, self.rate, seed=self.seed)


class ByHelper(_Rated):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.helper = _Helper(self.rate, self.seed)

    def call(self, x, training=None):
        return self.helper.disturb(x) if training else x


class ByImportInside(_Rated):
    def call(self, x, training=None):
        from keras.random import dropout as drop

        return drop(x, self.rate, seed=self.seed) if training else x


class ByMethod(_Rated):
    def call(self, x, training=None):
        return self.disturb(x) if training else x

    def disturb(self, x):
        return keras.random.dropout(x, self.rate, seed=self.seed)


class ByClosure(_Rated):
    def call(self, x, training=None):
        def disturb(x):
            return keras.random.dropout(x, self.rate, seed=self.seed)

        return disturb(x) if training else x


class BySuper(ByModule):
    def call(self, x, training=None):
        return super().call(x, training=training)


class ByBackend(_Rated):
    def call(self, x, training=None):
        if training and self.rate > 0:
            return backend.random.dropout(x, self.rate, seed=self.seed)
        return x


class ByNoiseShape(_Rated):
    """One mask for all places of a row."""

    def call(self, x, training=None):
        if not training:
            return x
        shape = (ops.shape(x)[0], *[1] * (len(x.shape) - 2), x.shape[-1])
        return keras.random.dropout(
            x, self.rate, noise_shape=shape, seed=self.seed
        )


class OwnDropout(layers.Dropout):
    """A Dropout whose `call` was written anew."""

    def call(self, inputs, training=False):
        if training and self.rate > 0:
            kept = keras.random.dropout(
                inputs, self.rate, seed=self.seed_generator
            )
            return kept + 0.0 * inputs
        return inputs


SPELLINGS = {
    cls.__name__: cls
    for cls in (
        ByModule,
        ByImportedName,
        ByAttribute,
        ByGetattr,
        ByPartial,
        ByHelper,
        ByImportInside,
        ByMethod,
        ByClosure,
        BySuper,
        ByBackend,
        ByNoiseShape,
    )
}


class ByCapturedFunction(_Rated):
    """Took the backend's own function before anything could replace it."""

    def call(self, x, training=None):
        return captured_dropout(x, self.rate, seed=self.seed) if training else x


class ByFixedSeed(_Rated):
    """The same mask at every call: no noise at all."""

    def call(self, x, training=None):
        return keras.random.dropout(x, self.rate, seed=5) if training else x


# Other distributions.


class Law(_Rated):
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


class RawTensorFlow(_Rated):
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


class NumPyNoise(_Rated):
    """Noise that is a constant once the layer is traced."""

    def call(self, x, training=None):
        noise = np.random.normal(size=x.shape[-1])  # noqa: NPY002
        return x + self.rate * noise.astype("float32")


# Stochastic depth.


class ConvNeXtDepth(_Rated):
    """As in `keras.applications.convnext`."""

    def call(self, x, training=None):
        if training:
            keep = 1 - self.rate
            shape = (ops.shape(x)[0],) + (1,) * (len(ops.shape(x)) - 1)
            kept = ops.floor(keep + keras.random.uniform(shape, 0, 1))
            return (x / keep) * kept
        return x


class HubDropPath(_Rated):
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


class DepthOfTwo(_Rated):
    """Takes the shortcut and the branch, as KerasCV does."""

    def call(self, x, training=None):
        shortcut, branch = x
        if not training:
            return shortcut + branch
        shape = (ops.shape(branch)[0],) + (1,) * (len(branch.shape) - 1)
        kept = keras.random.uniform(shape, seed=self.seed) >= self.rate
        scale = ops.cast(kept, branch.dtype) / (1.0 - self.rate)
        return shortcut + branch * scale


# Layers that hold noise layers.


def noise_layer(noise: str, rate: float) -> Any:
    """Returns a Keras noise layer for inputs of any rank."""
    if noise == "gaussian_noise":
        return layers.GaussianNoise(rate)
    if noise == "gaussian_dropout":
        return layers.GaussianDropout(rate)
    if noise == "alpha_dropout":
        return layers.AlphaDropout(rate)
    return layers.Dropout(rate)


class _Holder(layers.Layer):
    def __init__(self, rate: float, noise: str = "dropout", **kwargs: Any):
        super().__init__(**kwargs)
        self.rate = rate
        self.drop = noise_layer(noise, rate)
        self.supports_masking = True


class HoldsBare(_Holder):
    def call(self, x):
        return self.drop(x) + 0.5 * x


class HoldsAndPasses(_Holder):
    def call(self, x, training=None):
        return self.drop(x, training=training) * 1.5


class HoldsAlwaysOn(_Holder):
    def call(self, x):
        return self.drop(x, training=True) + 0.5 * x


class GatedBare(_Holder):
    def call(self, x, training=None):
        if training:
            x = self.drop(x)
        return x


class GatedOn(_Holder):
    def call(self, x, training=False):
        if training and self.rate > 0:
            x = self.drop(x, training=True)
        return x * 1.5


class GatedPassing(_Holder):
    def call(self, x, training=None):
        return self.drop(x, training=training) if training else x


class GatedTwice(_Holder):
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


class TwoOutputs(_Holder):
    def call(self, x, training=None):
        return self.drop(x), 0.5 * self.drop(x * x, training=training)


HOLDERS = {
    cls.__name__: cls for cls in (HoldsBare, HoldsAndPasses, HoldsAlwaysOn)
}
GATES = {
    cls.__name__: cls
    for cls in (GatedBare, GatedOn, GatedPassing, GatedTwice, GatedDeep)
}


class NoisyDense(_Rated):
    """Weights of its own, and noise made by hand."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 4), name="kernel")
        self.bias = self.add_weight(shape=(4,), name="bias")

    def call(self, x, training=None):
        if training:
            x = keras.random.dropout(x, self.rate, seed=self.seed)
        return ops.matmul(x, self.kernel) + self.bias


class HandMadeBesideLayers(_Rated):
    """A sublayer, and noise made by hand."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dense = layers.Dense(4, activation="tanh")

    def call(self, x, training=None):
        if training:
            x = keras.random.dropout(x, self.rate, seed=self.seed)
        return self.dense(x)


class DrawsInALoop(_Rated):
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


class HarmfulScale(_Holder):
    def call(self, x, training=None):
        return 2.0 * self.drop(x) if training else x


class HarmfulNorm(_Holder):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = layers.BatchNormalization()

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x, training=None):
        return self.norm(self.drop(x)) if training else x


class HarmfulUnbuilt(_Holder):
    """Its BatchNormalization has no weights before the first training step."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = layers.BatchNormalization()

    def call(self, x, training=None):
        return self.norm(self.drop(x)) if training else x


class HarmfulMomentum(_Holder):
    """Its BatchNormalization moves no statistics, and still uses the batch."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = layers.BatchNormalization(momentum=1.0)

    def call(self, x, training=None):
        x = self.norm(x)
        return self.drop(x) if training else x


class CountsCalls(_Holder):
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


class EagerOnly(_Holder):
    """Needs a value, so it cannot be traced."""

    def call(self, x):
        return self.drop(x) * float(np.sign(np.max(x.numpy()) + 1e3))

    def compute_output_shape(self, shape):
        return shape


# Batches that are not what they are declared to be.


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
