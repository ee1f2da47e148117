# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from tests.plots import pixels
from tests.plots import predictions

P = predictions.regression(rows=80, tau=4.0)
NOISE = np.random.default_rng(0).normal(0.0, 0.5, 80)
# A sample of its own for each row, and noise: as the model says.
DRAWN = P.samples[np.arange(80) % 25, np.arange(80), 0] + NOISE


def test_curve_is_the_share_inside_intervals():
    levels = [0.1, 0.5, 0.9]
    ax = plots.regression_calibration(DRAWN, P, levels)
    line = ax.lines[-1]
    inside = []
    for level in levels:
        low, high = P.interval(level)
        inside.append(np.mean((low[:, 0] <= DRAWN) & (DRAWN <= high[:, 0])))
    np.testing.assert_allclose(
        line.get_data(), [[0, *levels, 1], [0, *inside, 1]]
    )
    assert line.get_marker() == "o"
    # Of straight pieces that do not cross the diagonal between their ends,
    # unless their ends are on both sides of it: by many small steps.
    fine = np.linspace(0, 1, 100_001)
    gap = np.interp(fine, *line.get_data()) - fine
    title, entries = predictions.legend_texts(ax)
    name, area = title.rsplit(" ", 1)
    assert name == "miscalibration area"
    assert float(area) == pytest.approx(np.mean(np.abs(gap)), abs=6e-4)
    assert entries == ["calibrated, 95 %", "model"]


def test_band_is_binomial():
    ax = plots.regression_calibration(DRAWN, P)
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    for q in (0.05, 0.5, 0.8):
        there = vertices[np.isclose(vertices[:, 0], q), 1]
        exact = stats.binom.ppf([0.025, 0.975], 80, q) / 80
        np.testing.assert_allclose([there.min(), there.max()], exact)


def test_texts_and_limits():
    ax = plots.regression_calibration(DRAWN[:, None], P)
    assert ax.get_title() == "Calibration of 80 targets"
    assert ax.get_xlabel() == "probability of the interval"
    assert ax.get_ylabel() == "share of targets inside"
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 1.0)
    assert ax.get_aspect() == 1.0
    assert len(ax.lines) == 2
    np.testing.assert_array_equal(ax.lines[0].get_data(), [[0, 1], [0, 1]])
    assert len(ax.lines[1].get_xdata()) == 101
    assert [text.get_text() for text in ax.texts] == ["too narrow", "too wide"]
    assert pixels.overlapping_texts(ax.figure) == []


def test_a_model_that_is_too_sure_leaves_the_band_where_it_says():
    far = P.mean[:, 0] + 4 * NOISE + np.sign(NOISE)
    ax = plots.regression_calibration(far, P)
    expected, observed = ax.lines[-1].get_data()
    assert np.all(observed[30:70] < expected[30:70] - 0.2)
    narrow = ax.texts[0]
    assert narrow.get_position()[1] < narrow.get_position()[0]


def test_several_outputs_count_one_by_one():
    p = predictions.regression(outputs=3, tau=4.0)
    ax = plots.regression_calibration(p.mean, p)
    assert ax.get_title() == "Calibration of 120 targets"
    np.testing.assert_array_equal(ax.lines[-1].get_ydata()[10:], 1.0)


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.regression_calibration(DRAWN, P, ax=right) is right
    assert right.lines and not left.lines
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": DRAWN}, BayesdropError, "argument `p`. Expected a `Predictive`"),
        (
            {"p": predictions.classification()},
            BayesdropError,
            "Expected task='regression' or 'heteroscedastic'. Received: "
            "task='classification'",
        ),
        ({"p": P[:0]}, BayesdropError, "at least one row. Received"),
        ({"y": DRAWN[:3]}, BayesdropError, "`y`. Expected .* Received: y.sha"),
        ({"y": DRAWN * np.nan}, NonFiniteError, "`y`. Expected .* Received"),
        ({"levels": [0.5, 0.2]}, BayesdropError, "`levels`. Expected .* Rec"),
        ({"ax": 1}, BayesdropError, "`ax`. Expected .* Received: ax=1"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.regression_calibration(**{"p": P, "y": DRAWN, **arguments})
    assert not plt.get_fignums()
