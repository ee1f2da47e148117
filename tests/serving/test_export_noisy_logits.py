# SPDX-License-Identifier: Apache-2.0
"""Exports of models with noisy logits."""

import json

import keras
import numpy as np
import pytest

from tests.prediction.noisy_logits import HEAD
from tests.prediction.noisy_logits import TWO
from tests.prediction.noisy_logits import X
from tests.prediction.noisy_logits import network
from tests.prediction.noisy_logits import split
from tests.serving.exports import assert_refused
from tests.serving.exports import export
from tests.serving.exports import named_inputs
from tests.serving.exports import predict

NAMES = (
    "mean",
    "variance",
    "std",
    "mc_error",
    "predictive_entropy",
    "expected_entropy",
    "mutual_information",
    "variation_ratio",
)


def assert_served(answers, p):
    for name in NAMES:
        # As in `test_export`: the order of sums, and one more rounding.
        np.testing.assert_allclose(
            answers[name], getattr(p, name), rtol=2e-5, atol=2e-6, err_msg=name
        )


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("head", [HEAD, TWO])
def test_same_as_in_python(tmp_path, masks, head):
    model = split(network()) if head.takes_two else network()
    choices = {"head": head, "masks": masks}
    serve = export(model, tmp_path / "served", outputs=NAMES, **choices)
    answers = serve["serving_default"](**named_inputs(model, X))
    assert_served(answers, predict(model, X, **choices))


def test_tasks_are_those_of_the_results(tmp_path):
    export(network(), tmp_path / "served", head=HEAD)
    (page,) = (tmp_path / "served").glob("**/*.json")
    assert json.loads(page.read_text("utf-8"))["tasks"] == ["classification"]


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.0, 0.4)])
def test_ensemble(tmp_path, rates):
    models = [network(rate=rate) for rate in rates]
    models[1].set_weights([0.5 * w for w in models[1].get_weights()])
    serve = export(models, tmp_path / "served", outputs=NAMES, head=HEAD)
    answers = serve["serving_default"](**named_inputs(models[0], X))
    p = predict(models, X, head=HEAD)
    np.testing.assert_allclose(answers["mean"], p.mean, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(
        answers["mutual_information"], p.mutual_information, atol=1e-5
    )


def test_odd_outputs_are_refused(tmp_path):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(5)]
    )
    assert_refused(model, tmp_path / "served", "logits", head=HEAD)
    assert not (tmp_path / "served").exists()
