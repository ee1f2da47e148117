# SPDX-License-Identifier: Apache-2.0
"""Data that `evaluate_with_uncertainty` refuses, before it predicts."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.diagnostics.evaluated import ROWS
from tests.diagnostics.evaluated import classifier
from tests.diagnostics.evaluated import data
from tests.diagnostics.evaluated import evaluate
from tests.diagnostics.evaluated import labels
from tests.diagnostics.evaluated import model
from tests.diagnostics.evaluated import two_outputs

X, Y = data()
KINDS = labels()


def _stream(*parts, size=20):
    return tf.data.Dataset.from_tensor_slices(parts).batch(size)


def _bad(y, row, value):
    changed = np.array(y, copy=True)
    changed[row] = value
    return changed


class _Predicted(keras.callbacks.Callback):
    """Counts the batches that were predicted."""

    def __init__(self):
        super().__init__()
        self.batches = 0

    def on_predict_batch_end(self, batch, logs=None):
        self.batches += 1


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (model, (X,), "Labels are missing"),
        (model, (_stream(X, Y), Y), "A stream has its labels"),
        (model, (_stream(X),), "The stream has no labels"),
        (model, (_stream(X, Y, np.ones(ROWS)),), "sample weights"),
        (model, (X, Y[:-1]), f"Expected {ROWS} labels.*{ROWS - 1} labels"),
        (model, (X, 3.0), f"Expected {ROWS} labels"),
        (model, (X, np.ones((ROWS, 2))), "shape of argument `y`"),
        (model, (X, _bad(Y, 4, np.nan)), "finite"),
        (model, (_stream(X, _bad(Y, 4, np.nan)),), "finite"),
        (model, (X, np.array(["a"] * ROWS)), "numbers"),
        (model, (X, {"other": Y}), "do not fit the outputs"),
        (classifier, (X, _bad(KINDS, 2, 3)), "from 0 to 2"),
        (classifier, (X, _bad(KINDS, 2, -1)), "from 0 to 2"),
        (classifier, (X, KINDS + 0.5), "whole numbers"),
        (classifier, (_stream(X, KINDS + 1),), "from 0 to 2"),
        (classifier, (X, np.ones((ROWS, 3))), "one-hot"),
        (classifier, (X[:0], KINDS[:0]), "empty"),
        (lambda: two_outputs("dict"), (X, Y), "structure.*price"),
        (lambda: two_outputs("dict"), (X, [Y, KINDS]), "structure.*price"),
        (lambda: two_outputs("dict"), (X, {"price": Y}), "structure.*kind"),
        (lambda: two_outputs("list"), (X, [Y]), "structure"),
        (
            lambda: two_outputs("list"),
            (X, [Y, KINDS + 1]),
            "output `kind`.*from 0 to 2",
        ),
    ],
)
def test_labels_are_checked_before_the_first_batch(make, arguments, words):
    spy = _Predicted()
    with pytest.raises(kbd.BayesdropError) as caught:
        evaluate(make(), *arguments, callbacks=[spy])
    assert re.search(words, str(caught.value)), caught.value
    assert "Expected" in str(caught.value)
    assert "Received" in str(caught.value)
    assert spy.batches == 0


def test_a_later_batch_is_checked_too():
    with pytest.raises(kbd.BayesdropError, match="from 0 to 2"):
        evaluate(classifier(), _stream(X, _bad(KINDS, 50, 7)))


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("level", {"level": 1.0}),
        ("confidence", {"confidence": 0.0}),
        ("num_resamples", {"num_resamples": -1}),
        ("num_samples", {"num_samples": 1}),
        ("head", {"head": "nothing"}),
        ("method", {"method": "nothing"}),
        ("task", {"task": "regression"}),
    ],
)
def test_arguments(word, options):
    with pytest.raises((kbd.BayesdropError, TypeError), match=word):
        evaluate(model(), X, Y, **options)


def test_an_empty_stream():
    with pytest.raises(kbd.BayesdropError, match="empty"):
        evaluate(model(), _stream(X[:0], Y[:0]))
