# SPDX-License-Identifier: Apache-2.0
"""The check that rows do not influence each other."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.prediction.row_check import rows_mix

X = np.arange(12, dtype="float32").reshape(4, 3)


def first(function):
    return lambda x: [function(x)[:1]]


@pytest.mark.parametrize(
    ("function", "mixes"),
    [
        (lambda x: 2 * x, False),
        (lambda x: x - tf.reduce_mean(x, 0), True),
        (lambda x: x + 1e-4 * tf.reduce_sum(x, 0), True),
        (lambda x: tf.reverse(x, [0]), True),
        (lambda x: tf.nn.softmax(x, axis=0), True),
        (lambda x: tf.cumsum(x, axis=0, reverse=True), True),
        (lambda x: x * tf.cast(tf.shape(x)[0], x.dtype), False),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_rows_mix(function, mixes, rows):
    assert rows_mix(first(function), X[:rows]) is mixes


def test_rows_that_are_all_the_same_are_replaced_by_made_up_ones():
    same = np.ones((4, 3), "float32")
    assert rows_mix(first(lambda x: x - tf.reduce_mean(x, 0)), same)
    tokens = np.tile([[1, 2, 3]], (4, 1))
    assert rows_mix(first(lambda x: x - tf.reduce_max(x, 0)[::-1]), tokens)


def test_nothing_can_be_told_of_rows_without_a_difference():
    same = np.ones((4, 3), "int32")
    assert rows_mix(first(lambda x: x - tf.reduce_max(x, 0)), same) is None


def test_nothing_can_be_told_of_noise():
    assert rows_mix(first(lambda x: x + tf.random.normal([3])), X) is None


def test_made_up_rows_may_be_refused():
    def positive(x):
        tf.debugging.assert_positive(x)
        return [x[:1]]

    assert rows_mix(positive, np.array([[1, 2, 3]], "float32")) is False


def test_errors_on_rows_of_the_caller_are_not_hidden():
    def negative(x):
        tf.debugging.assert_negative(x)
        return [x[:1]]

    with pytest.raises(tf.errors.InvalidArgumentError):
        rows_mix(negative, X)


def test_structures():
    inputs = {"a": X, "b": X[:, 0]}
    assert not rows_mix(lambda x: [x["a"][:1] + x["b"][:1, None]], inputs)
    assert rows_mix(lambda x: [x["a"][:1] + tf.reduce_sum(x["b"])], inputs)
