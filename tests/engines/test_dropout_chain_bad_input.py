# SPDX-License-Identifier: Apache-2.0
"""The compiled op refuses bad arguments, eagerly and in functions."""

import pytest
import tensorflow as tf

from keras_bayesdrop._core import op_library
from tests.engines.chain_cases import Block
from tests.engines.chain_cases import InvalidArgument
from tests.engines.chain_cases import arguments
from tests.engines.chain_cases import call
from tests.engines.chain_cases import inputs
from tests.engines.chain_cases import network
from tests.engines.chain_cases import traced

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)


def vector(*values, dtype=tf.uint32):
    return tf.constant(list(values), dtype)


def floats(*shape):
    return tf.zeros(shape, tf.float32)


def int64(value):
    return tf.constant(value, tf.int64)


# Changes to a good call of two steps, [3, 5] to 4 to 2 units, and what the
# message must say.
BAD_TENSORS = {
    "x of rank 1": ({"x": floats(5)}, "x.*rank"),
    "x of rank 4": ({"x": floats(1, 2, 3, 5)}, "x.*rank"),
    "scalar x": ({"x": floats()}, "x.*rank"),
    "x too wide": ({"x": floats(3, 6)}, r"kernel 0.*\[6, units\].*\[5,4\]"),
    "x of no width": ({"x": floats(3, 0)}, "kernel 0"),
    "no samples axis": ({"x_per_sample": True}, "x.*samples, rows, k"),
    "too many axes": (
        {"x_per_sample": True, "x": floats(4, 1, 2, 3, 5)},
        "x.*rank",
    ),
    "too few samples": (
        {"x_per_sample": True, "x": floats(3, 2, 5)},
        "x.*samples.*Expected 4.*Received.*3,2,5",
    ),
    "kernel of rank 1": ({"kernels": [floats(5), floats(4, 2)]}, "kernel 0"),
    "kernel of rank 3": (
        {"kernels": [floats(5, 4), floats(4, 2, 1)]},
        "kernel 1",
    ),
    "kernels that do not chain": (
        {"kernels": [floats(5, 4), floats(5, 2)]},
        r"kernel 1.*\[4, units\].*\[5,2\]",
    ),
    "transposed kernel": (
        {"kernels": [floats(4, 5), floats(4, 2)]},
        "kernel 0",
    ),
    "long bias": (
        {"biases": [floats(5), floats(2)]},
        r"bias of kernel 0.*\[4\]",
    ),
    "scalar bias": ({"biases": [floats(4), floats()]}, "bias of kernel 1"),
    "bias of rank 2": ({"biases": [floats(4, 1), floats(2)]}, "bias.*kernel 0"),
    "seed that is a vector": (
        {"seed": vector(1, dtype=tf.uint64)},
        "seed.*scalar",
    ),
    "one threshold": ({"thresholds": vector(1)}, "thresholds.*per kernel"),
    "three scales": (
        {"scales": vector(1.0, 1.0, 1.0, dtype=tf.float64)},
        "scales.*per kernel",
    ),
    "no sites": ({"sites": tf.zeros([0], tf.uint32)}, "sites.*per kernel"),
    "sites of rank 2": ({"sites": tf.zeros([2, 1], tf.uint32)}, "sites"),
    "scalar threshold": (
        {"thresholds": tf.constant(0, tf.uint32)},
        "thresholds.*per kernel",
    ),
    "first samples": (
        {"first_sample": vector(0, 1, dtype=tf.int64)},
        "first_sample.*scalar",
    ),
    "numbers of samples": (
        {"num_samples": vector(4, dtype=tf.int64)},
        "num_samples.*scalar",
    ),
    "first rows": (
        {"first_row": vector(0, 1, 2, dtype=tf.int64)},
        "first_row.*scalar",
    ),
}
BAD_VALUES = {
    "negative number of samples": ({"num_samples": int64(-1)}, "num_samples"),
    "least number of samples": (
        {"num_samples": int64(-(2**63))},
        "num_samples",
    ),
    "most samples": ({"num_samples": int64(2**63 - 1)}, "num_samples"),
    "negative row": ({"first_row": int64(-1)}, "first_row"),
    "last row": ({"first_row": int64(2**63 - 1)}, "first_row"),
    "negative sample": ({"first_sample": int64(-1)}, "first_sample"),
    "last sample": ({"first_sample": int64(2**63 - 1)}, "first_sample"),
}
BAD_SETTINGS = {
    "short has_bias": ({"has_bias": [True]}, "has_bias.*per kernel"),
    "long has_bias": ({"has_bias": [True] * 3}, "has_bias.*per kernel"),
    "short noise": ({"noise": ["bernoulli"]}, "noise.*per kernel"),
    "long activations": ({"activations": ["relu"] * 3}, "activations.*kernel"),
    "short per_entry": ({"per_entry": [False]}, "per_entry.*per kernel"),
    "a bias too many": ({"has_bias": [True, False]}, "has_bias.*Expected 1"),
    "a bias too few": ({"biases": [floats(4)]}, "has_bias.*Expected 2"),
}
BAD_NAMES = {
    "unknown activation": ({"activations": ["relu", "mish"]}, "activations"),
    "upper case": ({"activations": ["relu", "ReLU"]}, "activations"),
    "no activation": ({"activations": ["relu", ""]}, "activations"),
    "unknown noise": ({"noise": ["bernoulli", "alpha"]}, "noise"),
    "unknown masks": ({"masks": "own"}, "masks"),
    "unknown draws": ({"draws": "paired"}, "draws"),
    "no settings": ({"has_bias": []}, "has_bias"),
}


