# SPDX-License-Identifier: Apache-2.0
"""Predictions by moments: the call, its result, its errors."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import moments as rules
from keras_bayesdrop.moments import registry
from tests.helpers import flat

layers = keras.layers


def _moments(model, x, **kwargs):
    return kbd.predict_with_uncertainty(
        model, x, verbose=0, **flat(method="moments", **kwargs)
    )


def _dense(activation="relu", last=None, units=2):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((30,)),
            layers.Dropout(0.1),
            layers.Dense(64, activation=activation),
            layers.Dropout(0.2),
            layers.Dense(units, activation=last),
        ]
    )


def _inputs(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def test_result_has_no_samples_and_no_monte_carlo_error():
    prediction = _moments(_dense(), _inputs(5, 30), noise_precision=4.0)
    assert prediction.samples is None
    assert prediction.stats.method == "moments"
    assert prediction.stats.num_samples == 0
    np.testing.assert_array_equal(prediction.mc_error, np.zeros((5, 2)))
    np.testing.assert_allclose(
        prediction.total, prediction.variance + 0.25, rtol=1e-6
    )
    lower, upper = prediction.interval(0.9)
    normal = scipy.stats.norm(prediction.mean, np.sqrt(prediction.total))
    np.testing.assert_allclose(lower, normal.ppf(0.05), rtol=1e-5)
    np.testing.assert_allclose(upper, normal.ppf(0.95), rtol=1e-5)
    y = _inputs(5, 2)
    np.testing.assert_allclose(
        prediction.log_likelihood(y), normal.logpdf(y).sum(axis=1), rtol=1e-5
    )
    spread = scipy.stats.norm(prediction.mean, prediction.std)
    np.testing.assert_allclose(
        prediction.quantile([0.1, 0.5]),
        spread.ppf(np.array([[[0.1]], [[0.5]]])),
        rtol=1e-5,
    )


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_results_do_not_depend_on_batches(covariance):
    model, x = _dense(), _inputs(7, 30)
    whole = _moments(model, x, covariance=covariance)
    parts = _moments(model, x, covariance=covariance, batch_size=2)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts.std, whole.std, rtol=1e-4)


@pytest.mark.parametrize("last", ["softmax", "sigmoid"])
def test_probabilities(last):
    """Compares with sampling, which is more exact."""
    model, x = _dense(last=last, units=3), _inputs(5, 30)
    prediction = _moments(model, x, covariance="full")
    sampled = kbd.predict_with_uncertainty(
        model,
        x,
        4000,
        seed=1,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    assert prediction.task == sampled.task
    # 4,000 samples have a standard error of std / 63. Besides, sums of 30
    # inputs and 64 units are not quite normal.
    np.testing.assert_allclose(prediction.mean, sampled.mean, atol=0.01)
    np.testing.assert_allclose(
        prediction.std, sampled.std, rtol=0.12, atol=0.003
    )
    np.testing.assert_allclose(
        prediction.mutual_information, sampled.mutual_information, atol=0.02
    )
    np.testing.assert_allclose(
        prediction.aleatoric, sampled.aleatoric, atol=0.02
    )


def test_logits_are_resolved():
    probabilities = _dense(last="softmax", units=3)
    logits = _dense(units=3)
    logits.set_weights(probabilities.get_weights())
    x = _inputs(5, 30)
    prediction = _moments(logits, x, head="classification", from_logits=True)
    expected = _moments(probabilities, x)
    np.testing.assert_allclose(prediction.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(prediction.std, expected.std, atol=1e-6)


def _convolutional():
    keras.utils.set_random_seed(4)
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.SpatialDropout2D(0.1),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Dropout(0.1),
            layers.DepthwiseConv2D(3, activation="tanh"),
            layers.MaxPooling2D(2),
            layers.Conv2D(8, 3),
            layers.BatchNormalization(),
            layers.LeakyReLU(negative_slope=0.1),
            layers.AveragePooling2D(2, strides=1, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.2),
            layers.Dense(2),
        ]
    )


def test_convolutional_network_is_near_sampling():
    model, x = _convolutional(), _inputs(4, 12, 12, 3)
    prediction = _moments(model, x)
    sampled = kbd.predict_with_uncertainty(
        model,
        x,
        3000,
        seed=1,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    np.testing.assert_allclose(
        prediction.mean, sampled.mean, atol=0.2 * sampled.std.max()
    )
    np.testing.assert_allclose(prediction.std, sampled.std, rtol=0.25)


def _no_noise_reaches(layer, shape):
    """Applies rule and layer to a certain value."""
    rule = registry.rule_of(layer)
    x = tf.constant(_inputs(3, *shape))
    expected = layer(x)
    outcome = rule(layer, [rules.MeanVariance(x)])
    while outcome.then is not None:
        outcome = outcome.then(outcome.moments)
    return outcome.moments, expected


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.Dense(4, activation="gelu"), (5,)),
        (layers.Conv1D(4, 3, padding="causal", activation="elu"), (9, 3)),
        (layers.Conv2D(4, 3, strides=2, padding="same"), (7, 8, 3)),
        (layers.Conv2D(4, 2, groups=2, dilation_rate=2), (7, 8, 4)),
        (layers.Conv3D(2, 2), (4, 4, 4, 2)),
        (layers.DepthwiseConv1D(3, padding="same"), (9, 3)),
        (layers.DepthwiseConv2D(3, depth_multiplier=2), (7, 8, 3)),
        (layers.BatchNormalization(), (5,)),
        (layers.BatchNormalization(axis=1), (5, 4)),
        (layers.MaxPooling2D(3, strides=2, padding="same"), (7, 8, 3)),
        (layers.AveragePooling1D(2), (9, 3)),
        (layers.GlobalMaxPooling2D(keepdims=True), (4, 4, 3)),
        (layers.Flatten(), (4, 4, 3)),
        (layers.Reshape((8, 6)), (4, 4, 3)),
        (layers.Softmax(), (5,)),
        (layers.ReLU(max_value=1.0, threshold=0.2), (5,)),
        (layers.Rescaling(0.5, 1.0), (5,)),
        (layers.ZeroPadding2D(1), (4, 4, 3)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_without_spread_a_rule_is_its_layer(layer, shape):
    moments, expected = _no_noise_reaches(layer, shape)
    np.testing.assert_allclose(moments.mean, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moments.spread(), 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.MaxPooling2D(2), (4, 4, 3)),
        (layers.MaxPooling1D(3, strides=2, padding="same"), (8, 3)),
        (layers.GlobalMaxPooling1D(), (6, 3)),
        (layers.AveragePooling2D(3, strides=2, padding="same"), (5, 5, 2)),
        (layers.AveragePooling3D(2), (4, 4, 4, 1)),
        (layers.GlobalAveragePooling1D(), (6, 3)),
        (layers.Conv2D(3, 2, padding="same"), (4, 4, 2)),
        (layers.Softmax(), (4,)),
        (layers.ELU(0.7), (4,)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_rules_against_normal_samples(layer, shape):
    """Compares with the layer itself on independent normal inputs."""
    rng = np.random.default_rng(5)
    mean = rng.normal(size=(1, *shape)).astype(np.float32)
    stddev = rng.uniform(0.1, 1.0, size=(1, *shape)).astype(np.float32)
    rule = registry.rule_of(layer)
    layer.build((None, *shape))
    outcome = rule(
        layer,
        [rules.MeanVariance(tf.constant(mean), tf.constant(stddev**2))],
    )
    while outcome.then is not None:
        outcome = outcome.then(outcome.moments)
    moments = outcome.moments
    count = 40_000
    draws = mean + stddev * rng.normal(size=(count, *shape)).astype(np.float32)
    sampled = np.asarray(layer(draws))
    truth, spread = sampled.mean(axis=0), sampled.std(axis=0)
    # Five standard errors, and 4% of the spread: neither a maximum of normal
    # variables nor a log-sum of exponentials is normal.
    error = (5 / np.sqrt(count) + 0.04) * spread + 1e-5
    np.testing.assert_array_less(np.abs(moments.mean[0] - truth), error)
    np.testing.assert_allclose(
        np.sqrt(moments.spread()[0]), spread, rtol=0.12, atol=1e-4
    )


class Square(layers.Layer):
    def call(self, inputs):
        return inputs**2


def test_a_layer_without_a_rule_is_named():
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dropout(0.5), Square(), layers.Dense(1)]
    )
    with pytest.raises(kbd.BayesdropError) as caught:
        _moments(model, _inputs(3, 4))
    message = str(caught.value)
    for part in ("(Square)", "Dense", "register_rule", "fallback='sampling'"):
        assert part in message


def test_a_rule_can_be_registered(monkeypatch):
    monkeypatch.setattr(registry, "_rules", dict(registry._rules))

    @rules.register_rule(Square)
    def square(layer, inputs):
        (x,) = inputs
        return rules.MeanVariance(
            x.mean**2 + x.spread(),
            2 * x.spread() ** 2 + 4 * x.mean**2 * x.spread(),
        )

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.GaussianDropout(0.3),
            Square(),
            layers.Dense(1),
        ]
    )
    x = _inputs(3, 4)
    prediction = _moments(model, x)
    sampled = kbd.predict_with_uncertainty(
        model,
        x,
        20_000,
        seed=1,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    np.testing.assert_allclose(
        prediction.mean, sampled.mean, atol=5 * sampled.mc_error.max()
    )
    # Exact for Gaussian inputs; the tolerance is the sampling error.
    np.testing.assert_allclose(prediction.std, sampled.std, rtol=0.06)
    full = _moments(model, x, covariance="full")
    np.testing.assert_allclose(full.std, prediction.std, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"return_samples": True}, "`return_samples` needs samples"),
        ({"quantiles": [0.5]}, "`quantiles` needs samples"),
        ({"covariance": "none"}, "covariance='none'"),
    ],
)
def test_bad_arguments(arguments, part):
    with pytest.raises(kbd.BayesdropError) as caught:
        _moments(_dense(), _inputs(3, 30), **arguments)
    assert part in str(caught.value)


def test_noise_without_a_variance_is_refused():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            kbd.MCDropout(noise="half_cauchy"),
            layers.Dense(1),
        ]
    )
    with pytest.raises(kbd.BayesdropError, match="has no finite variance"):
        _moments(model, _inputs(3, 4))


@pytest.mark.parametrize("noise", ["rayleigh", "beta", "log_normal"])
def test_every_family_has_its_moments(noise):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((4,)), kbd.MCDropout(noise=noise), layers.Dense(1)]
    )
    x = _inputs(3, 4)
    prediction = _moments(model, x)
    sampled = kbd.predict_with_uncertainty(
        model,
        x,
        20_000,
        seed=1,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    np.testing.assert_allclose(
        prediction.mean, sampled.mean, atol=5 * sampled.mc_error.max()
    )
    # Exact; the sampling error of 20,000 draws has a kurtosis of at most 10.
    np.testing.assert_allclose(prediction.std, sampled.std, rtol=0.05)


def test_a_model_of_its_own_code_is_refused():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.drop = layers.Dropout(0.5)

        def call(self, inputs):
            return self.drop(inputs)

    model = Own()
    x = _inputs(3, 4)
    model(x)
    with pytest.raises(kbd.BayesdropError, match="code of its own"):
        _moments(model, x)


def test_layers_that_are_off_are_off():
    model, x = _dense(), _inputs(4, 30)
    both = _moments(model, x, covariance="full")
    first = _moments(model, x, layers="dropout", covariance="full")
    assert np.all(first.std < both.std)


def test_new_weights_need_no_new_call():
    model, x = _dense(), _inputs(4, 30)
    before = _moments(model, x)
    weights = model.get_weights()
    model.set_weights([2 * w for w in weights])
    after = _moments(model, x)
    assert not np.allclose(before.mean, after.mean)
