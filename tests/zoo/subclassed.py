# SPDX-License-Identifier: Apache-2.0
"""Models and layers with a `call` of their own."""

import keras

from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import move_statistics
from tests.zoo.members import numbers

layers = keras.layers


class Block(layers.Layer):
    """Owns a Dropout under the name `dropout`, and calls it in a loop."""

    def __init__(self, units, repeats=1, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(units, activation="tanh")
        self.dropout = layers.Dropout(0.5)
        self.repeats = repeats

    def build(self, shape):
        self.dense.build(shape)
        self.built = True

    def call(self, x, training=None):
        for _ in range(self.repeats):
            x = self.dropout(self.dense(x), training=training)
        return x


class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = layers.Dense(6, activation="tanh")
        self.drop = layers.Dropout(0.5)
        self.head = linear_dense(2)

    def build(self, shape):
        self.hidden.build(shape)
        self.head.build((None, 6))
        self.built = True

    def call(self, x, training=None):
        x = self.drop(self.hidden(x), training=training)
        return self.head(x)


class SubclassedDeep(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [Block(4, repeats=2), Block(4)]
        self.inner = keras.Sequential(
            [keras.Input((4,)), layers.Dense(4), layers.Dropout(0.3)]
        )
        self.norm = layers.BatchNormalization()
        self.head = linear_dense(2)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(self.inner(x)))


class SubclassedDict(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)
        self.left = linear_dense(2)
        self.right = linear_dense(3)

    def call(self, inputs, training=None):
        # Keras 3.8 does not hand `training` on past a `call` without it.
        x = self.drop(inputs["b"], training=training)
        return {"z": self.left(x), "a": self.right(inputs["a"] + x)}


@member(draws=1)
def subclassed():
    model, x = Subclassed(), numbers(4)
    model(x)
    return model, x


@member(draws=1)
def subclassed_built_by_shape():
    model = Subclassed()
    model.build((None, 4))
    return model, numbers(4)


@member(draws=4, like_training=False)
def subclassed_deep():
    model, x = SubclassedDeep(), numbers(4)
    model(x)
    move_statistics(model)
    return model, x


@member(draws=1)
def subclassed_dict():
    model = SubclassedDict()
    x = {"b": numbers(4), "a": numbers(4, seed=1)}
    model(x)
    return model, x


@member(draws=4)
def layers_with_layers():
    return keras.Sequential(
        [keras.Input((4,)), Block(4, 3), Block(5), linear_dense(2)]
    ), numbers(4)
