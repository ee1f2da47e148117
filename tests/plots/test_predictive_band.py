# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import colors
from scipy import optimize
from scipy import stats

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from tests.plots import pixels
from tests.plots import predictions

X = np.linspace(-1.0, 1.0, 40)


def edges(band, x=X):
    """Returns the lower and the upper edge of a filled band, [x]."""
    vertices = band.get_paths()[0].vertices
    limits = []
    for place in x:
        there = vertices[np.isclose(vertices[:, 0], place), 1]
        limits.append((there.min(), there.max()))
    return np.transpose(limits)


def mixture_quantile(samples, deviation, level):
    """Returns a quantile of the mixture of normals around samples."""

    def excess(y):
        return stats.norm.cdf(y, samples, deviation).mean() - level

    return optimize.brentq(excess, -20.0, 20.0, xtol=1e-12)


def test_bands_are_the_quantiles_epistemic_inside_total():
    p = predictions.regression(tau=4.0)
    ax = plots.predictive_band(p, X, levels=(0.5, 0.9))
    assert len(ax.collections) == 4
    bands = [edges(band) for band in ax.collections]
    samples = p.samples[:, :, 0]
    for (total, epistemic), level in (
        ((bands[0], bands[2]), 0.9),
        ((bands[1], bands[3]), 0.5),
    ):
        tails = (1 - level) / 2, (1 + level) / 2
        np.testing.assert_allclose(
            epistemic, np.quantile(samples, tails, axis=0), atol=1e-12
        )
        for row in (0, 17, 39):
            exact = [mixture_quantile(samples[:, row], 0.5, q) for q in tails]
            # The mixture is inverted to about 1e-6 of its width.
            np.testing.assert_allclose(total[:, row], exact, atol=1e-5)
        assert np.all(total[0] < epistemic[0])
        assert np.all(epistemic[1] < total[1])


def test_lines_points_texts_and_limits():
    p = predictions.regression(tau=4.0)
    where = np.array([-1.5, 0.2, 0.9])
    ax = plots.predictive_band(p, X[:, None], [0.1, 0.2, 0.3], where)
    functions, (mean, observed) = ax.lines[:-2], ax.lines[-2:]
    assert len(functions) == 5
    for number, line in enumerate(functions):
        np.testing.assert_array_equal(line.get_ydata(), p.samples[number, :, 0])
        assert line.get_linewidth() < 1 < mean.get_linewidth()
    np.testing.assert_array_equal(mean.get_data(), [X, p.mean[:, 0]])
    np.testing.assert_array_equal(observed.get_data(), [where, [0.1, 0.2, 0.3]])
    assert ax.get_xlim() == (-1.5, 1.0)
    assert predictions.legend_texts(ax)[1] == [
        "total: 95, 68 %",
        "epistemic: 95, 68 %",
        "single functions",
        "mean",
        "observed",
    ]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "prediction")
    assert ax.get_title() == "Predictive distribution"
    assert pixels.overlapping_texts(ax.figure) == []


def test_inner_bands_are_darker_in_grey():
    p = predictions.regression(count=400, tau=1.0)
    ax = plots.predictive_band(p, X, functions=0)
    ax.get_legend().remove()
    outer, inner, wide, narrow = (edges(band)[1][0] for band in ax.collections)
    assert narrow < inner < wide < outer
    # From the middle out: in all four bands, in two of them, in the outermost.
    heights = (narrow / 2, (inner + wide) / 2, (wide + outer) / 2)
    grey = [
        np.dot(pixels.colour_at(ax, X[0] + 0.01, h)[:3], [0.3, 0.6, 0.1])
        for h in heights
    ]
    assert grey[0] < grey[1] - 0.05 < grey[2] - 0.1


def test_a_pixel_of_the_mean():
    p = predictions.regression(tau=4.0)
    ax = plots.predictive_band(p, X, functions=0)
    blue = colors.to_rgba(plots._style.COLOURS[0])
    colour_there = pixels.colour_at(ax, X[20], p.mean[20, 0])
    np.testing.assert_allclose(colour_there, blue, atol=0.05)


def test_order_of_the_rows_does_not_matter():
    p = predictions.regression(tau=4.0)
    y = np.arange(40.0)
    order = np.random.default_rng(0).permutation(40)
    one = plots.predictive_band(p, X, y)
    other = plots.predictive_band(p[order], X[order], y[order])
    for line, same in zip(one.lines[:-1], other.lines[:-1], strict=True):
        np.testing.assert_array_equal(line.get_data(), same.get_data())
    for band, same in zip(one.collections, other.collections, strict=True):
        np.testing.assert_array_equal(edges(band), edges(same))
    points = [
        sorted(np.transpose(ax.lines[-1].get_data()).tolist())
        for ax in (one, other)
    ]
    assert points[0] == points[1] and len(points[0]) == 40


