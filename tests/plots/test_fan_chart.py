# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import colors

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from tests.plots import pixels
from tests.plots import predictions
from tests.plots.test_predictive_band import edges

STEPS = 12
AHEAD = np.arange(1.0, STEPS + 1)


def forecast(rows=3):
    return predictions.heteroscedastic((rows, STEPS))


def test_bands_are_the_intervals_of_an_observation():
    p = forecast()
    ax = plots.fan_chart(p, row=2, levels=(0.5, 0.9))
    assert len(ax.collections) == 2
    for band, level in zip(ax.collections, (0.9, 0.5), strict=True):
        expected = [end[2] for end in p.interval(level)]
        np.testing.assert_allclose(edges(band, AHEAD), expected)
    (mean,) = ax.lines
    np.testing.assert_array_equal(mean.get_data(), [AHEAD, p.mean[2]])
    # Inner bands lie on top of outer ones, and are darker.
    colour = [
        colors.rgb_to_hsv(pixels.colour_at(ax, 6.0, place)[:3])[1]
        for place in (
            np.mean(edges(ax.collections[0], AHEAD)[1, 5:6]) - 0.02,
            p.interval(0.5)[1][2, 5] - 0.02,
        )
    ]
    assert 0 < colour[0] < colour[1]


def test_history_and_what_came_later():
    p = forecast()
    past = np.sin(np.arange(20.0))
    y = np.cos(AHEAD)
    ax = plots.fan_chart(p, past, y)
    history, start, mean, observed = ax.lines
    np.testing.assert_array_equal(
        history.get_data(), [np.arange(-19.0, 1.0), past]
    )
    assert start.get_xdata()[0] == 0.5
    np.testing.assert_array_equal(mean.get_xdata(), AHEAD)
    np.testing.assert_array_equal(observed.get_data(), [AHEAD, y])
    _, texts = predictions.legend_texts(ax)
    assert texts == ["history", "95 %", "80 %", "50 %", "mean", "observed"]
    assert ax.get_title() == "Forecast of 12 steps"
    assert pixels.overlapping_texts(ax.figure) == []


def test_times_and_series():
    samples = np.random.default_rng(0).normal(size=(20, 2, STEPS, 3))
    p = predictions.predictive(samples, "regression")
    times = np.arange(2000.0, 2000.0 + STEPS + 5)
    ax = plots.fan_chart(p, np.zeros(5), output=1, x=times, row=1)
    np.testing.assert_array_equal(
        ax.lines[-1].get_data(), [times[5:], p.mean[1, :, 1]]
    )
    assert ax.get_title() == "Forecast of 12 steps without noise"
    assert ax.get_xlabel() == "time"
    # A single step has a band that can be seen.
    ax = plots.fan_chart(p[:, :1], output=0)
    (low, high) = ax.collections[0].get_paths()[0].get_extents().intervalx
    assert low < 1.0 < high


@pytest.mark.parametrize(
    ("p", "arguments", "message"),
    [
        (predictions.binary(), {}, "Expected task='regression' or .*Received"),
        (forecast(), {"row": 3}, "`row`. Expected an integer below 3"),
        (forecast(), {"levels": (0.5, 1.0)}, "`levels`. Expected"),
        (forecast(), {"y": [1.0]}, "12 steps. Received: 1 numbers"),
        (forecast(), {"x": AHEAD[1:]}, "`x`. Expected increasing times"),
        (forecast(), {"x": AHEAD[::-1]}, "Received: 12 times from 12 to 1"),
        (forecast(), {"output": 1}, "`output`. Expected an integer below 1"),
        (
            predictions.heteroscedastic((2, 3, 4)),
            {},
            "`output` from 0 to 3. Received: output=None and 4 series",
        ),
        (predictions.heteroscedastic((2,)), {}, "no steps to draw. Expected"),
        (
            predictions.heteroscedastic((2, 3, 4, 5)),
            {},
            "no steps to draw. Expected",
        ),
    ],
)
def test_wrong_arguments(p, arguments, message):
    with pytest.raises(BayesdropError, match=message):
        plots.fan_chart(p, **arguments)
    assert not plt.get_fignums()
