# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells that draw in their own `call`."""

import keras
import numpy as np
import pytest

from tests import zoo
from tests.prediction.right_or_refused import keeps
from tests.prediction.right_or_refused import predict

layers = keras.layers


class DropsInputs(layers.Layer):
    """A cell with a Dropout: Keras draws a mask at every step."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.state_size = units
        self.drop = layers.Dropout(0.5)

    def call(self, x, states, training=None):
        return self.drop(x, training=training), [states[0] + 1.0]


class DropsByHand(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.state_size = units

    def call(self, x, states, training=None):
        if training:
            x = keras.random.dropout(x, 0.5)
        return x, [states[0] + 1.0]


class Cell(DropsInputs):
    """A cell that carries what it dropped."""

    def call(self, x, states, training=None):
        y = self.drop(x, training=training) + 0.5 * states[0]
        return y, [y]


@pytest.mark.parametrize("cell", [DropsInputs, DropsByHand])
@pytest.mark.parametrize(
    ("length", "settings"),
    [
        (5, {}),
        (5, {"unroll": True}),
        (5, {"go_backwards": True}),
        (None, {}),
        (None, {"go_backwards": True}),
    ],
)
def test_a_cell_draws_at_every_step(cell, length, settings):
    """One site of [rows, steps, units] words, whoever makes the steps."""
    model = keras.Sequential(
        [
            keras.Input((length, 3)),
            layers.RNN(cell(3), return_sequences=True, **settings),
        ]
    )
    x = zoo.numbers(5, 3)
    order = slice(None, None, -1 if "go_backwards" in settings else 1)
    for masks in ("independent", "shared"):
        rows = 5 if masks == "independent" else 1
        kept = keeps(0, 20, rows, 15).reshape(20, rows, 5, 3)
        wanted = np.where(kept, 2 * x, 0)[:, :, order]
        for size in (None, 2):
            p = predict(model, x, masks=masks, batch_size=size)
            np.testing.assert_allclose(p.samples, wanted, rtol=1e-6)


def test_stacked_cells_draw_what_is_used_and_nothing_else():
    model = keras.Sequential(
        [
            keras.Input((4, 3)),
            layers.RNN([Cell(3), DropsByHand(3)], return_sequences=True),
        ]
    )
    x = zoo.numbers(4, 3)
    p = predict(model, x, masks="independent")
    first = keeps(0, 20, 5, 12).reshape(20, 5, 4, 3)
    second = keeps(1, 20, 5, 12).reshape(20, 5, 4, 3)
    state, wanted = 0.0, []
    for step in range(4):
        state = np.where(first[:, :, step], 2 * x[:, step], 0) + 0.5 * state
        wanted.append(np.where(second[:, :, step], 2 * state, 0))
    np.testing.assert_allclose(
        p.samples, np.stack(wanted, axis=2), rtol=1e-5, atol=1e-6
    )


def test_a_cell_that_calls_the_one_it_inherits():
    class Own(layers.LSTMCell):
        def call(self, inputs, states, training=False):
            return super().call(inputs * 1.0, states, training=training)

    def model(cell):
        keras.utils.set_random_seed(2)
        return keras.Sequential(
            [keras.Input((4, 3)), layers.RNN(cell(3, dropout=0.5))]
        )

    x = zoo.numbers(4, 3)
    p, wanted = (predict(model(c), x) for c in (Own, layers.LSTMCell))
    np.testing.assert_allclose(p.samples, wanted.samples, rtol=1e-5)
