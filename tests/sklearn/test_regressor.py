# SPDX-License-Identifier: Apache-2.0
"""The regressor: what it predicts, and with which arguments."""

import keras
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import line
from tests.sklearn.networks import regression

TAU = 4.0


@pytest.fixture(scope="module")
def fitted():
    return BayesdropRegressor(
        regression, fit_kwargs=QUIET, num_samples=20, random_state=3
    ).fit(*line())


def test_is_the_one_call_with_the_options_of_the_estimator(fitted):
    X, _ = line(seed=1)
    expected = kbd.predict_with_uncertainty(
        fitted.model_, X, 20, seed=3, verbose=0
    )
    p = fitted.predict_with_uncertainty(X)
    np.testing.assert_array_equal(p.mean, expected.mean)
    np.testing.assert_array_equal(p.variance, expected.variance)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, expected.mean[:, 0])
    np.testing.assert_array_equal(std, expected.std[:, 0])
    np.testing.assert_array_equal(fitted.predict(X), mean)
    assert mean.shape == std.shape == (40,)
    assert np.all(std > 0)
    assert fitted.n_features_in_ == 3


def test_samples_and_quantiles(fitted):
    X, _ = line(seed=1)
    p = fitted.predict_with_uncertainty(X, return_samples=True)
    assert p.samples.shape == (20, 40, 1)
    q = fitted.predict_with_uncertainty(X, quantiles=[0.1]).quantile(0.1)
    np.testing.assert_array_equal(q, p.quantile(0.1))


@pytest.mark.parametrize(
    "options",
    [
        {"method": "moments"},
        {"method": kbd.Sampling(masks="independent"), "batch_size": 7},
        {"num_samples": 33},
        {"head": kbd.Regression(noise_precision=TAU)},
    ],
    ids=str,
)
def test_options_count_after_the_fit_too(fitted, options):
    X, _ = line(seed=1)
    before = fitted.get_params()
    try:
        p = fitted.set_params(**options).predict_with_uncertainty(X)
        _, std = fitted.predict(X, return_std=True)
    finally:
        fitted.set_params(**before)
    expected = kbd.predict_with_uncertainty(
        fitted.model_, X, seed=3, verbose=0, **{"num_samples": 20, **options}
    )
    np.testing.assert_array_equal(p.mean, expected.mean)
    np.testing.assert_array_equal(p.total, expected.total)
    assert p.stats.method == expected.stats.method
    np.testing.assert_array_equal(std, np.sqrt(expected.total)[:, 0])


def test_std_has_the_noise_that_the_head_knows(fitted):
    X, _ = line(seed=1)
    _, alone = fitted.predict(X, return_std=True)
    fitted.set_params(head=kbd.Regression(noise_precision=TAU))
    try:
        _, std = fitted.predict(X, return_std=True)
    finally:
        fitted.set_params(head="auto")
    # float32 variances.
    np.testing.assert_allclose(std**2, alone**2 + 1 / TAU, rtol=1e-5)


def learned_noise(X, y):
    model = regression(X, np.zeros((1, 2 * y.shape[1])))
    model.compile("adam", kbd.losses.HeteroscedasticGaussianNLL())
    return model


@pytest.mark.parametrize("outputs", [None, 2])
def test_std_has_the_noise_that_the_network_learns(outputs):
    X, y = line(outputs=outputs)
    regressor = BayesdropRegressor(learned_noise, fit_kwargs=QUIET).fit(X, y)
    mean, std = regressor.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape
    p = regressor.predict_with_uncertainty(X)
    variance = (p.variance + p.noise_variance).reshape(y.shape)
    # float32 variances.
    np.testing.assert_allclose(std**2, variance, rtol=1e-5)
    assert np.all(p.noise_variance > 0)


def test_score_is_that_of_the_mean(fitted):
    X, y = line(seed=1)
    assert fitted.score(X, y) == r2_score(y, fitted.predict(X))


