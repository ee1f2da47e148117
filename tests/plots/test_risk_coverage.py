# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from tests.plots import pixels
from tests.plots import predictions

P = predictions.classification(rows=200)
Y = predictions.drawn_labels(P)


def risks(uncertainty, loss):
    """Returns the mean losses of the surest, of which no two are equal."""
    order = np.argsort(uncertainty)
    return np.cumsum(loss[order]) / np.arange(1, len(loss) + 1)


def curves(ax):
    """Returns the data of the lines, by the name in their label."""
    return {
        line.get_label().split(":")[0]: line.get_data() for line in ax.lines
    }


def test_curves_of_a_classification():
    ax = plots.risk_coverage(Y, P)
    drawn = curves(ax)
    assert list(drawn) == ["random", "oracle", "predictive entropy"]
    wrong = (P.mean.argmax(axis=1) != Y).astype(float)
    entropy = -np.sum(P.mean * np.log(P.mean), axis=1)
    coverage, risk = drawn["predictive entropy"]
    np.testing.assert_allclose(coverage, np.arange(1, 201) / 200)
    np.testing.assert_allclose(risk, risks(entropy, wrong))
    np.testing.assert_array_equal(drawn["random"][1], wrong.mean())
    # Right ones first: all that are, and then one error after the other.
    rows = np.arange(1, 201)
    best = np.maximum(rows - (200 - wrong.sum()), 0) / rows
    np.testing.assert_allclose(drawn["oracle"][1], best)
    title, entries = predictions.legend_texts(ax)
    assert title == "area under the curve"
    for entry, area in zip(
        entries, (wrong.mean(), best.mean(), risk.mean()), strict=True
    ):
        assert entry.endswith(f": {area:.3g}")


def test_several_quantities_and_their_looks():
    names = ("predictive_entropy", "mutual_information", "variation_ratio")
    ax = plots.risk_coverage(Y, P, names)
    assert list(curves(ax))[2:] == [name.replace("_", " ") for name in names]
    looks = [(line.get_color(), line.get_linestyle()) for line in ax.lines]
    assert len(set(looks)) == 5
    assert len({look[0] for look in looks[2:]}) == 3
    wrong = (P.mean.argmax(axis=1) != Y).astype(float)
    risk = curves(ax)["mutual information"][1]
    np.testing.assert_allclose(risk, risks(P.mutual_information, wrong))


def test_curves_of_a_regression_and_of_binary():
    p = predictions.regression(outputs=2, tau=4.0)
    y = p.mean + np.random.default_rng(0).normal(size=(40, 2))
    ax = plots.risk_coverage(y, p)
    assert ax.get_ylabel() == "risk: mean squared error"
    loss = np.mean((p.mean - y) ** 2, axis=1)
    _, risk = curves(ax)["total"]
    np.testing.assert_allclose(risk, risks(p.variance.mean(axis=1), loss))
    np.testing.assert_allclose(
        curves(ax)["oracle"][1], risks(loss, loss), rtol=1e-12
    )
    p = predictions.binary(rows=50)
    y = np.arange(50) % 2
    _, risk = curves(plots.risk_coverage(y, p))["predictive entropy"]
    wrong = (p.mean[:, 0] >= 0.5) != (y == 1)
    unsure = -np.abs(p.mean[:, 0] - 0.5)
    np.testing.assert_allclose(risk, risks(unsure, wrong))


def test_plain_arrays():
    ax = plots.risk_coverage([5.0, 1.0, 3.0], [0.3, 0.1, 0.2])
    drawn = curves(ax)
    np.testing.assert_allclose(drawn["uncertainty"][1], [1.0, 2.0, 3.0])
    assert ax.get_ylabel() == "risk: mean loss"


def test_texts_and_limits():
    ax = plots.risk_coverage(Y, P)
    assert ax.get_title() == "Risk if only the surest are answered"
    assert ax.get_xlabel() == "coverage: share of rows answered"
    assert ax.get_ylabel() == "risk: share of errors"
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.get_ylim()[0] == 0.0
    assert pixels.overlapping_texts(ax.figure) == []


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.risk_coverage(Y, P, ax=right) is right
    assert right.lines and not left.lines
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": "p"}, BayesdropError, "`uncertainty`. Expected .* Received"),
        ({"p": [1.0]}, BayesdropError, "`y`. Expected .* Received: y.shape"),
        ({"p": Y * np.nan}, NonFiniteError, "`uncertainty`. Expected .* Rec"),
        ({"p": P[:0], "y": []}, BayesdropError, "at least one row. Received"),
        ({"y": Y[:3]}, BayesdropError, "`y`. Expected .* Received: y.shape"),
        ({"quantity": "loss"}, BayesdropError, "`quantity`. Expected .* Rec"),
        ({"quantity": []}, BayesdropError, "`quantity`. Expected .* Rec"),
        (
            {"p": Y, "quantity": "std"},
            BayesdropError,
            "`quantity`. Expected `None` .* Received: quantity='std'",
        ),
        ({"ax": 1}, BayesdropError, "`ax`. Expected .* Received: ax=1"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.risk_coverage(**{"p": P, "y": Y, **arguments})
    assert not plt.get_fignums()
