# SPDX-License-Identifier: Apache-2.0
"""The compiled noise op against the noise of the reference engine."""

import dataclasses
import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop import noise
from keras_bayesdrop._core import op_library
from keras_bayesdrop.engines.noise_op import NoiseOp
from keras_bayesdrop.noise.additive_gaussian import AdditiveGaussian
from keras_bayesdrop.noise.alpha import Alpha
from keras_bayesdrop.noise.draws import Draws

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)

ROWS, SAMPLES = 3, 21
MASKS = (noise.Bernoulli(0.3), Alpha(0.2))
OTHERS = (
    noise.Gaussian(0.4),
    AdditiveGaussian(0.7),
    noise.Uniform(0.5, 1.5),
    noise.LogNormal(scale=0.5),
)


def draws(**changes):
    settings = {
        "seed": tf.constant(5, tf.uint64),
        "first_sample": 14,
        "num_samples": SAMPLES,
        "num_blocks": 3,
        "first_row": 7,
        "num_rows": ROWS,
        "shared": False,
        "balanced": False,
    }
    return Draws(**{**settings, **changes})


def numbers(*shape, dtype="float32"):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


class Counted:
    """A noise op that counts its calls, and those that it leaves."""

    def __init__(self):
        dtypes = ("float32", "float64")
        self.op = NoiseOp(op_library.library().ops, dtypes)
        self.used = self.left = 0

    def __call__(self, *arguments):
        result = self.op(*arguments)
        self.used += result is not None
        self.left += result is None
        return result


def both(x, put, noise_shape, folded, whole_rows=True, used=1, **changes):
    """Returns what the reference and what the op make of a tensor."""
    counted = Counted()
    reference = draws(**changes)
    by_op = dataclasses.replace(reference, noise_op=counted)
    results = [
        each.perturb(
            tf.constant(x),
            put,
            noise_shape,
            2,
            folded=folded,
            whole_rows=whole_rows,
        )
        for each in (reference, by_op)
    ]
    assert (counted.used, counted.left) == (used, 0 if used else counted.left)
    assert results[0].shape == results[1].shape
    return [result.numpy() for result in results]


SHAPES = [
    ((), None),
    ((6,), None),
    ((5, 4), (None, 1, None)),
    ((5, 4), (None, None, 1)),
    ((3, 5, 4), (None, 1, 1, None)),
    ((3, 5, 4), (None, 1, 1, 1)),
    ((3, 5, 4), (1, None, 1, None)),
    ((3, 5, 4), (None, 3, 5, 4)),
    ((2500,), None),
]


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize(("dims", "noise_shape"), SHAPES)
def test_masks_are_equal_bit_for_bit(
    dims, noise_shape, folded, shared, balanced
):
    for put, dtype in itertools.product(MASKS, ("float32", "float64")):
        rows = ROWS * SAMPLES if folded else ROWS
        desired, actual = both(
            numbers(rows, *dims, dtype=dtype),
            put,
            noise_shape,
            folded,
            shared=shared,
            balanced=balanced,
        )
        np.testing.assert_array_equal(actual, desired)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("put", OTHERS, ids=lambda put: put.kind)
def test_other_noise_is_equal_up_to_rounding(put, dtype, balanced):
    """Some 16 roundings: of quantile, exponential, factor and product.

    Factors near zero are differences of numbers near one.
    """
    x = numbers(ROWS, 3, 41, dtype=dtype)
    for shape in (None, (None, 1, None)):
        desired, actual = both(x, put, shape, False, balanced=balanced)
        assert not np.array_equal(desired, np.repeat(x, SAMPLES, axis=0))
        np.testing.assert_allclose(
            actual, desired, rtol=0, atol=64 * np.finfo(dtype).eps
        )


def test_a_rate_of_one_drops_all():
    desired, actual = both(numbers(ROWS, 5), noise.Bernoulli(1.0), None, False)
    np.testing.assert_array_equal(actual, desired)
    assert not actual.any()


def test_infinite_numbers_are_treated_alike():
    x = np.full((ROWS, 40), np.inf, "float32")
    x[0] = np.nan
    for put in MASKS:
        desired, actual = both(x, put, None, False)
        np.testing.assert_array_equal(actual, desired)


def test_several_entries_per_row():
    x = numbers(ROWS * SAMPLES * 2, 5)
    for shape in (None, (1, None)):
        desired, actual = both(
            x, noise.Bernoulli(0.4), shape, True, whole_rows=False
        )
        np.testing.assert_array_equal(actual, desired)


