# SPDX-License-Identifier: Apache-2.0
"""Models with recurrent layers."""

import keras

from tests.zoo.members import linear_dense
from tests.zoo.members import member
from tests.zoo.members import numbers
from tests.zoo.members import tokens

layers = keras.layers


def recurrent(layer, time=4):
    return keras.Sequential(
        [keras.Input((time, 3)), layer, linear_dense(2)]
    ), numbers(4, 3)


@member(draws=8)
def lstm():
    return recurrent(layers.LSTM(3, dropout=0.3, recurrent_dropout=0.4))


@member(draws=6)
def gru():
    return recurrent(layers.GRU(3, dropout=0.3, recurrent_dropout=0.4))


@member(draws=2)
def simple_rnn():
    return recurrent(
        layers.SimpleRNN(
            3, dropout=0.3, recurrent_dropout=0.4, return_sequences=True
        )
    )


@member(draws=1)
def lstm_unrolled_backwards():
    return recurrent(
        layers.LSTM(3, dropout=0.5, unroll=True, go_backwards=True)
    )


@member(draws=4)
def lstm_of_any_length():
    return recurrent(layers.LSTM(3, recurrent_dropout=0.5), time=None)


@member(draws=10, slow=True)
def stacked_cells():
    cells = [
        layers.LSTMCell(3, dropout=0.3, recurrent_dropout=0.4),
        layers.GRUCell(2, dropout=0.5),
        layers.SimpleRNNCell(2, recurrent_dropout=0.5),
    ]
    return recurrent(layers.RNN(cells))


@member(draws=16)
def bidirectional():
    return recurrent(
        layers.Bidirectional(layers.LSTM(2, dropout=0.3, recurrent_dropout=0.4))
    )


@member(draws=8, slow=True)
def conv_lstm():
    return keras.Sequential(
        [
            keras.Input((3, 4, 2)),
            layers.ConvLSTM1D(2, 2, dropout=0.3, recurrent_dropout=0.3),
            layers.Flatten(),
            linear_dense(2),
        ]
    ), numbers(3, 4, 2)


@member(draws=6, slow=True)
def encoder_decoder():
    source, target = keras.Input((4, 3)), keras.Input((3, 3))
    _, *state = layers.LSTM(4, dropout=0.4, return_state=True)(source)
    x = layers.LSTM(4, recurrent_dropout=0.4, return_sequences=True)(
        target, initial_state=state
    )
    x = linear_dense(2)(layers.Dropout(0.2)(x))
    return keras.Model([source, target], x), [
        numbers(4, 3),
        numbers(3, 3, seed=1),
    ]


@member(draws=2)
def masked_lstm():
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(9, 3, mask_zero=True),
            layers.Dropout(0.5),
            layers.LSTM(3, dropout=0.3),
            linear_dense(2),
        ]
    ), tokens(4)


@member(draws=2, slow=True)
def masked_before_noise():
    """The mask crosses from what runs once to what runs per sample."""
    inputs = keras.Input((4,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(inputs)
    x = layers.LSTM(3, return_sequences=True)(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Bidirectional(layers.GRU(2))(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, linear_dense(2)(x)), tokens(4)
