# SPDX-License-Identifier: Apache-2.0
"""A model that counts its calls, and a check of an error's three beats."""

import keras
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop import errors
from keras_bayesdrop._core.observer import current_observer
from tests import zoo

layers = keras.layers


class Counts(layers.Layer):
    """Counts how often it is called, traced or not.

    Calls under an observer do not count: they only see what a layer draws.
    """

    calls = 0

    def call(self, x):
        self.calls += current_observer() is None
        return x


def counting_model():
    """Returns a small model with noise whose first layer counts calls."""
    model = keras.Sequential(
        [keras.Input((4,)), Counts(), layers.Dropout(0.5), layers.Dense(2)]
    )
    model.layers[0].calls = 0
    return model


X = zoo.numbers(4)


def refuse(kind, look, *words):
    """Asserts that `look` raises `kind`, in three beats with these words."""
    with pytest.raises(kind) as caught:
        look()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, kbd.BayesdropError)
    text = str(caught.value)
    beats = [text.find("Expected"), text.find("Received")]
    assert 0 < beats[0] < beats[1], text
    for word in words:
        assert str(word) in text, text


def texts_of(*looks):
    """Returns the messages of errors."""
    texts = []
    for look in looks:
        with pytest.raises(errors.BayesdropError) as caught:
            look()
        texts.append(str(caught.value))
    return texts
