# SPDX-License-Identifier: Apache-2.0
"""Plots of predictions with learned noise, and of one of several outputs."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics import calibration_curve
from keras_bayesdrop.metrics import reliability
from keras_bayesdrop.metrics import risk_coverage
from tests.plots import pixels
from tests.plots import predictions
from tests.plots.test_predictive_band import edges

P = predictions.heteroscedastic()
X = np.linspace(-1.0, 1.0, 40)
Y = np.random.default_rng(3).normal(size=(40, 1))


def test_band_splits_into_its_two_parts():
    ax = plots.predictive_band(P, X, Y, levels=(0.9,))
    total, epistemic = (edges(band) for band in ax.collections)
    np.testing.assert_allclose(total, [end[:, 0] for end in P.interval(0.9)])
    function = np.quantile(P.samples[..., 0], (0.05, 0.95), axis=0)
    np.testing.assert_allclose(epistemic, function, atol=1e-12)
    assert np.all(total[0] < epistemic[0]) and np.all(epistemic[1] < total[1])
    # The noise grows along the rows, and the band with it.
    reach = total[1] - total[0]
    assert reach[-1] > 2 * reach[0]
    assert predictions.legend_texts(ax)[1][:2] == [
        "total: 90 %",
        "epistemic: 90 %",
    ]
    assert pixels.overlapping_texts(ax.figure) == []


def test_parity_has_the_intervals_of_an_observation():
    ax = plots.parity(Y, P)
    assert ax.get_title() == "Predictions with 90 % intervals"
    low, high = P.interval(0.9)
    inside = np.sum((low <= Y) & (Y <= high))
    _, texts = predictions.legend_texts(ax)
    assert texts[0] == f"{inside} reach the diagonal"


def test_calibration_and_risk():
    ax = plots.regression_calibration(Y, P)
    curve = calibration_curve(Y, P)
    np.testing.assert_array_equal(ax.lines[1].get_ydata()[1:-1], curve.observed)
    ax = plots.risk_coverage(Y, P)
    loss = np.square(P.mean - Y)[:, 0]
    expected = risk_coverage(loss, (P.variance + P.noise_variance)[:, 0])
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), expected.risk)
    assert ax.get_ylabel() == "risk: mean squared error"
    ax = plots.risk_coverage(Y, P, ("aleatoric", "epistemic"))
    assert len(ax.lines) == 4


SEVERAL = predictions.heteroscedastic((40, 3))
TARGETS = np.random.default_rng(4).normal(size=(40, 3))
PIXELS = predictions.segmentation(rows=20)
LABELS = np.random.default_rng(5).integers(0, 3, (20, 6, 9))


def test_one_output_of_several():
    for targets in (TARGETS, TARGETS[:, 1]):
        ax = plots.regression_calibration(targets, SEVERAL, output=1)
        curve = calibration_curve(TARGETS[:, 1], SEVERAL[:, 1])
        drawn = ax.lines[1].get_ydata()[1:-1]
        np.testing.assert_array_equal(drawn, curve.observed)
        ax = plots.risk_coverage(targets, SEVERAL, output=1)
        again = plots.risk_coverage(TARGETS[:, 1], SEVERAL[:, 1])
        np.testing.assert_array_equal(
            ax.lines[-1].get_data(), again.lines[-1].get_data()
        )
    ax = plots.reliability_diagram(LABELS, PIXELS, output=(3, 4))
    curve = reliability(LABELS[:, 3, 4], PIXELS[:, 3, 4])
    filled = curve.count > 0
    np.testing.assert_array_equal(
        ax.lines[1].get_data(),
        [curve.confidence[filled], curve.accuracy[filled]],
    )
    ax = plots.entropy_histogram(PIXELS, output=7, bins=4)
    again = plots.entropy_histogram(PIXELS[:, 0, 7], bins=4)
    np.testing.assert_array_equal(
        ax.patches[0].get_data().values, again.patches[0].get_data().values
    )
    ax = plots.class_scatter(PIXELS[:4], output=2)
    np.testing.assert_array_equal(
        ax.collections[0].get_offsets()[:, 1].reshape(8, 4),
        PIXELS.samples[:, :4, 0, 2, 0],
    )


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.reliability_diagram([0], [0.5], output=0), "`p`. Expec"),
        (lambda: plots.risk_coverage([1.0], [0.5], output=0), "`p`. Expected"),
        (lambda: plots.entropy_histogram([0.5], output=0), "`p_in`. Expected"),
        (lambda: plots.class_scatter(SEVERAL, output=0), "task='classificati"),
        (
            lambda: plots.regression_calibration(TARGETS, SEVERAL, output=3),
            "`output`. Expected an integer below 3",
        ),
    ],
)
def test_wrong_outputs(draw, message):
    with pytest.raises(BayesdropError, match=message):
        draw()
    assert not plt.get_fignums()
