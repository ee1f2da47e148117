# SPDX-License-Identifier: Apache-2.0
"""Keras' wrappers for scikit-learn: their defects, which ours repair.

`docs/sklearn.md` lists them. If a test fails here, Keras has mended something:
change the page, and see whether the repair can go.
"""

import inspect

import keras
import numpy as np
import pytest
import sklearn
from sklearn.base import clone

from keras_bayesdrop.sklearn import BayesdropClassifier
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import blobs
from tests.sklearn.networks import classes
from tests.sklearn.networks import line
from tests.sklearn.networks import regression

PARAMETERS = ["model", "warm_start", "model_kwargs", "fit_kwargs"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BayesdropRegressor, keras.wrappers.SKLearnRegressor),
        (BayesdropClassifier, keras.wrappers.SKLearnClassifier),
    ],
)
def test_constructor_takes_what_we_pass_on(ours, theirs):
    assert issubclass(ours, theirs)
    signature = inspect.signature(theirs)
    assert list(signature.parameters) == PARAMETERS
    first = list(inspect.signature(ours).parameters.values())[:4]
    for parameter in first:
        default = signature.parameters[parameter.name].default
        assert parameter.default == default


def test_clone_loses_the_arguments_of_fit():
    theirs = keras.wrappers.SKLearnRegressor(regression, fit_kwargs=QUIET)
    assert clone(theirs).fit_kwargs is None


def test_arguments_of_a_fit_stay():
    theirs = keras.wrappers.SKLearnRegressor(regression, fit_kwargs={**QUIET})
    theirs.fit(*line(), epochs=3)
    assert theirs.fit_kwargs["epochs"] == 3


def test_warm_start_is_ignored():
    theirs = keras.wrappers.SKLearnRegressor(
        regression, warm_start=True, fit_kwargs=QUIET
    )
    model = theirs.fit(*line()).model_
    assert theirs.fit(*line()).model_ is not model


def test_requests_for_fit_reach_the_score():
    with sklearn.config_context(enable_metadata_routing=True):
        theirs = keras.wrappers.SKLearnRegressor(regression)
        theirs.set_fit_request(sample_weight=True)
        routing = theirs.get_metadata_routing()
    assert "sample_weight" not in routing.fit.requests
    assert routing.score.requests == {"sample_weight": True}


def test_several_outputs_fail():
    theirs = keras.wrappers.SKLearnRegressor(regression, fit_kwargs=QUIET)
    with pytest.raises(ValueError, match="should be a 1d array"):
        theirs.fit(*line(outputs=2))


@pytest.mark.parametrize("form", ["sparse", "single"])
def test_labels_are_one_hot_for_every_loss(form):
    theirs = keras.wrappers.SKLearnClassifier(
        classes, model_kwargs={"form": form}, fit_kwargs=QUIET
    )
    with pytest.raises(Exception, match=r"(?i)shape"):
        theirs.fit(*blobs([1, 2]))


def test_cloned_model_can_be_compiled_and_has_new_weights():
    X, y = line()
    model = regression(X, y[:, None])
    cloned = keras.models.clone_model(model)
    cloned.compile_from_config(model.get_compile_config())
    assert cloned.loss == model.loss
    assert cloned.optimizer is not model.optimizer
    assert cloned.optimizer.learning_rate == model.optimizer.learning_rate
    assert np.all(cloned.get_weights()[0] != model.get_weights()[0])
