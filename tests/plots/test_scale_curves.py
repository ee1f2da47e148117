# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import colors

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plots import _style
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale
from tests.plots import pixels
from tests.priors import scale_reference as reference


def curves(ax):
    """Returns x and y of every line, by label."""
    return {line.get_label(): line.get_data() for line in ax.lines}


def test_curves_are_the_optima_by_a_search():
    priors = {
        "log-uniform": LogUniformScale(),
        "horseshoe": HalfCauchyScale(0.6),
        "inverse gamma": InverseGammaScale(3.0, 3.0),
        "on the scale": InverseGammaScale(0.7, 0.2, on="scale"),
    }
    drawn = curves(plots.scale_curves(priors, count=5, largest=2.0))
    assert list(drawn) == ["no hyper-prior", *priors]
    x, y = drawn.pop("no hyper-prior")
    np.testing.assert_array_equal(x, y)
    for label, (moments, variance) in drawn.items():
        np.testing.assert_array_equal(moments, x)
        for place in (1, 40, 123, 400):
            # Five weights of this mean moment. A search finds a maximum to
            # 1e-7 or so, see tests/priors.
            best = reference.best_variance(priors[label], 5 * moments[place], 5)
            np.testing.assert_allclose(variance[place], best, rtol=1e-6)


def test_what_the_paper_says_of_its_figure():
    drawn = curves(plots.scale_curves())
    # By hand, at m = 0, and the slope for one weight at large moments.
    at_zero = {
        "LogUniformScale": 0.0,
        "HalfCauchyScale(eta=1)": 0.0,
        "InverseGammaScale(a=3, b=3)": 6.0 / 9.0,
        "InverseGammaScale(a=3, b=0.3)": 0.6 / 9.0,
    }
    assert list(drawn) == ["no hyper-prior", *at_zero]
    for label, intercept in at_zero.items():
        moments, variance = drawn[label]
        assert moments[0] == 0.0
        np.testing.assert_allclose(variance[0], intercept, rtol=1e-12)
        assert np.all(np.diff(variance) > 0)
        # Large weights are all shrunk.
        assert variance[-1] < moments[-1]


def test_texts_limits_and_colours():
    ax = plots.scale_curves(largest=3.0)
    assert ax.get_title() == "Shrinkage of one weight"
    assert "second moment" in ax.get_xlabel()
    assert "variance" in ax.get_ylabel()
    assert ax.get_xlim() == (0.0, 3.0)
    assert ax.get_ylim()[0] == 0.0 and ax.get_ylim()[1] >= 3.0
    assert len(ax.lines) == 5
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [line.get_label() for line in ax.lines]
    # Told apart without colours, too.
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines[1:]}
    assert len(looks) == len({look[1] for look in looks}) == 4
    assert pixels.overlapping_texts(ax.figure) == []


def test_legend_stays_clear_of_the_curves():
    ax = plots.scale_curves()
    pixels.drawn(ax.figure)
    box = ax.get_legend().get_window_extent()
    for line in ax.lines:
        places = ax.transData.transform(np.transpose(line.get_data()))
        assert not any(box.contains(*place) for place in places)


def test_a_line_is_where_it_should_be():
    ax = plots.scale_curves("log_uniform", largest=3.0)
    # M / (n + 2) for one weight with M = 1.5.
    blue = colors.to_rgba(_style.COLOURS[0])
    np.testing.assert_allclose(pixels.colour_at(ax, 1.5, 0.5), blue, atol=0.01)
    white = pixels.colour_at(ax, 2.7, 1.3)
    np.testing.assert_allclose(white, np.ones(4))


@pytest.mark.parametrize(
    ("priors", "labels"),
    [
        ("half_cauchy", ["HalfCauchyScale(eta=1)"]),
        (InverseGammaScale(2.0, 0.5), ["InverseGammaScale(a=2, b=0.5)"]),
        (
            ["log_uniform", HalfCauchyScale(0.25)],
            ["LogUniformScale", "HalfCauchyScale("],
        ),
        (
            # Labels of numbers alone would be the same.
            [LogUniformScale("scale"), LogUniformScale("variance")],
            [
                "LogUniformScale(variable='scale')",
                "LogUniformScale(variable='variance')",
            ],
        ),
    ],
)
def test_priors_as_they_are_given(priors, labels):
    drawn = list(curves(plots.scale_curves(priors)))[1:]
    assert len(drawn) == len(labels)
    for label, start in zip(drawn, labels, strict=True):
        assert label.startswith(start)


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.scale_curves(count=7, ax=right) is right
    assert right.get_title() == "Shrinkage of a group of 7 weights"
    assert not left.lines
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"priors": "normal"}, "prior"),
        ({"priors": []}, "priors"),
        ({"priors": {}}, "priors"),
        ({"count": 0}, "count"),
        ({"largest": -1.0}, "largest"),
        ({"ax": "axes"}, "ax"),
    ],
)
def test_wrong_arguments(arguments, name):
    with pytest.raises(
        BayesdropError, match=f"argument `{name}`. Expected .* Received: {name}"
    ):
        plots.scale_curves(**arguments)
    assert not plt.get_fignums()
