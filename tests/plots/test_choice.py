# SPDX-License-Identifier: Apache-2.0
"""`Predictive.plot` draws the picture that fits."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from keras_bayesdrop.errors import BayesdropError
from tests.plots import predictions

REGRESSION = predictions.regression(rows=30, tau=4.0)
MANY = predictions.classification(rows=30)
FEW = predictions.classification(rows=5)
BINARY = predictions.binary(rows=30)
X = np.linspace(0.0, 1.0, 30)
LABELS = np.arange(30) % 2

BAND = "Predictive distribution"
PARITY = "Predictions with 90 % intervals"
RELIABILITY = "Reliability"
HISTOGRAM = "How unsure the model is"
SCATTER = "25 samples of each row"


@pytest.mark.parametrize(
    ("p", "arguments", "title"),
    [
        (REGRESSION, {"x": X}, BAND),
        (REGRESSION, {"x": X, "y": X}, BAND),
        (REGRESSION, {"y": X}, PARITY),
        (REGRESSION, {"out": REGRESSION}, HISTOGRAM),
        (REGRESSION, {}, HISTOGRAM),
        (MANY, {"y": LABELS}, RELIABILITY),
        (FEW, {"y": LABELS[:5]}, RELIABILITY),
        (MANY, {"x": X}, SCATTER),
        (MANY, {"out": FEW}, HISTOGRAM),
        (MANY, {}, HISTOGRAM),
        (FEW, {}, SCATTER),
        (predictions.classification(rows=5, keep=False), {}, HISTOGRAM),
        (BINARY, {"x": X}, BAND),
        (BINARY, {"x": X, "y": LABELS}, BAND),
        (BINARY, {"y": LABELS}, RELIABILITY),
        (BINARY, {"out": BINARY}, HISTOGRAM),
        (BINARY[:5], {}, HISTOGRAM),
    ],
)
def test_picture_by_task_and_arguments(p, arguments, title):
    figure, (left, right) = plt.subplots(1, 2)
    assert p.plot(**arguments, ax=right) is right
    assert right.get_title() == title and not left.get_title()
    assert plt.get_fignums() == [figure.number]
    assert p.plot(**arguments).get_title() == title
    assert len(plt.get_fignums()) == 2


def test_what_is_given_is_what_is_drawn():
    *_, mean, observed = REGRESSION.plot(X, 2 * X).lines
    np.testing.assert_array_equal(mean.get_data(), [X, REGRESSION.mean[:, 0]])
    np.testing.assert_array_equal(observed.get_data(), [X, 2 * X])
    ax = REGRESSION.plot(out=REGRESSION)
    assert ax.get_xlabel() == "standard deviation"
    assert len(ax.patches) == 2
    ticks = FEW.plot(x=list("abcde")).get_xticklabels()
    assert [tick.get_text() for tick in ticks] == list("abcde")


@pytest.mark.parametrize(
    ("p", "arguments", "message"),
    [
        (MANY, {"x": X, "y": LABELS}, "no labels. Expected .* Received: both"),
        (
            MANY,
            {"y": LABELS, "out": FEW},
            "Expected `out`, .* Received: x=None, y=ndarray, out=Predictive",
        ),
        (MANY, {"out": "p"}, "`p_out`. Expected .* Received"),
        (REGRESSION, {"x": X[:3]}, "`x`. Expected .* Received"),
        (REGRESSION[:0], {}, "at least one row. Received"),
    ],
)
def test_wrong_arguments(p, arguments, message):
    with pytest.raises(BayesdropError, match=message):
        p.plot(**arguments)
    assert not plt.get_fignums()
