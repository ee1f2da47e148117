# SPDX-License-Identifier: Apache-2.0
"""The same seed gives the same numbers as it gave before.

`python -m tests.golden_predictions.update` rewrites what is compared with.

| what | on the machine that made the arrays | on others |
|---|---|---|
| words, thresholds, masks, counts | bit for bit | bit for bit |
| samples, mean, variance | bit for bit | up to rounding |
| what is derived from them | 4 ulp | up to rounding |
"""

import functools

import numpy as np
import pytest

from tests.golden_predictions import cases
from tests.golden_predictions import golden

# Bits of masks are the same everywhere: they are made of integers, of products
# that IEEE 754 rounds correctly, and of normal quantiles that are computed in
# float64 and rounded to float32, which hides the last bits of the former.
EXACT = ("samples", "mean", "variance")
# On other machines these stay equal as well: in no case are the two likeliest
# classes of a sample, or a row's error and its tolerance, as close to each
# other as rounding is large. The last tests here show it.
COUNTS = ("vote_counts", "num_samples_used")
MAX_ULP = 4

# On other machines. A float32 sum of n products is off by n u of the sum of
# their sizes at most, with u = 2^-24. Here n <= 18, that sum is below 3 times
# the largest output, and a path has at most 3 such layers (the 4 steps of the
# LSTM have n = 3): a sample is off by 18 * 3 * 3 * u = 1e-5 of the largest.
SAMPLE_ERROR = 1e-5
# The others are functions of the samples. Means, quantiles and the standard
# deviation move by no more than the samples do, an interval of normals at 0.95
# by 1 + 1.65 times that.
ERROR_FACTOR = 4.0
# A variance moves by 2 std times that, and std is below the largest output.
# An entropy moves by |1 + log p| times that for each class, which is below 8
# for p > 1e-4, for three classes; mutual information is a difference of two.
ERROR_FACTORS = {
    "predictive_entropy": 24.0,
    "expected_entropy": 24.0,
    "mutual_information": 48.0,
}


@functools.cache
def stored():
    return golden.read()


def needs(engine):
    problem = cases.why_no_fused_engine()
    if engine == "fused" and problem:
        pytest.skip(problem)


def assert_same_bits(actual, desired, message):
    assert actual.dtype == desired.dtype, message
    np.testing.assert_array_equal(actual, desired, message, strict=True)
    # Numbers that are equal may still differ: 0.0 and -0.0.
    assert actual.tobytes() == desired.tobytes(), message


def assert_close(actual, desired, quantity, scale, message):
    assert actual.dtype == desired.dtype, message
    error = SAMPLE_ERROR * scale * ERROR_FACTORS.get(quantity, ERROR_FACTOR)
    if quantity in ("variance", "total"):
        error *= scale
    np.testing.assert_allclose(
        actual, desired, rtol=0, atol=error, err_msg=message
    )


def scale_of(arrays, output):
    """Returns the size of the largest sample, or of the interval; at least 1.

    Bounds of an interval are samples, or as far out as samples are.
    """
    names = ("samples", "lower", "upper")
    paths = [f"{output}/{name}" for name in names]
    largest = [np.abs(arrays[p]).max() for p in paths if p in arrays]
    return max(1.0, *map(float, largest))


@pytest.mark.parametrize(
    ("name", "engine"),
    cases.CALLS,
    ids=[f"{name}/{engine or 'closed_form'}" for name, engine in cases.CALLS],
)
def test_prediction(name, engine):
    needs(engine)
    arrays, made_by = stored()
    prefix = golden.path_of(name, engine, "")
    desired = {
        path.removeprefix(prefix): array
        for path, array in arrays.items()
        if path.startswith(prefix)
    }
    actual = cases.arrays_of(name, engine)
    assert actual.keys() == desired.keys()
    same_machine = golden.is_machine_of(made_by, engine)
    for path, array in desired.items():
        output, quantity = path.split("/")
        if quantity in COUNTS:
            np.testing.assert_array_equal(actual[path], array, path)
        elif not same_machine:
            scale = scale_of(desired, output)
            assert_close(actual[path], array, quantity, scale, path)
        elif quantity in EXACT:
            assert_same_bits(actual[path], array, path)
        else:
            assert actual[path].dtype == array.dtype, path
            np.testing.assert_array_max_ulp(actual[path], array, MAX_ULP)


@pytest.mark.parametrize(
    ("name", "engine"),
    cases.MASK_CALLS,
    ids=[f"{name}/{engine}" for name, engine in cases.MASK_CALLS],
)
def test_masks(name, engine):
    needs(engine)
    arrays, _ = stored()
    actual = cases.masks_of(name, engine)
    for output, mask in actual.items():
        desired = arrays[f"masks/{name}/{output}"]
        assert_same_bits(mask, desired, output)


@pytest.mark.parametrize("name", cases.WORDS)
def test_words(name):
    arrays, _ = stored()
    assert_same_bits(cases.WORDS[name](), arrays[f"words/{name}"], name)


def test_every_array_is_compared():
    arrays, _ = stored()
    prefixes = [golden.path_of(*call, "") for call in cases.CALLS]
    prefixes += [f"masks/{name}/" for name in cases.MASK_CASES]
    prefixes += [f"words/{name}" for name in cases.WORDS]
    for path in arrays:
        assert any(path.startswith(prefix) for prefix in prefixes), path
    for prefix in prefixes:
        assert any(path.startswith(prefix) for path in arrays), prefix


def test_masks_are_worth_comparing():
    """Samples differ, sites differ, and rows differ if they should."""
    arrays, _ = stored()
    for name, case in cases.MASK_CASES.items():
        outputs = [
            mask
            for path, mask in arrays.items()
            if path.startswith(f"masks/{name}/")
        ]
        for mask in outputs:
            assert np.any(mask != mask[:1]), name
            differ = np.any(mask != mask[:, :1])
            assert differ == (case.options["masks"] == "independent"), name
        if len(outputs) > 1:
            kept = [mask > 0 for mask in outputs]
            assert np.any(kept[0] != kept[1]), name


def stored_names(quantity):
    """Returns the sampled cases that have a quantity."""
    arrays, _ = stored()
    return [
        name
        for name in cases.CASES
        if any(
            path.startswith(golden.path_of(name, "reference", ""))
            and path.endswith(f"/{quantity}")
            for path in arrays
        )
    ]


@pytest.mark.parametrize("name", stored_names("vote_counts"))
def test_no_vote_hangs_on_rounding(name):
    for prediction in cases.all_samples_of(name).values():
        p = prediction.samples
        if prediction.task == "classification":
            first, second = np.moveaxis(np.sort(p, axis=-1), -1, 0)[:-3:-1]
            assert np.min(first - second) > 2 * SAMPLE_ERROR
        elif prediction.task == "binary":
            assert np.min(np.abs(p - 0.5)) > SAMPLE_ERROR


@pytest.mark.parametrize("name", stored_names("num_samples_used"))
def test_no_number_of_samples_hangs_on_rounding(name):
    arrays, _ = stored()
    path = golden.path_of(name, "reference", "output/num_samples_used")
    used = arrays[path]
    assert len(set(used.tolist())) > 1
    for factor in (0.999, 1.001):
        np.testing.assert_array_equal(cases.used_by(name, factor), used)
