# SPDX-License-Identifier: Apache-2.0
"""Layers as people write them, with noise in their own code."""

import functools

import keras
import numpy as np
import tensorflow as tf
from keras.random import dropout as imported_dropout

layers = keras.layers
ops = keras.ops
RATE = 0.5


def disturb(x):
    return keras.random.dropout(x, RATE)


class Helper:
    def disturb(self, x):
        return keras.random.dropout(x, RATE)


class ByModule(layers.Layer):
    def call(self, x, training=None):
        return keras.random.dropout(x, RATE) if training else x


class ByName(layers.Layer):
    def call(self, x, training=None):
        return imported_dropout(x, RATE) if training else x


class ByAttribute(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.fn = keras.random.dropout

    def call(self, x, training=None):
        return self.fn(x, RATE) if training else x


class ByGetattr(layers.Layer):
    def call(self, x, training=None):
        draw = getattr(keras.random, "drop" + "out")
        return draw(x, RATE) if training else x


class ByHelperObject(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.helper = Helper()

    def call(self, x, training=None):
        return self.helper.disturb(x) if training else x


class ByPartial(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.fn = functools.partial(keras.random.dropout, rate=RATE)

    def call(self, x, training=None):
        return self.fn(x) if training else x


class ByImportInside(layers.Layer):
    def call(self, x, training=None):
        from keras.random import dropout

        return dropout(x, RATE) if training else x


class ByMethod(layers.Layer):
    def call(self, x, training=None):
        return self.disturb(x) if training else x

    def disturb(self, x):
        return keras.random.dropout(x, RATE)


class ByParent(ByModule):
    def call(self, x, training=None):
        return super().call(x, training=training)


class ByFunction(layers.Layer):
    def call(self, x, training=None):
        return disturb(x) if training else x


class BySeedGenerator(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x, training=None):
        if not training:
            return x
        return keras.random.dropout(x, RATE, seed=self.generator)


class ByNoiseShape(layers.Layer):
    def call(self, x, training=None):
        if not training:
            return x
        return keras.random.dropout(x, RATE, noise_shape=ops.shape(x))


class ByUniform(layers.Layer):
    """Dropout made of uniform numbers."""

    def call(self, x, training=None):
        if not training:
            return x
        u = keras.random.uniform(ops.shape(x))
        return ops.where(u >= RATE, x / (1 - RATE), ops.zeros_like(x))


class ByUntrackedLayer(layers.Layer):
    """A Dropout that Keras does not know of: it inherits `training`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._held = Helper()
        self._held.layer = layers.Dropout(RATE)

    def call(self, x, training=None):
        return self._held.layer(x)


class Always(layers.Layer):
    """Draws in every mode."""

    def call(self, x):
        return keras.random.dropout(x, RATE)


class IfTraining(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dropout = layers.Dropout(RATE)

    def call(self, x, training=None):
        return self.dropout(x) if training else x


class IfTrainingBesideBatchNorm(IfTraining):
    """Training mode moves the statistics too, unless it is kept out."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm = layers.BatchNormalization()

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x, training=None):
        x = self.norm(x, training=training)
        return self.dropout(x) if training else x


class IfTrainingTwice(layers.Layer):
    """An `if training` inside another one's branch."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = IfTraining()
        self.inner.built = True

    def call(self, x, training=None):
        return self.inner(x, training=True) if training else x


# Every one of these is `Dropout(RATE)`, to the bit.
DROPOUTS = (
    ByModule,
    ByName,
    ByAttribute,
    ByGetattr,
    ByHelperObject,
    ByPartial,
    ByImportInside,
    ByMethod,
    ByParent,
    ByFunction,
    BySeedGenerator,
    ByNoiseShape,
    ByUniform,
    ByUntrackedLayer,
    Always,
    IfTraining,
    IfTrainingBesideBatchNorm,
    IfTrainingTwice,
)


class ByTensorFlow(layers.Layer):
    def call(self, x, training=None):
        return tf.nn.dropout(x, RATE) if training else x


class ByTensorFlowNormal(layers.Layer):
    def call(self, x, training=None):
        return x + tf.random.normal(tf.shape(x)) if training else x


class AlwaysByTensorFlow(layers.Layer):
    def call(self, x):
        return x + tf.random.normal(tf.shape(x))


class ByStatelessTensorFlow(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x, training=None):
        if not training:
            return x
        seed = tf.cast(self.generator.next(), tf.int32)
        return x + tf.random.stateless_normal(tf.shape(x), seed)


class ByNumPy(layers.Layer):
    def call(self, x, training=None):
        return x + np.random.normal() if training else x  # noqa: NPY002


class ByPython(layers.Layer):
    def call(self, x):
        return tf.ensure_shape(
            tf.numpy_function(lambda v: v, [x], x.dtype), x.shape
        )

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


class BesideLayers(layers.Layer):
    """Draws by hand, and owns layers that training may change."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x, training=None):
        if training:
            x = keras.random.dropout(x, RATE)
        return self.dense(x)


class BesideState(layers.Layer):
    """Draws by hand, and has state that training moves."""

    def build(self, shape):
        self.mean = self.add_weight(shape=(shape[-1],), trainable=False)

    def call(self, x, training=None):
        if training:
            x = keras.random.dropout(x, RATE) - ops.mean(x, axis=0)
        return x - self.mean


class ScaledInTraining(IfTraining):
    """Training mode does more than draw."""

    def call(self, x, training=None):
        return self.dropout(x) * 1.5 if training else x


class AgainInTraining(IfTraining):
    """Draws in every mode, and in training once more."""

    def call(self, x, training=None):
        x = self.dropout(x)
        return self.dropout(x) * 1.5 if training else x


class BatchNormInTraining(IfTraining):
    """A statistic that does not move, and an output that does."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm = layers.BatchNormalization(momentum=1.0)

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x, training=None):
        if training:
            return self.dropout(self.norm(3 * x, training=True))
        return self.norm(x, training=False)


class FailsInTraining(layers.Layer):
    def call(self, x, training=None):
        if training:
            raise RuntimeError("not for training")
        return x


# Noise that nothing can take over, and what the message names.
OUT_OF_REACH = {
    ByTensorFlow: "RandomUniform",
    ByTensorFlowNormal: "RandomStandardNormal",
    AlwaysByTensorFlow: "RandomStandardNormal",
    ByStatelessTensorFlow: "StatelessRandom",
    ByNumPy: "NumPy",
    ByPython: "PyFunc",
    BesideLayers: "owns other layers",
    BesideState: "state",
    ScaledInTraining: "more than the noise",
    AgainInTraining: "more than the noise",
    BatchNormInTraining: "more than the noise",
    FailsInTraining: "not for training",
}
