# SPDX-License-Identifier: Apache-2.0
"""`head="auto"`: the right head, the right error, or a warning."""

import warnings

import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from tests.prediction import head_cases
from tests.prediction import head_models
from tests.prediction import unclear_heads
from tests.prediction.small_model import predict

# Samples run one at a time, or all are the same: no news about heads.
_OTHER = "Samples of model|Noise of model|Rows of model"


def predicted(model, **kwargs):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _OTHER)
        x = head_models.inputs_of(model)
        return predict(model, x, 4, engine="reference", **kwargs)


@pytest.mark.parametrize("name", head_cases.HEADS)
def test_head(name):
    build, head = head_cases.HEADS[name]
    model = build()
    with warnings.catch_warnings():
        warnings.simplefilter("error", BayesdropWarning)
        warnings.filterwarnings("ignore", "The noise of")
        assert predicted(model).head == head.resolved()
    report = kbd.explain(model, engine="reference").heads[0]
    assert report.head == repr(head)


@pytest.mark.parametrize("name", unclear_heads.ERRORS)
def test_error(name):
    build, message = unclear_heads.ERRORS[name]
    model = build()
    with pytest.raises(BayesdropError, match=message) as error:
        predicted(model)
    beats = str(error.value)
    assert beats.index("Expected") < beats.index("Received")
    for head in (
        kbd.Regression(),
        kbd.Classification(from_logits=True),
        kbd.Binary(from_logits=True),
    ):
        assert predicted(model, head=head).task == head.task


@pytest.mark.parametrize("name", unclear_heads.WARNINGS)
def test_warning(name):
    model = unclear_heads.WARNINGS[name]()
    with pytest.warns(BayesdropWarning, match="head='classification'"):
        p = predicted(model)
    assert p.task == "regression"
    np.testing.assert_allclose(p.mean.sum(axis=-1), 1.0, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BayesdropWarning)
        for head in ("regression", "classification"):
            assert predicted(model, head=head).task == head
