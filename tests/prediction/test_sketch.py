# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.sampling.sketch import QuantileSketch

LEVELS = np.linspace(0.0, 1.0, 101)


def fill(sketch, samples, block):
    for start in range(0, len(samples), block):
        sketch.update(samples[start : start + block])
    return sketch


def rank_errors(samples, values, levels):
    """Distance of `level` from the ranks that `value` has, per element.

    A value that occurs among the samples has a range of ranks: from the
    fraction below it to the fraction not above it.
    """
    ordered = np.sort(samples, axis=0)
    errors = np.empty(values.shape)
    for element in np.ndindex(values.shape[1:]):
        column = ordered[(slice(None), *element)]
        wanted = values[(slice(None), *element)]
        below = np.searchsorted(column, wanted, "left") / len(column)
        upto = np.searchsorted(column, wanted, "right") / len(column)
        error = np.maximum(below - levels, levels - upto)
        errors[(slice(None), *element)] = np.maximum(error, 0.0)
    return errors


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 64),
    block=st.integers(1, 70),
    shape=st.sampled_from([(), (1,), (3,), (2, 3)]),
    levels=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_is_exact_up_to_the_capacity(count, block, shape, levels, seed):
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal((count, *shape)).astype("float32")
    sketch = fill(QuantileSketch(64), samples, block)
    expected = np.quantile(samples, levels, axis=0)
    np.testing.assert_array_equal(
        sketch.quantile(levels), expected.astype("float32")
    )
    assert sketch.rank_error == 0.0
    assert sketch.count == count


def test_one_sample_more_than_the_capacity():
    # Of 0, ..., 31 the even ones are kept; 2 stands for the places 2 and 3,
    # that is for 2.5 in the middle. 32 came later and stands for itself.
    sketch = fill(QuantileSketch(32), np.arange(33.0), 33)
    places = np.arange(1, 31)
    np.testing.assert_allclose(
        sketch.quantile(places / 32), places - 0.5, rtol=1e-6
    )
    np.testing.assert_array_equal(sketch.quantile([0.0, 1.0]), [0.0, 32.0])
    # One compaction, a heaviest value of 2, and one for the interpolation.
    assert sketch.rank_error == (1 + 1 + 1) / 33


DISTRIBUTIONS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "lognormal": lambda rng, shape: rng.lognormal(0.0, 4.0, shape),
    "ties": lambda rng, shape: rng.integers(0, 5, shape),
    "rising": lambda rng, shape: np.sort(rng.standard_normal(shape), 0),
    "falling": lambda rng, shape: -np.sort(rng.standard_normal(shape), 0),
    "zigzag": lambda rng, shape: (
        np.sort(rng.standard_normal(shape), 0)
        * np.where(np.arange(shape[0]) % 2, 1.0, -1.0)[:, None]
    ),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("block", [1000, 37])
def test_rank_error_stays_below_one_percent(name, block):
    rng = np.random.default_rng(3)
    samples = DISTRIBUTIONS[name](rng, (20_000, 30)).astype("float32")
    sketch = fill(QuantileSketch(1024), samples, block)
    errors = rank_errors(samples, sketch.quantile(LEVELS), LEVELS)
    # The guarantee for 20,000 samples; half of it is what was measured.
    assert sketch.rank_error < 0.011
    assert errors.max() < 0.0075


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(32, 80),
    count=st.integers(81, 3000),
    block=st.integers(1, 400),
    seed=st.integers(0, 2**32 - 1),
    ordered=st.booleans(),
)
def test_never_breaks_its_guarantee(capacity, count, block, seed, ordered):
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal((count, 4)).astype("float32")
    if ordered:
        samples.sort(axis=0)
    sketch = fill(QuantileSketch(capacity), samples, block)
    errors = rank_errors(samples, sketch.quantile(LEVELS), LEVELS)
    assert errors.max() <= sketch.rank_error + 1e-12


