# SPDX-License-Identifier: Apache-2.0
"""Reports on the sparsity of models."""

import math

import keras
import numpy as np
import pytest

from keras_bayesdrop.sparsity import LayerSparsity
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import sparsity_report
from tests.sparsity import architectures
from tests.sparsity.fakes import NoisyDense
from tests.sparsity.fakes import NoisyWrapper
from tests.sparsity.fakes import model_and_answer

layers = keras.layers


def _model():
    inner = keras.Sequential(
        [keras.Input((3,)), NoisyDense(4, name="noisy")], name="inner"
    )
    model = keras.Sequential(
        [
            keras.Input((3,)),
            inner,
            layers.Dense(2, name="plain"),
            layers.Dense(2, name="empty"),
        ],
        name="net",
    )
    log_alpha = np.full((3, 4), -1.0)
    log_alpha[0] = [2.0, 3.0, 3.001, 9.0]
    inner.layers[0].log_alphas.assign(log_alpha)
    plain, empty = model.layers[1:]
    kernel = np.ones((4, 2))
    kernel[0, 0] = 0
    plain.kernel.assign(kernel)
    empty.kernel.assign(np.zeros((2, 2)))
    return model


def test_counts():
    report = sparsity_report(_model())
    assert report.layers == (
        LayerSparsity("inner/noisy", "NoisyDense", True, 12, 10),
        LayerSparsity("plain", "Dense", False, 8, 7),
        LayerSparsity("empty", "Dense", False, 4, 0),
    )
    assert report.model == "net"
    assert report.threshold == 3.0
    assert (report.weights, report.kept) == (24, 17)
    assert report.removed_fraction == pytest.approx(7 / 24)
    assert report.compression_ratio == pytest.approx(24 / 17)
    assert report.layers[0].removed_fraction == pytest.approx(1 / 6)
    assert report.layers[0].compression_ratio == pytest.approx(1.2)
    assert math.isinf(report.layers[2].compression_ratio)
    assert sparsity_report(_model(), 2).layers[0].kept == 9


def test_table():
    report = sparsity_report(_model())
    assert repr(report) == str(report)
    lines = str(report).splitlines()
    assert lines[0] == "Model `net`, log alpha up to 3 kept"
    rows = [line.split() for line in lines[2:]]
    assert rows[0] == ["layer", "class", "weights", "kept", "removed", "ratio"]
    assert rows[2:] == [
        ["inner/noisy", "NoisyDense", "12", "10", "16.7", "%", "1.2"],
        ["plain", "Dense", "8", "7", "12.5", "%", "1.1"],
        ["empty", "Dense", "4", "0", "100.0", "%", "inf"],
        ["total", "24", "17", "29.2", "%", "1.4"],
    ]


def test_report_of_a_pruned_model_is_that_of_its_source():
    model, _ = model_and_answer(architectures.images)
    before, after = sparsity_report(model), sparsity_report(prune(model))
    assert [(a.path, a.weights, a.kept) for a in before.layers] == [
        (b.path, b.weights, b.kept) for b in after.layers
    ]
    assert not any(each.variational for each in after.layers)


def test_shared_and_wrapped_layers_count_once():
    model, _ = model_and_answer(architectures.nested_twice)
    paths = [each.path for each in sparsity_report(model).layers]
    assert paths == ["row/u", "row/v", "w", "out"]
    model, _ = model_and_answer(architectures.wrapped)
    paths = [each.path for each in sparsity_report(model).layers]
    assert paths == ["w/plain", "each/inside", "d", "answer/last"]


def test_models_of_any_kind():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.around = NoisyWrapper(NoisyDense(2, name="noisy"), name="w")

        def call(self, inputs):
            return self.around(inputs)

    model = Own()
    model(np.ones((1, 3)))
    assert [each.path for each in sparsity_report(model).layers] == ["w/noisy"]


def test_nothing_to_remove():
    model = keras.Sequential([keras.Input((2,)), layers.Dense(2)])
    assert str(sparsity_report(model)).endswith("Nothing to remove.")
    model = keras.Sequential([keras.Input((2,)), layers.ReLU()])
    report = sparsity_report(model)
    assert str(report).endswith("No layer with a kernel.")
    assert (report.compression_ratio, report.removed_fraction) == (1.0, 0.0)
