# SPDX-License-Identifier: Apache-2.0
import pickle

import numpy as np
import pytest
import sklearn.calibration
from hypothesis import given
from hypothesis import strategies as st

from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from tests.metrics import cases


@pytest.mark.parametrize("bins", [1, 5, 15])
def test_equal_width_against_scikit_learn(bins):
    probabilities, labels = cases.classes(300)
    curve = metrics.reliability(labels, probabilities, bins)
    # Of the event "the likeliest class is right".
    accuracy, confidence = sklearn.calibration.calibration_curve(
        probabilities.argmax(axis=1) == labels,
        probabilities.max(axis=1),
        n_bins=bins,
    )
    filled = curve.count > 0
    np.testing.assert_allclose(curve.accuracy[filled], accuracy)
    np.testing.assert_allclose(curve.confidence[filled], confidence)
    assert np.all(np.isnan(curve.accuracy[~filled]))
    assert curve.count.sum() == 300
    np.testing.assert_allclose(curve.edges, np.linspace(0, 1, bins + 1))


@given(
    rows=st.integers(1, 60),
    bins=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_equal_mass_splits_the_sorted_rows(rows, bins, seed):
    probabilities, labels = cases.classes(rows, seed)
    curve = metrics.reliability(labels, probabilities, bins, "mass")
    order = np.argsort(probabilities.max(axis=1))
    confidence = probabilities.max(axis=1)[order]
    right = (probabilities.argmax(axis=1) == labels)[order]
    start = 0
    for b in range(bins):
        # The first b + 1 bins hold (b + 1) / bins of the rows, rounded up.
        end = -(-(b + 1) * rows // bins)
        assert curve.count[b] == end - start
        if end > start:
            assert curve.confidence[b] == pytest.approx(
                confidence[start:end].mean()
            )
            assert curve.accuracy[b] == pytest.approx(right[start:end].mean())
        start = end
    assert curve.edges[0] == confidence[0]
    assert curve.edges[-1] == confidence[-1]


@given(rows=st.integers(1, 60), bins=st.integers(1, 9), data=st.data())
def test_ties_share_a_bin_and_the_order_of_rows_does_not_matter(
    rows, bins, data
):
    choice = st.sampled_from([0.0, 0.5, 0.6, 0.75, 1.0])
    p = np.array(data.draw(st.lists(choice, min_size=rows, max_size=rows)))
    y = np.array(
        data.draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows))
    )
    order = data.draw(st.permutations(range(rows)))
    curve = metrics.reliability(y, p, bins, "mass")
    again = metrics.reliability(y[order], p[order], bins, "mass")
    np.testing.assert_array_equal(curve.count, again.count)
    np.testing.assert_allclose(curve.accuracy, again.accuracy)
    assert curve.count.sum() == rows
    confidence = np.maximum(p, 1 - p)
    bins_of = np.digitize(confidence, curve.edges[1:-1], right=True)
    for value in np.unique(confidence):
        assert len(set(bins_of[confidence == value])) == 1


def test_gap_and_error():
    curve = metrics.reliability([1, 0, 1], [0.75, 0.75, 0.6], num_bins=4)
    # Both 0.75 and 0.6 are in (0.5, 0.75].
    assert curve.count.tolist() == [0, 0, 3, 0]
    assert curve.gap[2] == pytest.approx(2 / 3 - 0.7)
    assert curve.error == pytest.approx(abs(2 / 3 - 0.7))
    same = pickle.loads(pickle.dumps(curve))
    np.testing.assert_array_equal(same.count, curve.count)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_certain_rows(binning):
    right = metrics.reliability([0, 1, 2], np.eye(3), binning=binning)
    assert (right.error, right.count.max()) == (0.0, 3)
    wrong = metrics.reliability([1, 2, 0], np.eye(3), binning=binning)
    assert wrong.error == 1.0
    one = metrics.reliability([1], [[0.0, 1.0]], binning=binning)
    assert (one.error, one.count.sum()) == (0.0, 1)


def test_bad_input():
    with pytest.raises(BayesdropError, match=r"`binning`.*'width', 'mass'.*'x"):
        metrics.reliability([1], [0.5], binning="x")
    for bins in (0, 2.5, True):
        with pytest.raises(BayesdropError, match=r"`num_bins`.*at least 1"):
            metrics.reliability([1], [0.5], num_bins=bins)
    with pytest.raises(BayesdropError, match=r"\[0, 1\]"):
        metrics.reliability([1], [np.nan])
