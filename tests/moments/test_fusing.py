# SPDX-License-Identifier: Apache-2.0
"""Rules of feature maps give the same result, compiled or not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop import moments as rules
from keras_bayesdrop.moments import fusing
from keras_bayesdrop.moments import registry

layers = keras.layers


def _moments(zero=False):
    rng = np.random.default_rng(4)
    mean = rng.normal(size=(3, 4, 6, 2)).astype(np.float32)
    # Some deviations are so large that tanh is close to a step.
    variance = rng.uniform(0.1, 8, size=mean.shape).astype(np.float32)
    return rules.MeanVariance(
        tf.constant(mean), tf.constant(0 * variance if zero else variance)
    )


LAYERS = pytest.mark.parametrize(
    "layer",
    [
        layers.ReLU(),
        layers.Activation("tanh"),
        layers.MaxPooling2D(2),
        layers.MaxPooling2D((2, 3)),
    ],
    ids=["relu", "tanh", "pool", "oblong"],
)


@LAYERS
def test_compiled_is_the_same(layer, monkeypatch):
    x, rule = _moments(), registry.rule_of(layer)
    layer.build(x.mean.shape)
    plain = rule(layer, [x]).moments
    calls = []
    function = tf.function

    def count(*args, **kwargs):
        calls.append(kwargs.get("jit_compile"))
        return function(*args, **kwargs)

    monkeypatch.setattr(fusing, "_LARGE", 1)
    monkeypatch.setattr(tf, "function", count)
    large = rule(layer, [x]).moments
    assert calls == [True]
    np.testing.assert_allclose(large.mean, plain.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(large.variance, plain.variance, rtol=1e-4)


@LAYERS
def test_what_has_no_spread_is_the_layer(layer):
    x = _moments(zero=True)
    moments = registry.rule_of(layer)(layer, [x]).moments
    np.testing.assert_allclose(moments.mean, layer(x.mean), atol=1e-6)
    np.testing.assert_allclose(moments.variance, 0.0, atol=1e-12)
