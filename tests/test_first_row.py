# SPDX-License-Identifier: Apache-2.0
"""Parts of a whole, predicted apart, are the whole.

A model whose outputs are its masks has nothing to round: equal bit for bit.
"""

import concurrent.futures

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NonFiniteError

ROWS = 23
PARTITIONS = ((0, 10, 20, 23), (0, 1, 2, 7, 23))


def masks_only():
    return keras.Sequential([keras.Input((5,)), keras.layers.Dropout(0.5)])


def network():
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


def predict(model, x, first_row=0, **arguments):
    settings = {"num_samples": 20, "seed": 3, "verbose": 0, **arguments}
    return kbd.predict_with_uncertainty(
        model, x, return_samples=True, first_row=first_row, **settings
    )


def in_parts(model, x, bounds, **arguments):
    """Predicts ranges of rows at once, two at a time."""

    def part(begin, end):
        return predict(model, x[begin:end], begin, **arguments).samples

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(part, bounds, bounds[1:]))
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_parts_are_the_whole(masks):
    model, x = masks_only(), np.ones((ROWS, 5))
    whole = predict(model, x, masks=masks).samples
    for bounds in PARTITIONS:
        parts = in_parts(model, x, bounds, masks=masks)
        np.testing.assert_array_equal(parts, whole)


def test_numbers_matter_to_independent_masks():
    model, x = masks_only(), np.ones((ROWS, 5))
    first, other = (
        predict(model, x, row, masks="independent").samples for row in (0, 1)
    )
    np.testing.assert_array_equal(other[:, :-1], first[:, 1:])
    assert (other != first).any()


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_results_do_not_depend_on_the_partition(engine):
    model = network()
    x = np.random.default_rng(0).normal(size=(ROWS, 5))
    arguments = {"masks": "independent", "engine": engine}
    whole = predict(model, x, **arguments).samples
    for bounds in PARTITIONS:
        parts = in_parts(model, x, bounds, **arguments)
        # Float32 matmuls of other sizes.
        np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-5)


def test_messages_name_the_row_of_the_part():
    x = np.ones((ROWS, 5))
    x[4] = np.nan
    with pytest.raises(NonFiniteError, match=r"at 4$"):
        predict(masks_only(), x, 1000)
    stream = (x[begin : begin + 2] for begin in range(0, ROWS, 2))
    with pytest.raises(NonFiniteError, match=r"at 4$"):
        predict(masks_only(), stream, 1000)


@pytest.mark.parametrize("first_row", [-1, 1.5, True, "0", None])
def test_what_is_no_row_is_refused(first_row):
    with pytest.raises(kbd.BayesdropError, match="`first_row`"):
        predict(masks_only(), np.ones((2, 5)), first_row)
