# SPDX-License-Identifier: Apache-2.0
"""Models and views that cannot be sampled: an error in three beats."""

import keras
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop import errors
from tests import zoo
from tests.prediction.refusals import X
from tests.prediction.refusals import counting_model
from tests.prediction.refusals import refuse
from tests.zoo.subclassed import Subclassed

layers = keras.layers


@pytest.fixture
def model():
    return counting_model()


LOOKS = {
    "predict": lambda m: kbd.predict_with_uncertainty(m, X, 4, verbose=0),
    "stochastic": kbd.stochastic,
    "deterministic": kbd.deterministic,
    "sample_function": lambda m: kbd.sample_function(m, 0),
    "inspect": lambda m: kbd.inspect(m),
    "explain": lambda m: kbd.explain(m),
}
EACH_LOOK = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)


@EACH_LOOK
@pytest.mark.parametrize(
    "thing", [None, "model", 3, layers.Dropout(0.5), keras.Model, len]
)
def test_not_a_model(look, thing):
    refuse(errors.BayesdropError, lambda: look(thing), "keras.Model")


@EACH_LOOK
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.Sequential([layers.Dense(2), layers.Dropout(0.5)]),
        Subclassed,
        keras.Sequential,
    ],
)
def test_unbuilt_model(look, make):
    refuse(errors.UnbuiltModelError, lambda: look(make()), "built")


@EACH_LOOK
def test_other_backend(look, model, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    refuse(errors.BackendError, lambda: look(model), "tensorflow", "jax")


def test_no_noise():
    plain = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(2, name="apple"),
            layers.BatchNormalization(name="pear"),
        ]
    )
    refuse(
        errors.NothingToSampleError,
        lambda: LOOKS["predict"](plain),
        "nothing to sample",
        "apple",
        "pear",
        "BatchNormalization",
    )


def test_no_noise_that_is_on():
    plain = keras.Sequential([keras.Input((4,)), layers.Dropout(0.0)])
    refuse(
        errors.NothingToSampleError,
        lambda: LOOKS["predict"](plain),
        "nothing to sample",
    )


def test_chosen_noise_is_off():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.0, name="off"),
            layers.Dropout(0.5, name="on"),
        ]
    )
    refuse(
        errors.NothingToSampleError,
        lambda: kbd.predict_with_uncertainty(model, X, layers="off", verbose=0),
        "nothing to sample",
    )


@pytest.mark.parametrize(
    "view", [kbd.deterministic, lambda m: kbd.sample_function(m, 0)]
)
def test_views_without_noise(model, view):
    refuse(
        errors.NothingToSampleError,
        lambda: LOOKS["predict"](view(model)),
        "nothing to sample",
    )


@pytest.mark.parametrize(
    "look",
    [
        lambda m: kbd.sample_function(m, "abc"),
        lambda m: kbd.sample_function(m, 0, -1),
        lambda m: kbd.sample_function(m, 0, 1.5),
        lambda m: kbd.sample_function(m, None),
        lambda m: kbd.stochastic(m, masks="both"),
        lambda m: kbd.stochastic(m, seed="abc"),
        lambda m: kbd.stochastic(m, layers="nothing"),
        lambda m: kbd.explain(m, engine="fast"),
    ],
)
def test_arguments_of_views(model, look):
    refuse(errors.BayesdropError, lambda: look(model))
    assert model.layers[0].calls == 0


@pytest.mark.parametrize(
    "view",
    [kbd.stochastic, kbd.deterministic, lambda m: kbd.sample_function(m, 0)],
)
def test_views_of_wrong_shapes(model, view):
    with pytest.raises(ValueError, match="4"):
        view(model)(zoo.numbers(3))
    with pytest.raises(ValueError, match="4"):
        view(model).predict(zoo.numbers(3), verbose=0)
