# SPDX-License-Identifier: Apache-2.0
"""Parts of a whole, predicted apart, are the whole.

A model whose outputs are its masks has nothing to round: equal bit for bit.
"""

import concurrent.futures
import re

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.random.philox import count_rows_with_counters
from tests.helpers import flat

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
        model, x, return_samples=True, first_row=first_row, **flat(**settings)
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


def last_of(model):
    """Returns how many rows the message says there may be."""
    with pytest.raises(kbd.BayesdropError, match="`first_row`") as caught:
        predict(model, np.ones((2, 5)), 2**57, masks="independent")
    return int(re.search(r"at most (\d+)", str(caught.value)).group(1))


def test_last_row_that_has_masks_of_its_own():
    model = network()
    last = last_of(model)
    assert last >= 10**12
    x = np.ones((2, 5), np.float32)
    samples = [
        predict(model, x, last - 2, masks="independent", engine=engine).samples
        for engine in ("auto", "reference")
    ]
    np.testing.assert_allclose(*samples, rtol=1e-5, atol=1e-6)
    with pytest.raises(kbd.BayesdropError, match="`first_row`"):
        predict(model, x, last - 1, masks="independent")
    stream = (row for row in [x[:1], x[1:]])
    with pytest.raises(kbd.BayesdropError, match="`first_row`"):
        predict(model, stream, last - 1, masks="independent")


def test_words_up_to_the_last_row_are_those_of_the_contract():
    """Counters in whole numbers: none of them leaves its 64 bits."""
    for units in (1, 4, 5, 1200, 2**30):
        groups = -(-units // 4)
        last = count_rows_with_counters(units) - 1
        assert (last * 16 + 15) * groups + groups - 1 < 2**64
        assert ((last + 1) * 16 + 15) * groups + groups - 1 >= 2**64


def test_rows_of_any_model_have_numbers():
    """A sequence of any length: nothing is known of the units."""
    model = keras.Sequential(
        [keras.Input((None, 5)), keras.layers.Dropout(0.5)]
    )
    x = np.ones((2, 3, 5), np.float32)
    samples = [
        predict(model, x, 2**32 - 2, masks="independent", engine=engine).samples
        for engine in ("auto", "reference")
    ]
    np.testing.assert_array_equal(*samples)
    with pytest.raises(kbd.BayesdropError, match=f"at most {2**32}:"):
        predict(model, x, 2**32 - 1, masks="independent")


def test_shared_masks_have_no_last_row():
    model, x = network(), np.ones((2, 5), np.float32)
    for engine in ("auto", "reference"):
        far, near = (
            predict(model, x, row, engine=engine).samples
            for row in (2**63 - 1, 0)
        )
        np.testing.assert_array_equal(far, near)
