# SPDX-License-Identifier: Apache-2.0
"""Parts of a graph that run case by case."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.moments import propagate
from keras_bayesdrop.moments.case_segments import segments_of
from keras_bayesdrop.prediction.closed_form import limits
from tests.moments.passes import moments_of
from tests.moments.passes import pass_of

layers = keras.layers


def _segments(model, full=False):
    surveyed = survey(model)
    chosen = {site.path for site in surveyed.sites}
    return segments_of(surveyed.graph, chosen, full)


def _inputs(*shape, dtype="float32"):
    return np.random.default_rng(3).normal(size=shape).astype(dtype)


def _wide(inputs, hidden, rate, noise=layers.Dropout):
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            noise(rate),
            layers.Dense(hidden, activation="relu"),
            layers.Dropout(0.1),
            layers.Dense(1),
        ]
    )


@pytest.mark.parametrize(
    ("inputs", "hidden", "rate", "order", "nodes"),
    [
        (1, 50, 0.05, 1, 3),
        (6, 50, 0.05, 6, 3),
        (7, 50, 0.05, 2, 3),
        (10, 50, 0.05, 2, 3),
        (11, 50, 0.05, 1, 3),
        (13, 50, 0.95, 1, 3),
        (63, 10, 0.01, 1, 3),
        # Order 2 costs too much, order 1 does not.
        (10, 400, 0.05, 1, 3),
    ],
)
def test_how_far_cases_go(inputs, hidden, rate, order, nodes):
    (segment,) = _segments(_wide(inputs, hidden, rate)).values()
    assert (segment.order, len(segment.nodes)) == (order, nodes)
    # With covariances a segment ends at the next noise.
    (segment,) = _segments(_wide(inputs, hidden, rate), full=True).values()
    assert len(segment.nodes) == 1


@pytest.mark.parametrize(
    "model",
    [
        _wide(64, 10, 0.01),
        _wide(784, 1200, 0.2),
        # Several units are nearly always dropped: the sum is close to normal.
        _wide(13, 50, 0.5),
        _wide(13, 50_000, 0.05),
        _wide(6, 50, 0.1, layers.GaussianDropout),
        keras.Sequential([keras.Input((3, 2)), *_wide(2, 4, 0.1).layers]),
    ],
    ids=["64", "784", "rate", "work", "gaussian", "maps"],
)
@pytest.mark.parametrize("full", [False, True])
def test_where_there_are_none(model, full):
    assert not _segments(model, full)


def test_samples_have_none():
    """Samples are rows as well: their cases would take too much memory."""
    model = _wide(3, 4, 0.1)
    assert pass_of(model, False)._segments
    assert not pass_of(model, False, done={0})._segments


def test_exact_rules_need_none(monkeypatch):
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dropout(0.1), layers.Dense(2)]
    )
    assert _segments(model)
    monkeypatch.setattr(propagate, "split", None)
    moments_of(model, _inputs(2, 3), full=False)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_rows_are_taken_as_memory_allows(covariance, monkeypatch):
    model, x = _wide(7, 20, 0.05), _inputs(9, 7)
    expected = kbd.predict_with_uncertainty(
        model, x, verbose=0, method=kbd.Moments(covariance=covariance)
    )
    # 29 cases of 20 units, four float32 each: memory for two rows.
    monkeypatch.setattr(limits, "_FULL_BYTES", 29 * 20 * 16 * 2)
    run = limits.case_rows(
        survey(model).graph,
        {site.path for site in survey(model).sites},
        covariance == "full",
    )
    assert run == 2
    prediction = kbd.predict_with_uncertainty(
        model, x, verbose=0, method=kbd.Moments(covariance=covariance)
    )
    np.testing.assert_allclose(
        prediction.mean, expected.mean, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(prediction.std, expected.std, rtol=1e-4)
