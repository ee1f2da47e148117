# SPDX-License-Identifier: Apache-2.0
"""Max pooling after an activation runs before it."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from keras_bayesdrop import moments as rules
from keras_bayesdrop.moments import fusing
from keras_bayesdrop.moments import registry
from keras_bayesdrop.moments.rules.activation import INCREASING
from keras_bayesdrop.moments.rules.activation import Activated

layers = keras.layers


def _moments(shape=(40, 2, 2, 1), seed=0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=shape).astype(np.float32)
    variance = rng.uniform(0.1, 2, size=shape).astype(np.float32)
    return rules.MeanVariance(tf.constant(mean), tf.constant(variance))


def _run(layer, x):
    layer.build(x.mean.shape)
    return registry.rule_of(layer)(layer, [x]).moments


def _largest(x, function):
    """Returns moments of f(max), from its distribution function."""
    grid = np.linspace(-12, 12, 20_001)
    mean = np.reshape(x.mean, (-1, 4, 1))
    stddev = np.sqrt(np.reshape(x.variance, (-1, 4, 1)))
    below = np.prod(scipy.stats.norm.cdf(grid, mean, stddev), axis=1)
    share = np.diff(below, axis=1)
    value = function((grid[1:] + grid[:-1]) / 2)
    first = np.sum(share * value, axis=1)
    second = np.sum(share * (value - first[:, None]) ** 2, axis=1)
    return first, np.sqrt(second)


@pytest.mark.parametrize(
    "pool",
    [
        layers.MaxPooling2D(2),
        layers.MaxPooling2D(2, padding="same", strides=3),
        layers.GlobalMaxPooling2D(),
    ],
    ids=["grid", "windows", "global"],
)
@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (layers.ReLU(), lambda x: np.maximum(x, 0)),
        (layers.Activation("tanh"), np.tanh),
    ],
    ids=["relu", "tanh"],
)
def test_nearer_to_the_truth_than_behind_it(pool, layer, function):
    x = _moments()
    activated = _run(layer, x)
    mean, stddev = _largest(x, function)

    def errors(moments):
        return [
            np.sqrt(np.mean((np.reshape(each, -1) - truth) ** 2))
            for each, truth in (
                (moments.mean, mean),
                (np.sqrt(moments.variance), stddev),
            )
        ]

    before = errors(_run(pool, activated))
    behind = errors(
        _run(pool, rules.MeanVariance(activated.mean, activated.variance))
    )
    # Measured: 0.01 and 0.05 (relu), a quarter of the error after it. The
    # maximum of four is not quite normal.
    assert before[0] < 0.02
    assert before[1] < 0.07
    assert before[0] < 0.4 * behind[0]
    assert before[1] < 0.4 * behind[1]


def test_compiled_is_the_same(monkeypatch):
    pool = layers.MaxPooling2D(2)
    activated = _run(layers.ReLU(), _moments((3, 4, 6, 2)))
    plain = _run(pool, activated)
    monkeypatch.setattr(fusing, "_LARGE", 1)
    large = _run(pool, activated)
    np.testing.assert_allclose(large.mean, plain.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(large.variance, plain.variance, rtol=1e-4)


@pytest.mark.parametrize(
    ("layer", "increasing"),
    [
        (layers.ReLU(), True),
        (layers.ReLU(max_value=1.0, threshold=0.1), True),
        (layers.LeakyReLU(0.1), True),
        (layers.ELU(), True),
        (layers.ELU(-0.5), False),
        (layers.Activation("gelu"), False),
        (layers.Activation("silu"), False),
        (layers.Activation("hard_silu"), False),
        (layers.Activation("mish"), False),
    ],
)
def test_only_what_never_decreases_is_moved(layer, increasing):
    moments = _run(layer, _moments())
    assert isinstance(moments, Activated) == increasing


@pytest.mark.parametrize(
    "function", sorted(INCREASING, key=lambda f: f.__name__)
)
def test_increasing_activations_are(function):
    values = np.asarray(function(tf.linspace(-8.0, 8.0, 4001)))
    assert np.all(np.diff(values) >= -1e-6)


def test_what_others_take_is_behind_the_activation():
    """A skip past the pooling sees the activation's own moments."""
    x = _moments((4, 4, 4, 2))
    activated = _run(layers.ReLU(), x)
    _run(layers.MaxPooling2D(2), activated)
    mean, stddev = np.asarray(x.mean), np.sqrt(x.variance)
    a = mean / stddev
    normal = scipy.stats.norm
    expected = mean * normal.cdf(a) + stddev * normal.pdf(a)
    np.testing.assert_allclose(activated.mean, expected, atol=1e-6)
