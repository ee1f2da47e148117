# SPDX-License-Identifier: Apache-2.0
"""Prediction on several devices of a process: what one device gives.

Masks are the same bit for bit. Samples agree up to the rounding of a float32
matmul, whose order of summation may depend on the number of rows: 1e-6 of the
largest, as in `tests/prediction/test_reproducibility.py`.
"""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.engines import Reference
from keras_bayesdrop.prediction.distribute.replicas import Replicas
from keras_bayesdrop.prediction.input_data import Batch
from tests.helpers import TestCase

PROGRAM = pathlib.Path(__file__).with_name("on_devices.py")
ROWS = ["rows 3"]

FEW = ["rows 2", "samples 3"]  # Of two rows: before the noise, and after it.

# By case, what the devices shared.
QUICK = {
    "masks shared": ROWS,
    "masks independent": ROWS,
    "masks of few rows shared": FEW,
    "masks of few rows independent": FEW,
    "quantiles": ROWS,
    "scope": ROWS,
}
SLOW = {
    # Rows stop one after another, until there are fewer than devices.
    "adaptive": ["rows 2", "rows 3"],
    "weights": ROWS,
    "one row": ["samples 3"],
    "one row, one block": [],
    "two rows, one block": ["rows 2"],
    "stream": ROWS,
    "masked": ROWS,
    "two outputs": ROWS,
    "learned noise": ROWS,
    "rao_blackwell": ROWS,
    "far rows": ROWS,
}


def run(*names):
    """Returns what `tests/on_devices.py` finds."""
    program = PROGRAM.read_text("utf-8")
    printed = TestCase().run_in_new_process(program, *names)
    return json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def quick():
    return run(*QUICK, "variables")


@pytest.fixture(scope="module")
def slow():
    return run(*SLOW, "moments")


def check(case, kinds, allowed):
    assert case["difference"] <= allowed
    assert case["kinds"] == kinds
    assert case["replicas"] == 3


@pytest.mark.parametrize("name", QUICK)
def test_same_as_one_device(quick, name):
    # Ones times a mask have nothing to round.
    check(quick[name], QUICK[name], 0 if name.startswith("masks") else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_whatever_is_predicted(slow, name):
    check(slow[name], SLOW[name], 1e-6)


@pytest.mark.slow
def test_moments_run_on_one_device(slow):
    assert slow["moments"] == {"difference": 0.0, "kinds": [], "replicas": 1}


def test_devices_read_their_own_copy_of_a_variable(quick):
    # The copies were made to differ: 1, 2 and 3, for two rows each.
    assert quick["variables"] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 50, 256])
def test_workers_share_samples(num_workers, count):
    shares = [
        Replicas(None, ("CPU:0",), num_workers, worker).share_samples(32, count)
        for worker in range(num_workers)
    ]
    drawn = [first + n for first, number in shares for n in range(number)]
    assert drawn == list(range(32, 32 + count))
    assert all(first % 16 == 0 for first, number in shares if number)


def test_workers_share_rows():
    inputs = {"a": tf.range(7), "b": tf.range(14)[::2]}
    shares = [
        Replicas(None, ("CPU:0", "CPU:1"), 3, worker).share_rows(
            Batch(100, inputs, 7)
        )
        for worker in range(3)
    ]
    assert [share.first_row for share in shares] == [100, 102, 104]
    assert [share.num_rows for share in shares] == [2, 2, 3]
    for name, leaf in inputs.items():
        together = np.concatenate([share.inputs[name] for share in shares])
        np.testing.assert_array_equal(together, leaf)


def test_nothing_to_share_leaves_the_engine_alone():
    engine = Reference()
    replicas = Replicas(None, ("CPU:0", "CPU:1"), 1, 0)
    assert replicas.spread(engine, 1, 16) is engine
    keys = {
        replicas.spread(engine, rows, samples).key
        for rows, samples in ((1, 16), (2, 16), (3, 16), (1, 17))
    }
    assert keys == {
        "reference",
        "reference, rows on CPU:0, CPU:1",
        "reference, samples on CPU:0, CPU:1",
    }
