# SPDX-License-Identifier: Apache-2.0
"""SavedModels whose convolutions are cut."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.engines import cut
from tests.engines.cut_models import MODELS
from tests.engines.cut_models import always_cut
from tests.engines.cut_models import conv
from tests.engines.cut_models import inputs_of
from tests.engines.cut_models import moved
from tests.engines.cut_models import spatial
from tests.serving.exports import export
from tests.serving.exports import named_inputs
from tests.serving.exports import predict

layers = keras.layers


def network():
    inputs = x = keras.Input((8, 8, 3), name="image")
    for width in (64, 64, 64):
        x = spatial(0.5)(conv(width)(x))
    x = layers.GlobalAveragePooling2D()(x)
    return moved(keras.Model(inputs, layers.Dense(3)(x)))


def operations(signature):
    """Returns the types of all operations, those of functions too."""
    graph = signature.graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes.extend(function.node_def)
    return {node.op for node in nodes}


def assert_like_predict(model, signatures, x):
    p = predict(model, x)
    answer = signatures["serving_default"](**named_inputs(model, x))
    for name in ("mean", "std"):
        desired = getattr(p, name)
        np.testing.assert_allclose(
            answer[name], desired, rtol=0, atol=1e-5 * np.abs(desired).max()
        )


@pytest.fixture
def count(monkeypatch):
    """Notes the parts that are traced cut."""
    calls, run_cut = [], cut.run_cut

    def counted(*args):
        calls.append(args)
        return run_cut(*args)

    monkeypatch.setattr(cut, "run_cut", counted)
    return calls


def test_any_number_of_rows(tmp_path, count):
    """Few rows run whole, and many cut, in one program."""
    model = network()
    signatures = export(model, tmp_path / "cut")
    assert count
    # Kept channels are sorted.
    assert "TopKV2" in operations(signatures["serving_default"])
    x = inputs_of(model, 40)
    for rows in (1, 40):
        assert_like_predict(model, signatures, x[:rows])
    empty = signatures["serving_default"](image=tf.zeros([0, 8, 8, 3]))
    assert empty["mean"].shape == (0, 3)


@pytest.mark.parametrize("name", ["residual", "learned"])
def test_any_model(name, tmp_path, monkeypatch, count):
    always_cut(monkeypatch)
    model = moved(MODELS[name]())
    signatures = export(model, tmp_path / "cut", outputs=("mean", "std"))
    assert count
    assert_like_predict(model, signatures, inputs_of(model, 5))


def test_other_seeds(tmp_path, monkeypatch):
    always_cut(monkeypatch)
    model = network()
    with_seed = export(model, tmp_path / "cut")["with_seed"]
    x = inputs_of(model, 5)
    p = predict(model, x, seed=77)
    answer = with_seed(
        **named_inputs(model, x),
        seed=tf.constant(77, tf.int64),
        first_row=tf.constant(0, tf.int64),
    )
    np.testing.assert_allclose(answer["mean"], p.mean, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{"engine": "reference"}, {"masks": "independent"}]
)
def test_whole_where_that_is_wanted(settings, tmp_path, count):
    model = network()
    signatures = export(model, tmp_path / "whole", **settings)
    assert not count
    assert "TopKV2" not in operations(signatures["serving_default"])
