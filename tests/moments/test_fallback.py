# SPDX-License-Identifier: Apache-2.0
"""Layers without a rule: samples up to the layer, closed forms after it."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.moments import registry
from tests.helpers import flat
from tests.moments.enumeration import Masked
from tests.moments.enumeration import enumerate_masks

layers = keras.layers


class Square(layers.Layer):
    def call(self, inputs):
        return inputs**2


def _predict(model, x, method="moments", samples=50, **kwargs):
    if method != "sampling":
        kwargs.setdefault("fallback", "sampling")
    return kbd.predict_with_uncertainty(
        model, x, samples, seed=1, verbose=0, **flat(method=method, **kwargs)
    )


def _inputs(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def test_goes_on_in_closed_form():
    """The estimate is unbiased: rows are repetitions, against all masks."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            Masked(0.3),
            Square(name="square"),
            layers.Dense(5, activation="relu"),
            Masked(0.5),
            layers.Dense(2),
        ]
    )
    (row,) = _inputs(1, 4)
    mean, covariance = enumerate_masks(model, row[None])
    x = np.repeat(row[None], 1000, axis=0)
    prediction = _predict(
        model, x, masks="independent", draws="independent", samples=10
    )
    truths = (mean[0], np.diagonal(covariance[0]))
    for values, truth in zip(
        (prediction.mean, prediction.variance), truths, strict=True
    ):
        error = values.std(axis=0, ddof=1) / np.sqrt(len(x))
        np.testing.assert_array_less(
            np.abs(values.mean(axis=0) - truth), 4 * error
        )
    claimed = np.sqrt(np.mean(prediction.mc_error**2, axis=0))
    np.testing.assert_allclose(claimed, prediction.mean.std(axis=0), rtol=0.15)
    stats = prediction.stats
    assert (stats.method, stats.num_samples) == ("moments", 10)
    assert stats.variance_reduction > 1
    steps = {step.name: step for step in stats.engine}
    assert steps["square"].reason == "sampled: no rule for moments"
    assert steps[model.layers[0].name].reason.startswith("sampled")
    assert steps[model.layers[-2].name].engine == "moments"


def _recurrent():
    return keras.Sequential(
        [
            keras.Input((5, 3)),
            layers.SimpleRNN(4, dropout=0.3, recurrent_dropout=0.2),
            layers.Dense(2),
        ]
    )


def _attention():
    x = keras.Input((5, 4))
    y = layers.MultiHeadAttention(2, 2, dropout=0.4)(x, x)
    return keras.Model(x, layers.Dense(1)(layers.Flatten()(y)))


def _own_activation():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.3),
            layers.Dense(6, activation=lambda x: x * keras.ops.sigmoid(3 * x)),
            layers.Dense(2),
        ]
    )


def _no_variance():
    return keras.Sequential(
        [
            keras.Input((4,)),
            kbd.MCDropout(noise="half_cauchy"),
            layers.Dense(2),
        ]
    )


def _masked_average():
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(6, 4, mask_zero=True),
            layers.Dropout(0.3),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2),
        ]
    )


@pytest.mark.parametrize(
    "build",
    [_recurrent, _attention, _own_activation, _no_variance, _masked_average],
)
def test_all_noise_before_the_layer_is_sampling(build):
    """The same samples give the same result; without fallback, an error."""
    keras.utils.set_random_seed(2)
    model = build()
    shape = (3, *model.inputs[0].shape[1:])
    x = _inputs(*shape)
    if model.inputs[0].dtype == "int32":
        x = np.array([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0], [1, 1, 2, 2, 3]])
    with pytest.raises(kbd.BayesdropError) as caught:
        _predict(model, x, fallback=None)
    assert "Expected" in str(caught.value)
    prediction = _predict(model, x)
    plain = _predict(model, x, method="sampling")
    np.testing.assert_allclose(
        prediction.mean, plain.mean, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(prediction.variance, plain.variance, rtol=1e-3)
    np.testing.assert_allclose(prediction.mc_error, plain.mc_error, rtol=1e-3)
    assert prediction.stats.variance_reduction == pytest.approx(1.0)


def test_not_used_if_every_layer_has_a_rule():
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dropout(0.3), layers.Dense(2)]
    )
    prediction = _predict(model, _inputs(3, 4))
    assert prediction.stats.num_samples == 0
    np.testing.assert_array_equal(prediction.mc_error, 0.0)


def test_a_rule_that_is_registered_later_is_used(monkeypatch):
    monkeypatch.setattr(registry, "_rules", dict(registry._rules))
    model = keras.Sequential(
        [keras.Input((4,)), layers.GaussianDropout(0.3), Square()]
    )
    x = _inputs(3, 4)
    assert _predict(model, x).stats.num_samples == 50

    @kbd.moments.register_rule(Square)
    def square(layer, inputs):
        (x,) = inputs
        return kbd.moments.MeanVariance(x.mean**2 + x.spread(), 0 * x.mean)

    prediction = _predict(model, x)
    assert prediction.stats.num_samples == 0
    np.testing.assert_allclose(prediction.mean, x**2 * (1 + 3 / 7), rtol=1e-5)

    @kbd.moments.register_rule(Square)
    def other(layer, inputs):
        return kbd.moments.MeanVariance(0 * inputs[0].mean, 0 * inputs[0].mean)

    np.testing.assert_array_equal(_predict(model, x).mean, 0.0)


def test_only_the_branch_that_needs_it_is_sampled():
    keras.utils.set_random_seed(2)
    x = keras.Input((4,))
    one = Square(name="square")(layers.Dropout(0.3, name="one")(x))
    other = layers.Dropout(0.4, name="other")(x)
    joined = layers.Concatenate(name="join")([one, other])
    model = keras.Model(x, layers.Dense(1, name="last")(joined))
    prediction = _predict(model, _inputs(3, 4))
    engines = {step.name: step.engine for step in prediction.stats.engine}
    closed = [name for name, each in engines.items() if each == "moments"]
    assert sorted(closed) == ["join", "last", "other"]
    plain = _predict(model, _inputs(3, 4), method="sampling", samples=20_000)
    prediction = _predict(model, _inputs(3, 4), samples=5000)
    # Standard errors of a standard deviation: sqrt(kurtosis / 4 T) < 1.5 %.
    np.testing.assert_allclose(prediction.std, plain.std, rtol=0.06)
    np.testing.assert_allclose(
        prediction.mean,
        plain.mean,
        atol=5 * (prediction.mc_error + plain.mc_error).max(),
    )


def test_with_rao_blackwell_a_layer_behind_the_last_noise_is_sampled_too():
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.3),
            layers.Dense(4),
            layers.Dropout(0.3),
            Square(),
            layers.Dense(1),
        ]
    )
    x = _inputs(3, 4)
    with pytest.raises(kbd.BayesdropError, match="no rule"):
        _predict(model, x, method="rao_blackwell", fallback=None)
    prediction = _predict(model, x, method="rao_blackwell")
    plain = _predict(model, x, method="sampling")
    np.testing.assert_allclose(
        prediction.mean, plain.mean, rtol=1e-4, atol=1e-5
    )
