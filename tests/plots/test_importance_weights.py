# SPDX-License-Identifier: Apache-2.0
import itertools

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import patches

import keras_bayesdrop as kbd
from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from tests.plots import pixels

# Two examples of four samples, with a tie.
LOGS = np.log([[0.1, 0.2, 0.3, 0.4], [0.7, 0.7, 0.5, 0.1]])
# In proportion to the likelihood.
BY_LIKELIHOOD = [0.1, 0.2, 0.3, 0.4, 0.35, 0.35, 0.25, 0.05]
# One over the rank (a tie counts for both), which sum to 25 / 12 and 19 / 12.
BY_RANK = [
    *np.array([1 / 4, 1 / 3, 1 / 2, 1.0]) * 12 / 25,
    *np.array([1 / 2, 1 / 2, 1 / 3, 1 / 4]) * 12 / 19,
]


def histograms(ax):
    """Returns heights and edges of every histogram, by label."""
    return {
        patch.get_label(): patch.get_data()[:2]
        for patch in ax.patches
        if isinstance(patch, patches.StepPatch)
    }


def test_histograms_are_those_of_the_equations():
    ax = plots.importance_weights(LOGS, bins=13)
    drawn = histograms(ax)
    assert list(drawn) == ["importance weighted", "tail-adaptive"]
    for label, weights in (
        ("importance weighted", BY_LIKELIHOOD),
        ("tail-adaptive", BY_RANK),
    ):
        heights, edges = drawn[label]
        np.testing.assert_allclose(
            edges, np.linspace(0, 0.48, 14), rtol=0, atol=1e-12
        )
        # None of the weights is at an edge, but the largest at the last.
        counts = [
            sum(low <= w < high + (high == edges[-1]) for w in weights)
            for low, high in itertools.pairwise(edges)
        ]
        np.testing.assert_allclose(heights, np.array(counts) / 8, rtol=1e-12)
        np.testing.assert_allclose(sum(heights), 1.0, rtol=1e-12)


def test_line_of_the_lower_bound_texts_and_limits():
    ax = plots.importance_weights(LOGS)
    (line,) = ax.lines
    assert list(line.get_xdata()) == [0.25, 0.25]
    assert line.get_label() == "lower bound: 1 / 4"
    np.testing.assert_allclose(ax.get_xlim(), (0.0, 0.48))
    assert ax.get_ylim()[0] == 0.0
    assert ax.get_title() == "Weights of 4 samples in the gradient"
    assert ax.get_xlabel() == "weight of a sample"
    assert ax.get_ylabel() == "share of all samples"
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [line.get_label(), *histograms(ax)]
    colours = {patch.get_edgecolor() for patch in ax.patches}
    assert len(colours) == 2
    assert pixels.overlapping_texts(ax.figure) == []


def test_several_at_once():
    weak = np.random.default_rng(0).normal(0.0, 0.01, (500, 10))
    ax = plots.importance_weights({"weak": weak, "strong": 300 * weak})
    drawn = histograms(ax)
    assert list(drawn) == [
        "importance weighted, weak",
        "importance weighted, strong",
        "tail-adaptive",
    ]
    assert len({patch.get_edgecolor() for patch in ax.patches}) == 3
    # Weak noise: all weights are 0.1, up to 4 of 0.001.
    heights, edges = drawn["importance weighted, weak"]
    middle = (edges[:-1] > 0.06) & (edges[1:] < 0.14)
    assert sum(heights[middle]) > 0.999
    # Strong noise: one of ten takes nearly all.
    heights, edges = drawn["importance weighted, strong"]
    assert sum(heights[edges[:-1] > 0.5]) > 0.05
    # By rank, without ties, a tenth has each of ten weights, whatever the
    # likelihoods are: 1 / rank over the sum of 1 / rank.
    total = sum(1 / rank for rank in range(1, 11))
    heights, edges = drawn["tail-adaptive"]
    expected, _ = np.histogram([1 / r / total for r in range(1, 11)], edges)
    np.testing.assert_allclose(heights, expected / 10, rtol=1e-12)


def test_more_axes_and_huge_differences():
    logs = np.stack([LOGS, LOGS - 1e4])
    heights = histograms(plots.importance_weights(logs, bins=7))
    expected = histograms(plots.importance_weights(LOGS, bins=7))
    for label in expected:
        # 1e4 leaves 12 digits of a logarithm.
        np.testing.assert_allclose(heights[label][0], expected[label][0])


def test_the_example_of_the_documentation():
    x = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    y = x[:, :1]
    model = keras.Sequential(
        [keras.Input((3,)), kbd.MCDropout(0.5), keras.layers.Dense(1)]
    )
    p = kbd.predict_with_uncertainty(
        model,
        x,
        num_samples=10,
        return_samples=True,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    loss = kbd.losses.GaussianNLL(noise_precision=4.0)
    logs = np.stack([loss.log_prob(y, draw) for draw in p.samples], axis=-1)
    assert logs.shape == (20, 10)
    ax = plots.importance_weights(logs)
    assert ax.get_title() == "Weights of 10 samples in the gradient"


@pytest.mark.parametrize(
    ("logs", "error", "message"),
    [
        (np.float32(1.0), BayesdropError, "two samples or more"),
        (np.zeros((5, 1)), BayesdropError, r"Received: .* shape \(5, 1\)"),
        (np.zeros((0, 4)), BayesdropError, "no samples to weigh"),
        ([["a", "b"]], BayesdropError, "`log_likelihood`. Expected"),
        ([[0.0, np.nan]], NonFiniteError, "Received: 1 of 2 that are NaN"),
        ({}, BayesdropError, "at least one array.* Received"),
        (
            {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))},
            BayesdropError,
            r"same size .* Received: sizes \[3, 4\]",
        ),
    ],
)
def test_wrong_arrays(logs, error, message):
    with pytest.raises(error, match=message):
        plots.importance_weights(logs)
    assert not plt.get_fignums()


def test_wrong_bins_and_axes():
    for name, value in (("bins", 0), ("bins", 2.5), ("ax", plt)):
        with pytest.raises(BayesdropError, match=f"argument `{name}`"):
            plots.importance_weights(LOGS, **{name: value})
