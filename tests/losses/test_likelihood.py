# SPDX-License-Identifier: Apache-2.0
"""Likelihoods: what a nat weighs, their checks, configs and old spellings."""

import dataclasses
import functools

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.losses import Likelihood
from keras_bayesdrop.losses import LikelihoodInNats
from keras_bayesdrop.losses.likelihood import get_likelihood

LIKELIHOODS = [
    LikelihoodInNats(),
    LikelihoodInNats(3),
    GaussianLikelihood(4.0),
    GaussianLikelihood(4.0, 3),
    GaussianLikelihood(4.0, 3, "half_mse"),
]


@pytest.mark.parametrize(
    ("likelihood", "expected"),
    list(
        zip(
            LIKELIHOODS,
            [1 / 50, 1 / 150, 0.5 / 50, 0.5 / 150, 0.25 / 150],
            strict=True,
        )
    ),
)
def test_loss_per_nat(likelihood, expected):
    assert likelihood.loss_per_nat(50) == expected


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_config(likelihood):
    again = type(likelihood).from_config(likelihood.get_config())
    assert again == likelihood
    assert hash(again) == hash(likelihood)
    config = keras.saving.serialize_keras_object(likelihood)
    name = type(likelihood).__name__
    assert config["registered_name"] == f"keras_bayesdrop>{name}"
    assert get_likelihood(config) == likelihood
    assert get_likelihood(likelihood) is likelihood


def test_name():
    assert get_likelihood("nll") == LikelihoodInNats(1)


def test_frozen_and_plain():
    likelihood = GaussianLikelihood(np.float32(2.0), np.int64(3))
    assert type(likelihood.noise_precision) is float
    assert type(likelihood.num_outputs) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        likelihood.num_outputs = 2


def test_base_is_abstract():
    with pytest.raises(TypeError):
        Likelihood()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noise_precision", 0.0),
        ("noise_precision", -1.0),
        ("noise_precision", float("nan")),
        ("noise_precision", None),
        ("num_outputs", 0),
        ("num_outputs", 1.5),
        ("loss", "nll"),
        ("loss", "mae"),
    ],
)
def test_wrong_arguments(name, value):
    with pytest.raises(
        BayesdropError, match=f"`{name}`. Expected .*Received: {name}="
    ):
        GaussianLikelihood(**{"noise_precision": 1.0, name: value})
    if name == "num_outputs":
        with pytest.raises(BayesdropError, match=f"`{name}`. Expected"):
            LikelihoodInNats(value)


@pytest.mark.parametrize(
    "identifier",
    [
        "mse",
        "half_mse",
        None,
        4.0,
        GaussianLikelihood,
        {},
        np.ones(2),
        keras.saving.serialize_keras_object(keras.regularizers.L2()),
    ],
)
def test_anything_else(identifier):
    with pytest.raises(
        BayesdropError,
        match=r"`likelihood`. Expected 'nll', .*GaussianLikelihood\(noise_pr.*"
        "Received: likelihood=",
    ):
        get_likelihood(identifier)


@pytest.mark.parametrize("name", ["loss", "noise_precision", "num_outputs"])
@pytest.mark.parametrize(
    "make",
    [
        functools.partial(kbd.regularizers.DropoutL2, 0.1, 1.0, 50),
        functools.partial(kbd.regularizers.ARD, "half_cauchy", 50),
        functools.partial(kbd.layers.VariationalDropout, 50),
        functools.partial(kbd.layers.VariationalDense, 3, 50),
        functools.partial(kbd.layers.BayesianDense, 3, 50),
    ],
)
def test_old_keywords(make, name):
    with pytest.raises(
        BayesdropError,
        match=f"`{name}` is gone. Expected likelihood=.*Received: {name}=3",
    ):
        make(**{name: 3})


def test_other_keywords():
    with pytest.raises(TypeError, match="unexpected keyword argument 'name'"):
        kbd.regularizers.ARD("half_cauchy", 50, name="layer")
