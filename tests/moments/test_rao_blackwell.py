# SPDX-License-Identifier: Apache-2.0
"""The last noise in closed form: unbiased, with a smaller error."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.helpers import flat
from tests.moments.enumeration import Masked
from tests.moments.enumeration import enumerate_masks

layers = keras.layers


def _predict(model, x, samples=20, method="rao_blackwell", **kwargs):
    kwargs = {"seed": 1, "masks": "independent", **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, samples, verbose=0, **flat(method=method, **kwargs)
    )


def _inputs(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def _shallow():
    return keras.Sequential(
        [
            keras.Input((3,)),
            Masked(0.2),
            layers.Dense(7, activation="relu"),
            Masked(0.5),
            layers.Dense(2),
        ]
    )


def _deep():
    return keras.Sequential(
        [
            keras.Input((3,)),
            Masked(0.1),
            layers.Dense(4, activation="tanh"),
            Masked(0.2),
            layers.Dense(5, activation="relu"),
            Masked(0.5),
            layers.Dense(1),
        ]
    )


def _with_a_skip():
    x = keras.Input((3,))
    hidden = layers.Dense(5, activation="relu")(Masked(0.2)(x))
    y = layers.Dense(2)(Masked(0.4)(hidden))
    return keras.Model(x, layers.Add()([y, layers.Dense(2)(hidden)]))


@pytest.mark.parametrize("build", [_shallow, _deep, _with_a_skip])
def test_not_biased_and_half_the_squared_error(build):
    """Compares with all masks. Rows are repetitions with their own masks."""
    keras.utils.set_random_seed(7)
    model = build()
    (row,) = _inputs(1, 3)
    mean, covariance = enumerate_masks(model, row[None])
    variance = np.diagonal(covariance[0])
    repetitions = 2000
    x = np.repeat(row[None], repetitions, axis=0)
    # The variance of balanced draws is not biased from 32 samples on.
    draws = "independent"
    prediction = _predict(model, x, draws=draws)
    for values, truth in (
        (prediction.mean, mean[0]),
        (prediction.variance, variance),
    ):
        error = values.std(axis=0, ddof=1) / np.sqrt(repetitions)
        np.testing.assert_array_less(
            np.abs(values.mean(axis=0) - truth), 4 * error
        )
    plain = _predict(model, x, method="sampling", draws=draws)
    squared = [
        np.mean((p.variance - variance) ** 2, axis=0)
        for p in (prediction, plain)
    ]
    np.testing.assert_array_less(squared[0], 0.5 * squared[1])
    # The error of the mean that the result reports. Sampling noise
    # adds sqrt(2 / (repetitions * 19)) = 0.7 % to its mean square.
    claimed = np.sqrt(np.mean(prediction.mc_error**2, axis=0))
    np.testing.assert_allclose(claimed, prediction.mean.std(axis=0), rtol=0.1)
    gained = np.mean(plain.mc_error**2) / np.mean(prediction.mc_error**2)
    np.testing.assert_allclose(
        prediction.stats.variance_reduction, gained, rtol=0.1
    )
    assert gained > 1.5


def test_samples_the_other_sites_as_always():
    """The mean over the last noise equals that with the noise off."""
    keras.utils.set_random_seed(7)
    model, x = _deep(), _inputs(5, 3)
    first = [layer.name for layer in model.layers if "masked" in layer.name]
    for masks in ("shared", "independent"):
        prediction = _predict(model, x, masks=masks)
        others = _predict(
            model, x, masks=masks, method="sampling", layers=first[:-1]
        )
        np.testing.assert_allclose(prediction.mean, others.mean, atol=1e-5)
        np.testing.assert_allclose(
            prediction.sampled_variance, others.variance, rtol=1e-4, atol=1e-7
        )
        np.testing.assert_allclose(
            prediction.mc_error, others.mc_error, rtol=1e-3
        )
        assert np.all(prediction.variance > others.variance)


def test_of_one_site_nothing_is_left_to_sample():
    model = keras.Sequential(
        [keras.Input((3,)), Masked(0.2), layers.Dense(7), layers.Dense(2)]
    )
    x = _inputs(4, 3)
    prediction = _predict(model, x, covariance="full")
    _, covariance = enumerate_masks(model, x)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-4)
    assert prediction.stats.method == "moments"
    np.testing.assert_array_equal(prediction.mc_error, 0.0)


def _classifier(last):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((30,)),
            layers.Dropout(0.1),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(3, activation=last),
        ]
    )


@pytest.mark.parametrize("last", ["softmax", "sigmoid"])
def test_through_an_activation_by_the_rules_of_moments(last):
    model, x = _classifier(last), 2 * _inputs(4, 30)
    prediction = _predict(model, x, 2000)
    sampled = _predict(model, x, 8000, method="sampling")
    assert prediction.task == sampled.task
    # Four standard errors. Besides, sums of 64 units are not quite
    # normal.
    error = 4 * np.hypot(prediction.mc_error, sampled.mc_error) + 0.005
    np.testing.assert_array_less(np.abs(prediction.mean - sampled.mean), error)
    # A tenth, as sums are not normal; more for a probability of 0.001.
    np.testing.assert_allclose(
        prediction.std, sampled.std, rtol=0.1, atol=0.002
    )
    np.testing.assert_allclose(
        prediction.aleatoric, sampled.aleatoric, atol=0.015
    )
    # Moments model probabilities by Beta distributions.
    np.testing.assert_allclose(
        prediction.mutual_information, sampled.mutual_information, atol=0.04
    )
    steps = {step.name: step for step in prediction.stats.engine}
    *_, dropout, dense = model.layers
    assert steps[dense.name].engine == "moments"
    assert "for normal units" in steps[dense.name].reason
    assert "for normal units" not in steps[dropout.name].reason


def test_every_output_has_its_last_site():
    keras.utils.set_random_seed(4)
    x = keras.Input((3,))
    hidden = layers.Dense(4, activation="relu")(Masked(0.3)(x))
    outputs = {
        name: layers.Dense(1, name=name)(
            Masked(0.5, name=f"{name}_site")(hidden)
        )
        for name in ("a", "b")
    }
    model = keras.Model(x, outputs)
    prediction = _predict(model, _inputs(4, 3))
    assert set(prediction) == {"a", "b"}
    for name, each in prediction.items():
        steps = {s.name: s.engine for s in each.stats.engine}
        assert steps[f"{name}_site"] == "moments"
        assert steps["dense"] != "moments"
        assert each.stats.variance_reduction > 1


def test_results_do_not_depend_on_batches_or_engine():
    model, x = _classifier(None), _inputs(7, 30)
    whole = _predict(model, x)
    for kwargs in (
        {"batch_size": 2},
        {"engine": "reference"},
        {"covariance": "full"},
    ):
        other = _predict(model, x, **kwargs)
        np.testing.assert_allclose(other.mean, whole.mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(other.std, whole.std, rtol=1e-4)
    np.testing.assert_allclose(_predict(model, x[3:4]).std.shape, (1, 3))


def test_result_can_be_saved_and_cut(tmp_path):
    prediction = _predict(_classifier("softmax"), _inputs(5, 30))
    prediction.save(tmp_path / "p.npz")
    again = kbd.Predictive.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(again.mc_error, prediction.mc_error)
    assert again.stats == prediction.stats
    np.testing.assert_array_equal(
        prediction[1:3].mc_error, prediction.mc_error[1:3]
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"return_samples": True}, "`return_samples` needs samples"),
        ({"quantiles": [0.5]}, "method='rao_blackwell'"),
        ({"method": "rao"}, "method='rao'"),
        ({"fallback": "none"}, "fallback='none'"),
    ],
)
def test_bad_arguments(arguments, part):
    with pytest.raises(kbd.BayesdropError) as caught:
        _predict(_classifier(None), _inputs(3, 30), **arguments)
    assert part in str(caught.value)