def test_without_noise_or_samples_there_is_less_to_draw():
    alone = plots.predictive_band(predictions.regression(), X)
    assert len(alone.collections) == 2
    assert predictions.legend_texts(alone)[1][0] == "epistemic: 95, 68 %"
    p = predictions.regression(keep=False, tau=4.0)
    ax = plots.predictive_band(p, X, levels=[0.9])
    assert len(ax.lines) == 1 and len(ax.collections) == 2
    # The normal approximation, by scipy.
    for band, variance in zip(
        ax.collections, (p.variance + 0.25, p.variance), strict=True
    ):
        exact = stats.norm.interval(0.9, p.mean[:, 0], variance[:, 0] ** 0.5)
        np.testing.assert_allclose(edges(band), exact, rtol=1e-6)
    # Samples of masks of their own are no functions.
    p = predictions.regression(masks="independent")
    assert len(plots.predictive_band(p, X).lines) == 1


def test_one_of_several_outputs():
    p = predictions.regression(outputs=3, tau=4.0)
    y = np.random.default_rng(0).normal(size=(40, 3))
    ax = plots.predictive_band(p, X, y, output=2)
    mean, observed = ax.lines[-2:]
    np.testing.assert_array_equal(mean.get_ydata(), p.mean[:, 2])
    np.testing.assert_array_equal(observed.get_ydata(), y[:, 2])


def test_binary():
    p = predictions.binary(rows=40)
    ax = plots.predictive_band(p, X, (X > 0).astype(int))
    assert ax.get_ylim() == (-0.04, 1.04)
    assert ax.get_ylabel() == "probability"
    assert len(ax.collections) == 2


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    p = predictions.regression()
    assert plots.predictive_band(p, X, ax=right) is right
    assert right.lines and not left.lines
    assert plt.get_fignums() == [figure.number]


P = predictions.regression(tau=4.0)
WITHOUT = predictions.regression(keep=False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": "p"}, BayesdropError, "argument `p`. Expected a `Predictive`"),
        (
            {"p": predictions.classification(40)},
            BayesdropError,
            "Expected task='regression' or 'heteroscedastic' or 'binary'. "
            "Received: task='class",
        ),
        ({"p": P[:0], "x": []}, BayesdropError, "at least one row. Received"),
        ({"x": X[:3]}, BayesdropError, "of 40 rows. Received: 3 numbers"),
        ({"x": np.ones((40, 2))}, BayesdropError, r"`x`. .* Received: x.shape"),
        ({"x": X * np.nan}, NonFiniteError, "`x`. Expected finite"),
        ({"y": [1.0, 2.0]}, BayesdropError, r"`y`. .* Received: y.shape"),
        ({"y": X * np.inf}, NonFiniteError, "`y`. Expected finite"),
        ({"x_observed": X}, BayesdropError, "`y`. Expected .* Received: y=N"),
        ({"levels": (0.5, 1.0)}, BayesdropError, "`levels`. Expected .* Rec"),
        ({"levels": 0.9}, BayesdropError, "`levels`. Expected .* Received: "),
        ({"functions": -1}, BayesdropError, "`functions`. Expected .* Rec"),
        ({"output": 1}, BayesdropError, "`output`. Expected .* Received: "),
        ({"output": 0.5}, BayesdropError, "`output`. Expected .* Received: "),
        ({"ax": "axes"}, BayesdropError, "`ax`. Expected .* Received: ax="),
        (
            {"p": WITHOUT, "functions": 2},
            MissingSamplesError,
            "Expected samples .* Received: samples=None",
        ),
        (
            {"p": predictions.regression(outputs=2)},
            BayesdropError,
            "shows one output. Expected .* Received: output=None and 2 outp",
        ),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.predictive_band(**{"p": P, "x": X, **arguments})
    assert not plt.get_fignums()


def test_what_is_not_finite_is_not_drawn():
    samples = P.samples.copy()
    samples[3, 5] = np.nan
    p = predictions.predictive(samples, "regression")
    with pytest.raises(NonFiniteError, match=r"`p` cannot .* Expected .* Rec"):
        plots.predictive_band(p, X)
    assert not plt.get_fignums()
