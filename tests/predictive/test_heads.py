# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import keras_bayesdrop
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Binary
from keras_bayesdrop.predictive import Classification
from keras_bayesdrop.predictive import Head
from keras_bayesdrop.predictive import Heteroscedastic
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import heads

EVERY = [
    Regression(),
    Regression(noise_precision=4),
    Regression(noise_precision=[4, 0.5]),
    Heteroscedastic(),
    Heteroscedastic(mean="price", log_variance="noise"),
    Heteroscedastic(mean=1, log_variance=0, log_variance_limit=7),
    Classification(),
    Classification(from_logits=True),
    Binary(),
    Binary(from_logits=False),
]


@pytest.mark.parametrize("head", EVERY, ids=str)
def test_round_trips(head):
    assert type(head).from_config(head.get_config()) == head
    plain = json.loads(json.dumps(heads.serialize(head)))
    assert heads.get(plain) == head
    assert heads.get(head) is head
    assert pickle.loads(pickle.dumps(head)) == head
    assert eval(repr(head)) == head
    assert hash(dataclasses.replace(head)) == hash(head)
    assert isinstance(head, Head)


def test_names():
    assert heads.get("regression") == Regression()
    assert heads.get("classification") == Classification()
    assert heads.get("binary") == Binary()
    assert heads.get("heteroscedastic") == Heteroscedastic()
    assert heads.get(None) is None
    for name in heads.HEADS:
        assert heads.get(name).task == name
    assert heads.serialize(Regression(4.0)) == {
        "class_name": "Regression",
        "config": {"noise_precision": 4.0},
    }


def test_heads_are_frozen_and_differ_by_their_fields():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Regression().noise_precision = 1.0
    assert Regression(1.0) != Regression(2.0)
    assert Classification() != Binary()
    assert len(set(EVERY)) == len(EVERY)


def test_precision_is_a_plain_float():
    head = Regression(np.float32(0.5))
    assert type(head.noise_precision) is float
    assert head == Regression(0.5)


def test_kinds_of_observations():
    kinds = {name: head.observation for name, head in heads.HEADS.items()}
    assert kinds == {
        "regression": "number",
        "heteroscedastic": "number",
        "classification": "class",
        "noisy_logits": "class",
        "binary": "label",
    }


@pytest.mark.parametrize(
    "several", [(4, 0.5), [4.0, 0.5], np.array([4, 0.5], "float32")], ids=str
)
def test_several_precisions_are_a_tuple(several):
    head = Regression(noise_precision=several)
    assert head.noise_precision == (4.0, 0.5)
    assert all(type(tau) is float for tau in head.noise_precision)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean": "a"}, "Mean and log variance.*log_variance=None"),
        ({"log_variance": 1}, "Mean and log variance.*mean=None"),
        ({"mean": 0, "log_variance": 0}, "names of two outputs"),
        ({"mean": True, "log_variance": 0}, "`mean`.*Received: mean=True"),
        ({"mean": 1, "log_variance": 2.0}, "`log_variance`.*name of an"),
        ({"log_variance_limit": 0}, "`log_variance_limit`.*positive"),
        ({"log_variance_limit": 81}, r"`log_variance_limit`.*\(0, 80"),
    ],
    ids=str,
)
def test_bad_heteroscedastic_heads(fields, message):
    with pytest.raises(BayesdropError, match=f"{message}"):
        Heteroscedastic(**fields)


@pytest.mark.parametrize(
    "tau",
    [0, -1.0, math.nan, math.inf, "1", True, [], [1.0, 0], [[1.0]], {1.0}],
)
def test_bad_precision(tau):
    with pytest.raises(
        BayesdropError, match=r"`noise_precision`.*positive.*Received: "
    ):
        Regression(noise_precision=tau)


@pytest.mark.parametrize("kind", [Classification, Binary])
@pytest.mark.parametrize("value", [0, "yes", np.bool_(True)])
def test_bad_from_logits(kind, value):
    with pytest.raises(BayesdropError, match=r"`from_logits`.*Received: "):
        kind(from_logits=value)


@pytest.mark.parametrize(
    "identifier",
    ["ranking", "auto", 3, Regression, ["regression"], Head()],
    ids=str,
)
def test_unknown_heads(identifier):
    with pytest.raises(
        BayesdropError,
        match=r"`head`.*Expected one of 'regression'.*Binary.*Received: head=",
    ):
        heads.get(identifier)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"class_name": "Ranking", "config": {}},
        {"class_name": "Binary"},
        {"class_name": ["Binary"], "config": {}},
        {"class_name": "Binary", "config": {}, "more": 1},
    ],
    ids=str,
)
def test_bad_dicts(values):
    with pytest.raises(BayesdropError, match=r"`head`.*'binary'.*Received"):
        heads.get(values)


@pytest.mark.parametrize("config", [{"rate": 1}, None, [1]], ids=str)
def test_bad_configs(config):
    with pytest.raises(BayesdropError, match=r"`config`.*noise_precision"):
        Regression.from_config(config)


def test_heads_are_public():
    assert keras_bayesdrop.Regression is Regression
    assert keras_bayesdrop.Classification is Classification
    assert keras_bayesdrop.Binary is Binary
    assert keras_bayesdrop.Heteroscedastic is Heteroscedastic