def test_predictions_depend_on_the_row_alone(fitted):
    X, _ = line(seed=1)
    whole = fitted.predict(X, return_std=True)
    order = np.random.default_rng(0).permutation(len(X))
    for rows in (order, order[:5], order[:1]):
        part = fitted.predict(X[rows], return_std=True)
        for all_rows, some in zip(whole, part, strict=True):
            # Matmuls of other sizes add in another order: some float32 eps.
            np.testing.assert_allclose(some, all_rows[rows], rtol=1e-5)


def test_several_outputs():
    X, y = line(outputs=2)
    regressor = BayesdropRegressor(regression, fit_kwargs=QUIET).fit(X, y)
    mean, std = regressor.predict(X[:5], return_std=True)
    assert mean.shape == std.shape == (5, 2)
    assert regressor.score(X, y) == r2_score(y, regressor.predict(X))


def test_shape_of_the_targets_is_kept():
    X, y = line()
    regressor = BayesdropRegressor(regression, fit_kwargs=QUIET)
    assert regressor.fit(X, y[:, None]).predict(X[:5]).shape == (5, 1)
    assert regressor.fit(X, y).predict(X[:5]).shape == (5,)


def test_learns():
    X, y = line(rows=200)
    regressor = BayesdropRegressor(
        regression,
        model_kwargs={"rate": 0.05, "units": 32},
        fit_kwargs={**QUIET, "epochs": 30},
        random_state=0,
    ).fit(X, y)
    # A linear function without noise; the mean alone has a score of 0.
    assert regressor.score(X, y) > 0.9


def test_model_without_noise_is_refused_before_training():
    trained = []

    def plain(X, y):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    note = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: trained.append(True)
    )
    with pytest.raises(NothingToSampleError):
        BayesdropRegressor(plain).fit(*line(), callbacks=[note])
    assert not trained


def one_output_too_many(X, y):
    return regression(X, np.zeros((1, y.shape[1] + 1)))


def probability(X, y):
    model = keras.Sequential(
        [regression(X, y), keras.layers.Activation("sigmoid")]
    )
    model.compile("sgd", "mse")
    return model


def uncompiled(X, y):
    return keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(1)])


def two_outputs(X, y):
    inputs = keras.Input((X.shape[1],))
    dropped = keras.layers.Dropout(0.5)(inputs)
    outputs = [keras.layers.Dense(1)(dropped) for _ in range(2)]
    model = keras.Model(inputs, outputs)
    model.compile("sgd", ["mse", "mse"])
    return model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model": one_output_too_many},
            r"Expected numbers of shape \(rows, 1\). Received: regression "
            r"with shape \(rows, 2\)",
        ),
        ({"model": probability}, r"Received: binary with shape \(rows, 1\)"),
        ({"model": uncompiled}, "compiled with an optimizer and a loss"),
        ({"model": two_outputs}, "Expected one output. Received: 2"),
        ({"model": lambda X, y: "network"}, "Received: str"),
        ({"model": 3}, "Received: model=3"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"method": "samples"}, "method='samples'"),
        ({"head": "numbers"}, "head='numbers'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"random_state": "seed"}, "random_state='seed'"),
        ({"fit_kwargs": 3}, "fit_kwargs=3"),
        ({"model_kwargs": [3]}, r"model_kwargs=\[3\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_parameter_is_refused(options, message):
    regressor = BayesdropRegressor(**{"model": regression, **options})
    with pytest.raises(kbd.BayesdropError, match=message):
        regressor.fit(*line())
    assert not hasattr(regressor, "model_")
    assert not hasattr(regressor, "n_features_in_")


def test_prediction_before_the_fit_is_refused():
    regressor = BayesdropRegressor(regression)
    with pytest.raises(NotFittedError):
        regressor.predict(line()[0])
    with pytest.raises(NotFittedError):
        regressor.predict_with_uncertainty(line()[0])


def test_other_number_of_features_is_refused(fitted):
    with pytest.raises(ValueError, match="expecting 3 features"):
        fitted.predict(np.zeros((2, 4)))
