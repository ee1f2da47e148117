# SPDX-License-Identifier: Apache-2.0
"""Arguments and models that cannot be exported."""

import os

import keras
import pytest
import tensorflow as tf

from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import PlanError
from tests import zoo
from tests.serving.exports import assert_refused
from tests.serving.exports import classifier

layers = keras.layers


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("outputs", ("mean", "kurtosis")),
        ("outputs", "mean"),
        ("outputs", ()),
        ("outputs", None),
        ("num_samples", 1),
        ("num_samples", 2.5),
        ("masks", "both"),
        ("seed", None),
        ("seed", 0.5),
        ("head", "ranking"),
        ("quantiles", (1.5,)),
        ("noise_precision", -1.0),
        ("batch_size", 0),
        ("layers", "nothing"),
        ("path", 3),
        ("input_signature", ["no shape"]),
    ],
)
def test_bad_arguments(argument, value, tmp_path):
    arguments = {"path": tmp_path / "m", argument: value}
    assert_refused(classifier(), arguments.pop("path"), argument, **arguments)
    assert os.listdir(tmp_path) == []


def test_models_that_cannot_be_exported(tmp_path):
    path = tmp_path / "m"
    plain = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    assert_refused(plain, path, "nothing to sample", kind=NothingToSampleError)
    assert_refused("model", path, "`model`")
    own, _ = zoo.ZOO["subclassed"].build()
    assert_refused(own, path, "input_signature", "Subclassed")
    stateful = keras.Sequential(
        [
            keras.Input((3, 2), batch_size=5),
            layers.LSTM(2, stateful=True, dropout=0.5),
        ]
    )
    assert_refused(stateful, path, "stateful", kind=PlanError)
    assert_refused(classifier(None), path, "entropy", outputs=("entropy",))
    reserved = keras.Input((4,), name="seed")
    taken = keras.Model(reserved, layers.Dropout(0.5)(reserved))
    assert_refused(taken, path, "['seed']")
    assert os.listdir(tmp_path) == []


def test_model_that_calls_python_is_refused(tmp_path):
    class Looks(layers.Layer):
        def call(self, x):
            return tf.ensure_shape(
                tf.numpy_function(lambda t: t, [x], tf.float32), x.shape
            )

    model = keras.Sequential(
        [keras.Input((4,)), layers.Dropout(0.5), Looks(), layers.Dense(1)]
    )
    assert_refused(model, tmp_path / "m", "Python code", "PyFunc")


def test_two_inputs_of_one_name_are_refused(tmp_path):
    specs = [tf.TensorSpec([None, 4], name="a")] * 2
    assert_refused(
        classifier(), tmp_path / "m", "same name", input_signature=specs
    )
