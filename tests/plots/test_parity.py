# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import colors

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from tests.plots import pixels
from tests.plots import predictions

P = predictions.regression(rows=60, tau=4.0)
Y = P.mean[:, 0] + np.random.default_rng(3).normal(0.0, 0.8, 60)


def bars(container):
    """Returns x, and the lower and upper ends of bars."""
    _, _, (lines,) = container.lines
    ends = np.array(lines.get_segments())  # [bars, 2, 2]
    return ends[:, 0, 0], ends[:, 0, 1], ends[:, 1, 1]


def test_points_and_bars_are_means_and_intervals():
    ax = plots.parity(Y, P, level=0.8)
    low, high = (edge[:, 0] for edge in P.interval(0.8))
    hit = (low <= Y) & (Y <= high)
    assert 5 < hit.sum() < 55
    reach, miss = ax.containers
    for container, which in ((reach, hit), (miss, ~hit)):
        points = container.lines[0]
        np.testing.assert_allclose(
            points.get_data(), [Y[which], P.mean[which, 0]]
        )
        x, bottom, top = bars(container)
        np.testing.assert_allclose(x, Y[which])
        np.testing.assert_allclose(bottom, low[which], atol=1e-9)
        np.testing.assert_allclose(top, high[which], atol=1e-9)
    # Told apart without colours, too.
    markers = {each.lines[0].get_marker() for each in ax.containers}
    assert len(markers) == 2
    rmse = np.sqrt(np.mean((Y - P.mean[:, 0]) ** 2))
    title, entries = predictions.legend_texts(ax)
    share = f"{100 * round(hit.mean(), 3):.4g} %"
    assert title == f"{share} covered, RMSE {rmse:.3g}"
    assert entries == [
        f"{hit.sum()} reach the diagonal",
        f"{(~hit).sum()} miss it",
    ]


def test_texts_limits_and_diagonal():
    ax = plots.parity(Y[:, None], P)
    assert ax.get_title() == "Predictions with 90 % intervals"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("observed", "predicted")
    assert ax.get_xlim() == ax.get_ylim()
    low, high = P.interval(0.9)
    assert ax.get_xlim()[0] < min(low.min(), Y.min())
    assert ax.get_xlim()[1] > max(high.max(), Y.max())
    assert ax.get_aspect() == 1.0
    diagonal = ax.lines[0]
    np.testing.assert_array_equal(*diagonal.get_data())
    assert pixels.overlapping_texts(ax.figure) == []
    alone = plots.parity(Y, predictions.regression(rows=60))
    assert alone.get_title() == "Predictions with 90 % intervals without noise"


def test_a_point_is_where_it_should_be():
    p = predictions.predictive([[[0.0], [1.0]], [[0.2], [1.2]]], "regression")
    ax = plots.parity([0.1, 3.0], p)
    for place, colour in (((0.1, 0.1), 0), ((3.0, 1.1), 1)):
        colour_there = pixels.colour_at(ax, *place)
        wanted = colors.to_rgba(plots._style.COLOURS[colour])
        np.testing.assert_allclose(colour_there, wanted, atol=0.02)


def test_many_bars_are_fainter():
    def strength(rows):
        p = predictions.regression(rows=rows, tau=4.0)
        container = plots.parity(p.mean, p).containers[0]
        return container.lines[2][0].get_color()[0][3]

    assert strength(2000) < strength(50)


def test_all_covered_and_one_value():
    p = predictions.predictive(np.zeros((3, 4, 1)), "regression")
    ax = plots.parity(np.zeros(4), p)
    assert predictions.legend_texts(ax) == (
        "100 % covered, RMSE 0",
        ["4 reach the diagonal", "0 miss it"],
    )
    assert ax.get_xlim() == (-0.5, 0.5)


def test_one_of_several_outputs():
    p = predictions.regression(rows=60, outputs=2, tau=4.0)
    y = np.stack([Y + 100.0, Y], axis=1)
    for targets in (y, Y):
        ax = plots.parity(targets, p, output=1)
        x = np.concatenate(
            [each.lines[0].get_xdata() for each in ax.containers]
        )
        np.testing.assert_allclose(np.sort(x), np.sort(Y))


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.parity(Y, P, ax=right) is right
    assert right.lines and not left.lines
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": Y}, BayesdropError, "argument `p`. Expected a `Predictive`"),
        (
            {"p": predictions.binary()},
            BayesdropError,
            "Expected task='regression' or 'heteroscedastic'. Received: "
            "task='binary'",
        ),
        ({"y": Y[:3]}, BayesdropError, r"`y`. Expected .* Received: y.shape"),
        ({"y": Y * np.nan}, NonFiniteError, "`y`. Expected .* Received"),
        ({"level": 1.0}, BayesdropError, "`level`. Expected .* Received: le"),
        ({"level": "a"}, BayesdropError, "`level`. Expected .* Received: le"),
        ({"output": 1}, BayesdropError, "`output`. Expected .* Received: "),
        ({"ax": 1}, BayesdropError, "`ax`. Expected .* Received: ax=1"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.parity(**{"p": P, "y": Y, **arguments})
    assert not plt.get_fignums()