def bad_call(changes):
    layers = network((5, 4, 2), [0.2, 0.5])
    return arguments(inputs(3, 5), layers, Block(0, 0, 4), **changes)


def cases(*tables):
    return pytest.mark.parametrize(
        ("changes", "message"),
        [
            pytest.param(*case, id=name)
            for table in tables
            for name, case in table.items()
        ],
    )


@cases(BAD_TENSORS, BAD_VALUES, BAD_SETTINGS, BAD_NAMES)
def test_bad_input_eagerly(changes, message):
    with pytest.raises(InvalidArgument, match=message) as caught:
        call(bad_call(changes))
    if changes.keys() & {"activations", "noise", "masks", "draws", "has_bias"}:
        return
    assert "DropoutChain" in str(caught.value)
    for beat in ("Expected", "Received"):
        assert beat in str(caught.value)


@cases(BAD_TENSORS, BAD_VALUES, BAD_SETTINGS)
def test_bad_input_in_a_function_of_unknown_shapes(changes, message):
    _, run_it = traced(bad_call(changes), "unknown")
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        run_it()


@cases(BAD_TENSORS, BAD_VALUES, BAD_SETTINGS)
def test_bad_input_in_a_function_of_known_shapes(changes, message):
    """A wrong shape is told when it is traced, everything else when it runs."""
    seen_by_shape = changes.keys() & {
        *("x", "kernels", "biases", "seed", "thresholds", "scales", "sites"),
        *("first_sample", "num_samples", "first_row"),
    }
    with pytest.raises((ValueError, InvalidArgument)):
        _, run_it = traced(bad_call(changes), "full")
        assert not seen_by_shape or changes.keys() & {
            *("first_sample", "num_samples", "first_row", "biases"),
            "x_per_sample",
        }
        run_it()


def test_a_site_whose_orders_have_no_counters():
    sites = {"sites": vector(1, 2**31), "draws": "balanced"}
    message = "site 2147483648.*Expected.*below 2147483648.*Received"
    with pytest.raises(InvalidArgument, match=message):
        call(bad_call(sites))
    _, run_it = traced(bad_call(sites), "unknown")
    with pytest.raises(InvalidArgument, match=f"(?s){message}"):
        run_it()


@cases(BAD_NAMES)
def test_bad_names_in_a_function(changes, message):
    with pytest.raises((ValueError, InvalidArgument), match=message):
        traced(bad_call(changes), "unknown")


@pytest.mark.parametrize(
    "changes",
    [
        {"x": tf.zeros([3, 5], tf.float64)},
        {"x": tf.zeros([3, 5], tf.float16)},
        {"x": tf.zeros([3, 5], tf.int32)},
        {"kernels": [floats(5, 4), tf.zeros([4, 2], tf.float64)]},
        {"biases": [tf.zeros([4], tf.float64), floats(2)]},
        {"kernels": [], "biases": []},
    ],
)
def test_bad_dtypes_and_no_steps(changes):
    # Half precision has kernels on GPUs only.
    wrong = (
        InvalidArgument,
        ValueError,
        TypeError,
        tf.errors.NotFoundError,
    )
    with pytest.raises(wrong):
        call(bad_call(changes))
    with pytest.raises(wrong):
        tf.function(lambda: call(bad_call(changes)))()


def test_more_samples_than_memory():
    for samples in (2**45, 2**57 - 1):
        with pytest.raises((InvalidArgument, tf.errors.ResourceExhaustedError)):
            call(bad_call({"num_samples": int64(samples)}))
    # The library lives.
    assert call(bad_call({})).shape == (4, 3, 2)
