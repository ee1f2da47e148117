# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from tests.plots import pixels
from tests.plots import predictions

INSIDE = predictions.classification(rows=50, seed=0)
OUTSIDE = predictions.classification(rows=30, seed=1)
ENTROPY = [-np.sum(p.mean * np.log(p.mean), axis=-1) for p in (INSIDE, OUTSIDE)]


def auroc(ax):
    """Returns the number in the legend."""
    name, number = predictions.legend_texts(ax)[0].split()
    assert name == "AUROC"
    return float(number)


def test_histograms_are_those_of_the_entropy():
    ax = plots.entropy_histogram(INSIDE, OUTSIDE, bins=12)
    assert len(ax.patches) == 2
    top = max(each.max() for each in ENTROPY)
    for patch, values in zip(ax.patches, ENTROPY, strict=True):
        heights, edges, _ = patch.get_data()
        np.testing.assert_allclose(edges, np.linspace(0.0, top, 13))
        # The largest value is at the last edge, whatever its last digit.
        inner = np.searchsorted(np.sort(values), edges[1:-1])
        counts = np.diff([0, *inner, len(values)])
        np.testing.assert_allclose(heights, counts / len(values))
    np.testing.assert_allclose(ax.get_xlim(), (0.0, top))
    assert ax.get_ylim()[0] == 0.0
    is_out = np.repeat([0, 1], [50, 30])
    exact = roc_auc_score(is_out, np.concatenate(ENTROPY))
    assert auroc(ax) == pytest.approx(exact, abs=5e-4)


def test_texts_and_lines():
    ax = plots.entropy_histogram(INSIDE, OUTSIDE)
    assert predictions.legend_texts(ax)[1] == [
        "in distribution: 50",
        "out of distribution: 30",
    ]
    assert ax.get_xlabel() == "predictive entropy, nats"
    assert ax.get_ylabel() == "share of rows"
    assert ax.get_title() == "How unsure the model is"
    assert len(ax.patches[0].get_data()[0]) == 30
    # Told apart without colours, too.
    assert len({patch.get_linestyle() for patch in ax.patches}) == 2
    assert len({patch.get_edgecolor() for patch in ax.patches}) == 2
    assert pixels.overlapping_texts(ax.figure) == []


def test_an_uncertainty_that_tells_them_apart():
    sure = predictions.predictive(
        np.full((2, 9, 2), [0.999, 0.001]), "classification"
    )
    unsure = predictions.predictive(np.full((2, 5, 2), 0.5), "classification")
    assert auroc(plots.entropy_histogram(sure, unsure)) == 1.0
    assert auroc(plots.entropy_histogram(unsure, sure)) == 0.0
    assert auroc(plots.entropy_histogram(sure, sure)) == 0.5


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("mutual_information", "mutual information, nats"),
        ("variation_ratio", "variation ratio"),
        ("std", "standard deviation"),
    ],
)
def test_other_quantities(quantity, text):
    ax = plots.entropy_histogram(INSIDE, OUTSIDE, quantity)
    assert ax.get_xlabel() == text
    values = getattr(INSIDE, quantity).reshape(50, -1).mean(axis=1)
    heights, edges, _ = ax.patches[0].get_data()
    counts, _ = np.histogram(values, edges)
    np.testing.assert_allclose(heights, counts / 50)


def test_regression_arrays_and_one_alone():
    p = predictions.regression(outputs=2)
    ax = plots.entropy_histogram(p, quantity="epistemic", bins=5)
    (patch,) = ax.patches
    counts, _ = np.histogram(
        p.variance.mean(axis=1), np.linspace(0, p.variance.mean(1).max(), 6)
    )
    np.testing.assert_allclose(patch.get_data()[0], counts / 40)
    assert predictions.legend_texts(ax) == ("", ["rows: 40"])
    ax = plots.entropy_histogram([0.0, 1.0, 2.0], [[1.5], [4.0]])
    # Of the six pairs, five are in order.
    assert auroc(ax) == pytest.approx(5 / 6, abs=5e-4)
    # Nothing but zeros still has a picture.
    assert plots.entropy_histogram(np.zeros(3)).get_xlim() == (0.0, 1.0)


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.entropy_histogram(INSIDE, ax=right) is right
    assert right.patches and not left.patches
    assert plt.get_fignums() == [figure.number]


WITHOUT = predictions.classification(keep=False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p_in": "p"}, BayesdropError, "`p_in`. Expected .* Received"),
        ({"p_out": "p"}, BayesdropError, "`p_out`. Expected .* Received"),
        ({"p_out": INSIDE[:0]}, BayesdropError, "`p_out`. Expected .* Rec"),
        ({"p_out": [np.nan]}, NonFiniteError, "`p_out`. Expected .* Rec"),
        ({"quantity": "mean"}, BayesdropError, "`quantity`. Expected .* Rec"),
        (
            {"p_in": [1.0], "quantity": 3},
            BayesdropError,
            "`quantity`. Expected .* Received: quantity=3",
        ),
        (
            {"p_out": WITHOUT, "quantity": "mutual_information"},
            MissingSamplesError,
            "Expected the single samples. Received: samples=None",
        ),
        (
            {"p_in": predictions.regression()},
            BayesdropError,
            "not defined for task='regression'. Expected .* Received",
        ),
        ({"bins": 0}, BayesdropError, "`bins`. Expected .* Received: bins=0"),
        ({"ax": 1}, BayesdropError, "`ax`. Expected .* Received: ax=1"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.entropy_histogram(
            **{"p_in": INSIDE, "p_out": OUTSIDE, **arguments}
        )
    assert not plt.get_fignums()


def test_names_of_the_histograms():
    ax = plots.entropy_histogram([0.1, 0.2], [0.3], names=["right", "wrong"])
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["right: 2", "wrong: 1"]
    for p_out, names in (([0.3], ["right"]), (None, ["right", "wrong"])):
        with pytest.raises(ValueError, match="`names`"):
            plots.entropy_histogram([0.1, 0.2], p_out, names=names)
