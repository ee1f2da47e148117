# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from keras_bayesdrop import metrics
from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from tests.plots import pixels
from tests.plots import predictions

P = predictions.classification(rows=400)
Y = predictions.drawn_labels(P)


def by_hand(p, y, bins):
    """Returns confidence, accuracy and count of each bin that has labels."""
    confidence, right = p.mean.max(axis=1), p.mean.argmax(axis=1) == y
    filled = []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            share = right[inside].mean()
            filled.append((confidence[inside].mean(), share, inside.sum()))
    return np.transpose(filled)


def points(ax):
    """Returns confidence and accuracy of all points, in order."""
    drawn = [line.get_data() for line in ax.lines[2:]]
    both = np.concatenate(drawn, axis=1)
    return both[:, np.argsort(both[0])]


def test_points_bars_and_error_against_a_computation_by_hand():
    ax = plots.reliability_diagram(Y, P, num_bins=10)
    confidence, accuracy, count = by_hand(P, Y, 10)
    np.testing.assert_allclose(points(ax), [confidence, accuracy])
    np.testing.assert_allclose(ax.lines[1].get_data(), [confidence, accuracy])
    (bars,) = ax.containers
    assert len(bars) == len(count)
    for bar, mean, n in zip(bars, confidence, count, strict=True):
        low, high = stats.binom.ppf([0.025, 0.975], n, mean) / n
        assert bar.get_y() == pytest.approx(low)
        assert bar.get_y() + bar.get_height() == pytest.approx(high)
        assert bar.get_x() < mean < bar.get_x() + bar.get_width()
    error = np.sum(count / 400 * np.abs(confidence - accuracy))
    title, _ = predictions.legend_texts(ax)
    assert title == f"ECE {error:.3f}"


def test_histogram_above():
    ax = plots.reliability_diagram(Y, P, num_bins=10)
    (above,) = ax.child_axes
    (patch,) = above.patches
    heights, edges, _ = patch.get_data()
    counts, _ = np.histogram(P.mean.max(axis=1), np.linspace(0, 1, 11))
    np.testing.assert_allclose(heights, counts / 400)
    np.testing.assert_allclose(edges, np.linspace(0, 1, 11))
    assert above.get_xlim() == ax.get_xlim()
    assert above.get_ylim()[0] == 0.0
    pixels.drawn(ax.figure)
    lower, upper = ax.get_window_extent(), above.get_window_extent()
    assert upper.y0 > lower.y1
    assert (upper.x0, upper.x1) == pytest.approx((lower.x0, lower.x1))
    title = ax.title.get_window_extent()
    assert title.y0 >= upper.y1


def test_texts_and_limits():
    ax = plots.reliability_diagram(Y, P)
    assert ax.get_title() == "Reliability"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "accuracy")
    # The least confidence, 0.32, is in the bin from 4 / 15 on.
    np.testing.assert_allclose(ax.get_xlim(), (0.2, 1.0))
    assert ax.get_ylim() == (0.0, 1.03)
    diagonal = ax.lines[0]
    np.testing.assert_array_equal(diagonal.get_data(), [[0, 1], [0, 1]])
    assert pixels.overlapping_texts(ax.figure) == []


def test_points_beyond_chance_are_told_apart():
    # Sure to 0.95 and right in half of the cases; unsure, and right.
    mean = np.repeat([[0.95, 0.05], [0.55, 0.45]], [100, 4], axis=0)
    y = np.concatenate([np.arange(100) % 2, [0, 0, 1, 1]])
    p = predictions.predictive(np.stack([mean, mean]), "classification")
    ax = plots.reliability_diagram(y, p, num_bins=10)
    _, entries = predictions.legend_texts(ax)
    assert set(entries) == {
        "model",
        "model, beyond chance",
        "calibrated, 95 %",
    }
    model, beyond = ax.lines[2:]
    np.testing.assert_allclose(model.get_data(), [[0.55], [0.5]])
    np.testing.assert_allclose(beyond.get_data(), [[0.95], [0.5]])
    assert model.get_marker() != beyond.get_marker()
    assert model.get_color() != beyond.get_color()


def test_chance_alone_is_rarely_called_more():
    # 20 calibrated models of 10 bins or so: 5 % of the points at most, for
    # quantiles of a discrete distribution cover more. 2 % is the deviation of
    # such a share, and the allowance is four of them.
    beyond = total = 0
    for seed in range(20):
        y = predictions.drawn_labels(P, seed)
        curve = metrics.reliability(y, P, 10)
        ax = plots.reliability_diagram(y, P, num_bins=10)
        total += int(np.sum(curve.count > 0))
        beyond += sum(
            len(line.get_xdata())
            for line in ax.lines
            if line.get_label() == "model, beyond chance"
        )
        plt.close("all")
    assert total > 120
    assert beyond / total < 0.05 + 4 * 0.02


def test_bins_of_equal_mass_arrays_and_binary():
    ax = plots.reliability_diagram(Y, P.mean, num_bins=8, binning="mass")
    heights, edges, _ = ax.child_axes[0].patches[0].get_data()
    np.testing.assert_allclose(heights, 1 / 8)
    np.testing.assert_allclose(edges[-1], P.mean.max())
    p = predictions.binary(rows=200)
    ax = plots.reliability_diagram(p.mean >= 0.5, p, num_bins=4)
    assert np.all(points(ax)[1] == 1.0)
    assert np.all(points(ax)[0] >= 0.5) and ax.get_xlim()[0] == 0.5
    # A single confidence has bins of no width: still to be seen.
    p = np.full((6, 2), [0.75, 0.25])
    ax = plots.reliability_diagram(np.arange(6) % 2, p, 3, "mass")
    (bar,) = ax.containers[0]
    assert bar.get_width() > 0.003


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.reliability_diagram(Y, P, ax=right) is right
    assert right.lines and not left.lines
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": predictions.regression()}, "regression. Expected .* Received"),
        ({"p": P[:0], "y": []}, "Expected at least one .* Received"),
        ({"p": [[2.0, -1.0]]}, "probabilities. Expected .* Received"),
        ({"y": Y[:3]}, "`y`. Expected .* Received: y.shape"),
        ({"y": Y + 7}, "`y`. Expected .* Received: values from 7"),
        ({"num_bins": 0}, "`num_bins`. Expected .* Received: num_bins=0"),
        ({"binning": "area"}, "`binning`. Expected .* Received: binning="),
        ({"ax": 1}, "`ax`. Expected .* Received: ax=1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(BayesdropError, match=message):
        plots.reliability_diagram(**{"p": P, "y": Y, **arguments})
    assert not plt.get_fignums()