@pytest.mark.parametrize(
    ("put", "dtype"),
    [
        (noise.Beta(2.0, 3.0), "float32"),  # No kernel for its quantile.
        (noise.Bernoulli(0.3), "float16"),
    ],
)
def test_what_the_op_cannot_do_is_left_to_the_reference(put, dtype):
    x = numbers(ROWS, 5, dtype=dtype)
    desired, actual = both(x, put, None, False, used=0)
    np.testing.assert_array_equal(actual, desired)


def test_open_dimensions():
    """Sizes that are known only when the program runs."""

    def run(x, noise_op):
        return draws(noise_op=noise_op).perturb(
            x,
            noise.Bernoulli(0.4),
            (None, 1, None),
            2,
            folded=False,
            whole_rows=True,
        )

    counted = Counted()
    spec = tf.TensorSpec([None, None, None], tf.float32)
    program = tf.function(
        lambda x: run(x, counted), autograph=False
    ).get_concrete_function(spec)
    assert (counted.used, counted.left) == (1, 0)
    x = tf.constant(numbers(ROWS, 4, 5))
    np.testing.assert_array_equal(program(x), run(x, None))


@hypothesis.given(
    # TensorFlow does not broadcast more axes, if they alternate.
    dims=st.lists(st.integers(1, 6), max_size=3),
    noisy=st.lists(st.booleans(), min_size=4, max_size=4),
    one_mask=st.booleans(),
    folded=st.booleans(),
    shared=st.booleans(),
    balanced=st.booleans(),
    first_sample=st.integers(0, 2**35),
    first_row=st.integers(0, 2**40),
)
@hypothesis.settings(deadline=None, max_examples=60)
def test_any_shape(
    dims, noisy, one_mask, folded, shared, balanced, first_sample, first_row
):
    shape = (
        1 if one_mask else None,
        *(None if flag else 1 for _, flag in zip(dims, noisy, strict=False)),
    )
    rows = ROWS * SAMPLES if folded else ROWS
    desired, actual = both(
        numbers(rows, *dims),
        noise.Bernoulli(0.4),
        shape,
        folded,
        shared=shared,
        balanced=balanced,
        first_sample=first_sample,
        first_row=first_row,
    )
    np.testing.assert_array_equal(actual, desired)


GOOD = {
    "x": numbers(ROWS, 4),
    "seed": tf.constant(0, tf.uint64),
    "threshold": tf.constant(0, tf.uint32),
    "parameters": tf.constant([1.0, 0.0, 0.0], tf.float64),
    "first_sample": tf.constant(0, tf.int64),
    "num_samples": tf.constant(2, tf.int64),
    "first_row": tf.constant(0, tf.int64),
    "site": 0,
    "varies": [True],
    "effect": "mask",
    "masks": "shared",
    "draws": "balanced",
}
BAD = {
    "rank of x": ({"x": numbers(3)}, "x.*rank.*Expected 2.*Received"),
    "varies": ({"varies": [True, False]}, "x.*rank.*Expected 3"),
    "too many axes": (
        {"x": numbers(*[1] * 10), "varies": [True] * 9},
        "varies.*at most 8.*Received: 9",
    ),
    "samples of x": (
        {"x": numbers(3, 5, 4), "x_per_sample": True},
        "x.*samples.*Expected 2",
    ),
    "parameters": (
        {"parameters": tf.zeros([2], tf.float64)},
        r"parameters.*\[3\].*Received",
    ),
    "seed": ({"seed": tf.zeros([1], tf.uint64)}, "input 1.*scalar"),
    "negative samples": (
        {"num_samples": tf.constant(-1, tf.int64)},
        "num_samples.*range",
    ),
    "most samples": (
        {"num_samples": tf.constant(2**63 - 1, tf.int64)},
        "num_samples.*range",
    ),
    "negative row": (
        {"first_row": tf.constant(-1, tf.int64)},
        "first_row.*range",
    ),
    "site": ({"site": 2**31}, "site.*range.*Received: 2147483648"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused(changes, message):
    op = op_library.library().ops.keras_bayesdrop_noise
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        op(**{**GOOD, **changes})


def test_more_than_memory_holds():
    op = op_library.library().ops.keras_bayesdrop_noise
    count = {"num_samples": tf.constant(2**50, tf.int64)}
    with pytest.raises(
        (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError)
    ):
        op(**{**GOOD, **count})
