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
LEARNED = predictions.heteroscedastic((30, 1))
PIXELS = predictions.segmentation()
DEPTH = predictions.heteroscedastic((2, 5, 6, 1))


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
        (LEARNED, {"x": X, "y": X}, BAND),
        (LEARNED, {"y": X}, PARITY),
        (LEARNED, {"out": LEARNED}, HISTOGRAM),
        (LEARNED, {}, HISTOGRAM),
        (PIXELS, {"y": PIXELS.mean.argmax(-1)}, RELIABILITY),
        (PIXELS, {"out": PIXELS}, HISTOGRAM),
    ],
)
def test_picture_by_task_and_arguments(p, arguments, title):
    figure, (left, right) = plt.subplots(1, 2)
    assert p.plot(**arguments, ax=right) is right
    assert right.get_title() == title and not left.get_title()
    assert plt.get_fignums() == [figure.number]
    assert p.plot(**arguments).get_title() == title
    assert len(plt.get_fignums()) == 2


@pytest.mark.parametrize(
    ("p", "x"),
    [
        (PIXELS, None),
        (PIXELS, np.ones((2, 6, 9, 3))),
        (DEPTH, None),
        (DEPTH[..., 0], np.ones((2, 5, 6))),
    ],
)
def test_images_get_a_map(p, x):
    _, ax = plt.subplots()
    assert p.plot(x, ax=ax) is ax
    titles = [inner.get_title() for inner in ax.child_axes]
    parts = ["prediction", "total", "epistemic"]
    assert titles == (parts if x is None else ["image", *parts])


def test_series_of_several_outputs_are_no_images():
    p = predictions.heteroscedastic((4, 5, 6))
    assert p.plot().get_title() == HISTOGRAM
    assert p.plot(output=(2, 3)).get_title() == HISTOGRAM


def test_output():
    """The argument that the error of several outputs recommends."""
    p = predictions.heteroscedastic((30, 3))
    with pytest.raises(BayesdropError, match="`output` from 0 to 2"):
        p.plot(X)
    for arguments in ({"x": X}, {"x": X, "y": p.mean}, {"y": p.mean}, {}):
        ax = p.plot(**arguments, output=1)
        y = {"y": p.mean[:, 1]} if "y" in arguments else {}
        again = p[:, 1].plot(**{**arguments, **y})
        assert ax.get_title() == again.get_title()
        for one, other in zip(ax.lines, again.lines, strict=True):
            np.testing.assert_array_equal(one.get_data(), other.get_data())
    drawn = p.plot(out=p, output=2).patches
    again = p[:, 2].plot(out=p[:, 2]).patches
    for one, other in zip(drawn, again, strict=True):
        np.testing.assert_array_equal(
            one.get_data().values, other.get_data().values
        )
    y = PIXELS.mean.argmax(-1)
    ax = PIXELS.plot(y=y, output=(2, 1))
    again = PIXELS[:, 2, 1].plot(y=y[:, 2, 1])
    for one, other in zip(ax.lines, again.lines, strict=True):
        np.testing.assert_array_equal(one.get_data(), other.get_data())
    scatter = PIXELS.plot(x=["a", "b"], output=4)
    assert scatter.get_title() == "8 samples of each row"
    channels = predictions.heteroscedastic((2, 5, 6, 4))
    shown = channels.plot(output=3).child_axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, channels.mean[0, ..., 3])


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
        (REGRESSION, {"output": 1}, "`output`. Expected an integer below 1"),
        (MANY, {"y": LABELS, "output": 1}, "`output`. Expected an integer"),
    ],
)
def test_wrong_arguments(p, arguments, message):
    with pytest.raises(BayesdropError, match=message):
        p.plot(**arguments)
    assert not plt.get_fignums()
