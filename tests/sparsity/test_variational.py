# SPDX-License-Identifier: Apache-2.0
"""Pruning with the variational layers of this package."""

import json

import keras
import numpy as np
import pytest

import keras_bayesdrop
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import sparsity_report
from keras_bayesdrop.sparsity import to_sparse_size
from tests.sparsity.fakes import assert_same

layers = keras.layers
ours = keras_bayesdrop.layers


def _model(conv2d, conv1d, dense, between):
    x = keras.Input((7, 6, 2))
    h = conv2d(6, 3, strides=2, padding="same", activation="relu", name="a")(x)
    h = between("b")(h)
    h = layers.Reshape((12, 6))(h)
    h = conv1d(6, 3, activation="relu", name="c")(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = dense(7, activation="relu", name="d")(h)
    return keras.Model(x, dense(2, use_bias=False, name="e")(h))


def _noisy(cls, **settings):
    return lambda *args, **kwargs: cls(
        *args,
        num_train_examples=100,
        prior="log_uniform",
        **settings,
        **kwargs,
    )


# The warning about the improper prior is expected here.
@pytest.mark.filterwarnings("ignore:The log-uniform prior")
def test_every_parametrization_becomes_plain():
    rng = np.random.default_rng(0)
    plain = _model(
        layers.Conv2D,
        layers.Conv1D,
        layers.Dense,
        lambda name: layers.Identity(name=name),
    )
    model = _model(
        _noisy(ours.VariationalConv2D),
        _noisy(
            ours.VariationalConv1D,
            parametrization="multiplicative",
            alpha="row",
        ),
        _noisy(ours.VariationalDense, parametrization="multiplicative"),
        lambda name: ours.VariationalDropout(
            100, prior="log_uniform", name=name
        ),
    )
    for name in "acde":
        noisy, answer = model.get_layer(name), plain.get_layer(name)
        kernel = rng.normal(size=noisy.kernel.shape)
        noise = rng.uniform(0.0, 6.0, size=noisy.log_noise.shape)
        noise[..., 0] = 7.0 if name != "c" else noise[..., 0]
        noise[..., 1:, 1:] -= 2.0
        noisy.kernel.assign(kernel)
        noisy.log_noise.assign(noise)
        log_alpha = noise - np.log(kernel**2) if name == "a" else noise
        answer.kernel.assign(np.where(log_alpha <= 3.0, kernel, 0.0))
        if noisy.use_bias:
            bias = rng.normal(size=noisy.bias.shape)
            noisy.bias.assign(bias)
            answer.bias.assign(bias)
    before = to_sparse_size(model)
    report = sparsity_report(model)
    assert [each.variational for each in report.layers] == [True] * 4
    for structured in (False, True):
        pruned = prune(model, structured=structured)
        assert_same(pruned, plain)
        assert "keras_bayesdrop" not in json.dumps(pruned.get_config())
        assert "b" not in [layer.name for layer in pruned.layers]
        if not structured:
            assert to_sparse_size(pruned) == before == to_sparse_size(plain)
            assert sparsity_report(pruned).kept == report.kept
    assert pruned.count_params() < plain.count_params()