def test_errors_of_two_compactions_cancel():
    # Mean of the signed rank errors: without turns between even and odd each
    # compaction would push all ranks the same way, by up to 1 % in all.
    rng = np.random.default_rng(5)
    samples = np.stack([rng.permutation(20_000) for _ in range(30)], axis=1)
    sketch = fill(QuantileSketch(1024), samples, 50)
    inner = LEVELS[5:-5]
    error = sketch.quantile(inner) / 20_000 - inner[:, None]
    assert abs(error.mean()) < 0.001


def test_ends_are_exact():
    rng = np.random.default_rng(0)
    samples = rng.standard_cauchy((5000, 2, 3)).astype("float32")
    sketch = fill(QuantileSketch(64), samples, 77)
    low, high = sketch.quantile([0.0, 1.0])
    np.testing.assert_array_equal(low, samples.min(axis=0))
    np.testing.assert_array_equal(high, samples.max(axis=0))


def test_quantiles_rise_with_the_level():
    rng = np.random.default_rng(0)
    sketch = fill(QuantileSketch(32), rng.standard_normal((3000, 5)), 11)
    fine = sketch.quantile(np.linspace(0, 1, 1001))
    assert np.all(np.diff(fine, axis=0) >= 0)


def test_memory_does_not_grow_with_the_samples():
    rng = np.random.default_rng(0)
    sketch = QuantileSketch(128)
    for _ in range(300):
        sketch.update(rng.standard_normal((100, 3)))
        held = [block for level in sketch._levels for block in level]
        # Nothing is a view that keeps a larger array alive.
        owned = sum(
            (block if block.base is None else block.base).nbytes
            for block in held
        )
        assert sum(map(len, held)) <= 128
        assert owned <= 128 * 3 * 4
    assert sketch.count == 30_000


def test_elements_do_not_depend_on_each_other():
    rng = np.random.default_rng(1)
    samples = rng.standard_normal((2000, 3, 2))
    whole = fill(QuantileSketch(64), samples, 50).quantile(LEVELS)
    for i, j in np.ndindex(3, 2):
        single = fill(QuantileSketch(64), samples[:, i, j], 50)
        np.testing.assert_array_equal(whole[:, i, j], single.quantile(LEVELS))


def test_a_wide_query_is_the_same_in_pieces(monkeypatch):
    rng = np.random.default_rng(1)
    samples = rng.standard_normal((500, 50))
    sketch = fill(QuantileSketch(64), samples, 50)
    whole = sketch.quantile(LEVELS)
    monkeypatch.setattr(
        "keras_bayesdrop.prediction.sampling.sketch._PIECE_VALUES", 64 * 7
    )
    np.testing.assert_array_equal(sketch.quantile(LEVELS), whole)


def test_copies_its_input():
    block = np.ones((3, 2), "float32")
    sketch = QuantileSketch()
    sketch.update(block)
    block[:] = 7.0
    np.testing.assert_array_equal(sketch.quantile(0.5), [1.0, 1.0])


def test_empty_block_changes_nothing():
    sketch = QuantileSketch()
    sketch.update(np.ones((2, 3)))
    sketch.update(np.ones((0, 3)))
    assert sketch.count == 2
    assert sketch.quantile(0.5).shape == (3,)
    assert sketch.quantile(0.5).dtype == np.float32


@pytest.mark.parametrize("q", [-0.1, 1.1, [0.5, np.nan], [[0.5]], []])
def test_bad_level(q):
    sketch = QuantileSketch()
    sketch.update(np.ones((2, 3)))
    with pytest.raises(BayesdropError, match=r"`q`.*Expected.*Received: q="):
        sketch.quantile(q)


def test_bad_capacity():
    with pytest.raises(BayesdropError, match=r"at least 32.*capacity=31"):
        QuantileSketch(31)


def test_bad_blocks():
    sketch = QuantileSketch()
    with pytest.raises(BayesdropError, match="empty sketch"):
        sketch.quantile(0.5)
    with pytest.raises(BayesdropError, match="Received: a scalar"):
        sketch.update(1.0)
    sketch.update(np.ones((2, 3)))
    with pytest.raises(BayesdropError, match=r"Received: block.shape=\(2, 4\)"):
        sketch.update(np.ones((2, 4)))
