# SPDX-License-Identifier: Apache-2.0
"""Models with attention, and with layers around layers."""

import keras
import numpy as np

from tests.zoo.members import ROWS
from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import numbers
from tests.zoo.members import tokens

layers = keras.layers


@member(draws=1)
def multi_head_attention():
    inputs = keras.Input((3, 4))
    x = layers.MultiHeadAttention(2, 3, dropout=0.4)(inputs, inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=1)
def cross_attention():
    query, value = keras.Input((2, 4)), keras.Input((3, 4))
    allowed = keras.Input((2, 3), dtype="bool")
    x, scores = layers.MultiHeadAttention(2, 3, dropout=0.4)(
        query=query,
        value=value,
        attention_mask=allowed,
        return_attention_scores=True,
    )
    visible = np.ones((ROWS, 2, 3), "bool")
    visible[:, 0, 1:] = False
    return keras.Model([query, value, allowed], [linear_dense(2)(x), scores]), [
        numbers(2, 4),
        numbers(3, 4, seed=1),
        visible,
    ]


@member(draws=1)
def grouped_query_attention():
    inputs = keras.Input((3, 4))
    x = layers.GroupQueryAttention(3, 4, 2, dropout=0.4)(inputs, inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=2)
def attention():
    query, value = keras.Input((2, 4)), keras.Input((3, 4))
    x = layers.Attention(dropout=0.4)([query, value])
    y = layers.AdditiveAttention(dropout=0.3)([query, value])
    return keras.Model([query, value], linear_dense(2)(x + y)), [
        numbers(2, 4),
        numbers(3, 4, seed=1),
    ]


@member(draws=3)
def transformer():
    inputs = keras.Input((3,), dtype="int32")
    x = layers.Embedding(9, 4)(inputs)
    x = x + np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    x = layers.Dropout(0.1)(x)
    y = layers.MultiHeadAttention(2, 2, dropout=0.2)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + y)
    y = layers.Dense(4)(layers.Dense(6, activation="gelu")(x))
    x = layers.LayerNormalization()(x + layers.Dropout(0.3)(y))
    return keras.Model(inputs, linear_dense(2)(x)), tokens(3)


# Layers around layers.


@member(draws=1, linear=True)
def time_distributed():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.TimeDistributed(layers.Dropout(0.5)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1)
def time_distributed_model():
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dropout(0.5)]
    )
    return keras.Sequential(
        [keras.Input((3, 4)), layers.TimeDistributed(inner), linear_dense(2)]
    ), numbers(3, 4)


@member(draws=1, like_training=False)
def time_distributed_any_length():
    # Keras maps over an open time axis; here it is moved into the batch.
    return keras.Sequential(
        [
            keras.Input((None, 4)),
            layers.TimeDistributed(layers.Dropout(0.5)),
            linear_dense(2),
        ]
    ), numbers(3, 4)
