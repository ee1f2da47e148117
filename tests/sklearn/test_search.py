# SPDX-License-Identifier: Apache-2.0
"""Estimators inside scikit-learn's own tools: clones, searches, pipelines."""

import keras
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import keras_bayesdrop as kbd
from keras_bayesdrop.sklearn import BayesdropClassifier
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import blobs
from tests.sklearn.networks import classes
from tests.sklearn.networks import line
from tests.sklearn.networks import regression


def regressor(**options):
    return BayesdropRegressor(
        regression, fit_kwargs=QUIET, num_samples=10, random_state=0, **options
    )


# Clones.


def test_clone_has_every_parameter():
    original = BayesdropRegressor(
        regression,
        warm_start=True,
        model_kwargs={"units": 5},
        fit_kwargs={"epochs": 7},
        num_samples=11,
        method=kbd.Moments(covariance="full"),
        head=kbd.Regression(noise_precision=2.0),
        batch_size=13,
        random_state=17,
    )
    defaults = BayesdropRegressor(regression).get_params(deep=False)
    params = original.get_params(deep=False)
    assert len(params) == 9
    # So that a parameter that is lost would differ.
    unchanged = [name for name in params if params[name] == defaults[name]]
    assert unchanged == ["model"]
    copied = clone(original)
    assert type(copied) is BayesdropRegressor
    assert copied.get_params(deep=False) == params
    for name in ("fit_kwargs", "model_kwargs"):
        assert getattr(copied, name) is not getattr(original, name)


def test_clone_of_a_subclass_has_its_parameters():
    class Sub(BayesdropClassifier):
        def __init__(self, model, fit_kwargs=None, colour="red"):
            super().__init__(model, fit_kwargs=fit_kwargs)
            self.colour = colour

    copied = clone(Sub(classes, fit_kwargs={"epochs": 3}, colour="blue"))
    assert copied.colour == "blue"
    assert copied.fit_kwargs == {"epochs": 3}


def test_clone_is_not_fitted():
    copied = clone(regressor().fit(*line()))
    assert not hasattr(copied, "model_")


def test_clone_of_a_search_in_a_pipeline_keeps_epochs():
    pipeline = make_pipeline(StandardScaler(), regressor())
    assert clone(pipeline)[-1].fit_kwargs == QUIET


def test_model_that_was_passed_is_shared_and_never_trained():
    X, y = line()
    model = regression(X, y[:, None])
    before = [np.array(w) for w in model.get_weights()]
    estimator = BayesdropRegressor(model, fit_kwargs=QUIET, num_samples=10)
    copied = clone(estimator)
    assert copied.model is estimator.model is model
    for each in (estimator, copied):
        each.fit(X, y)
        assert each.model_ is not model
        assert len(each.history_.history["loss"]) == 2
    assert estimator.model_ is not copied.model_
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


# Parameters.


def test_single_entries_of_dicts_can_be_set():
    original = {"epochs": 1, "verbose": 0}
    estimator = BayesdropRegressor(regression, fit_kwargs=original)
    estimator.set_params(fit_kwargs__epochs=4, model_kwargs__units=3)
    assert estimator.fit_kwargs == {"epochs": 4, "verbose": 0}
    assert estimator.model_kwargs == {"units": 3}
    assert original == {"epochs": 1, "verbose": 0}
    assert estimator.get_params()["fit_kwargs__epochs"] == 4
    assert "fit_kwargs__epochs" not in estimator.get_params(deep=False)
    # An entry beside its dict: the entry comes after it.
    estimator.set_params(fit_kwargs__epochs=9, fit_kwargs={"verbose": 2})
    assert estimator.fit_kwargs == {"epochs": 9, "verbose": 2}


def test_unknown_parameter_is_refused():
    with pytest.raises(ValueError, match="Invalid parameter 'epochs'"):
        regressor().set_params(epochs=3)
    with pytest.raises(kbd.BayesdropError, match="fit_kwargs=3"):
        BayesdropRegressor(regression, fit_kwargs=3).set_params(
            fit_kwargs__epochs=3
        )


def test_arguments_of_one_fit_are_not_those_of_the_next():
    estimator = regressor()
    assert estimator.epoch_ == 0
    assert estimator.fit(*line(), epochs=3).epoch_ == 3
    assert estimator.fit_kwargs == QUIET
    assert estimator.fit(*line()).epoch_ == 2


def test_callbacks_of_the_parameters_are_copied_for_each_fit():
    stop = keras.callbacks.EarlyStopping("loss", start_from_epoch=9)
    estimator = regressor().set_params(fit_kwargs__callbacks=[stop])
    estimator.fit(*line())
    # `fit` gives a callback its model.
    assert estimator.fit_kwargs["callbacks"] == [stop]
    assert stop.model is None
    direct = keras.callbacks.EarlyStopping("loss", start_from_epoch=9)
    estimator.fit(*line(), callbacks=[direct])
    assert direct.model is estimator.model_


# Searches.


def epochs_trained(estimator, X, y):
    return len(estimator.history_.history["loss"])


def units_trained(estimator, X, y):
    return estimator.model_.layers[0].units


def test_grid_search_trains_every_candidate_as_asked():
    X, y = line()
    search = GridSearchCV(
        regressor(),
        {"model_kwargs__units": [3, 6], "fit_kwargs__epochs": [1, 3]},
        scoring={"epochs": epochs_trained, "units": units_trained},
        refit="epochs",
        cv=2,
        error_score="raise",
    ).fit(X, y)
    results = search.cv_results_
    for candidate, epochs, units in zip(
        results["params"],
        results["mean_test_epochs"],
        results["mean_test_units"],
        strict=True,
    ):
        assert epochs == candidate["fit_kwargs__epochs"]
        assert units == candidate["model_kwargs__units"]
    assert len(results["params"]) == 4
    assert search.best_estimator_.epoch_ == 3
    mean, std = search.best_estimator_.predict(X, return_std=True)
    np.testing.assert_array_equal(search.predict(X), mean)
    assert np.all(std > 0)


def test_grid_search_over_other_parameters_keeps_epochs():
    """Keras' own clone would train one epoch."""
    search = GridSearchCV(
        regressor(),
        {"method": ["sampling", "moments"]},
        scoring=epochs_trained,
        refit=False,
        cv=2,
        error_score="raise",
    ).fit(*line())
    assert search.cv_results_["mean_test_score"].tolist() == [2.0, 2.0]


def log_likelihood(estimator, X, y):
    p = estimator.predict_with_uncertainty(X)
    return p.log_likelihood(y[:, None]).mean()


def test_search_for_the_noise_by_likelihood():
    """Precisions far from the residuals' are less likely."""
    X, y = line(rows=60)
    y = y + np.random.default_rng(1).normal(size=len(y))
    heads = [kbd.Regression(tau) for tau in (1e-4, 0.5, 1e4)]
    search = GridSearchCV(
        regressor(method="moments"),
        {"head": heads},
        scoring=log_likelihood,
        refit=False,
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_ == {"head": heads[1]}


def test_cross_validation_of_a_pipeline():
    X, y = blobs(["a", "b"])
    estimator = BayesdropClassifier(
        classes,
        fit_kwargs={**QUIET, "epochs": 15},
        num_samples=10,
        random_state=0,
    )
    pipeline = make_pipeline(StandardScaler(), estimator)
    scores = cross_val_score(pipeline, 1000 * X, y, cv=2)
    assert scores.shape == (2,)
    # Under 1 % of the points lie on the wrong side.
    assert scores.min() > 0.9


def test_pipeline_passes_options_of_prediction_and_fit():
    X, y = line()
    pipeline = make_pipeline(StandardScaler(), regressor())
    pipeline.fit(X, y, bayesdropregressor__epochs=4)
    assert pipeline[-1].epoch_ == 4
    mean, std = pipeline.predict(X, return_std=True)
    scaled = pipeline[0].transform(X)
    expected = pipeline[-1].predict(scaled, return_std=True)
    np.testing.assert_array_equal(mean, expected[0])
    np.testing.assert_array_equal(std, expected[1])


# Sample weights.


@pytest.fixture
def weighted():
    """Data whose rows of weight 0 say the opposite."""
    X, y = line(rows=60)
    weights = np.tile([1.0, 0.0], 30)
    return X, np.where(weights == 1, y, -y), weights, y


def test_sample_weights_reach_the_folds(weighted):
    X, y, weights, truth = weighted
    search = GridSearchCV(
        regressor(),
        {"fit_kwargs__epochs": [20]},
        cv=2,
        error_score="raise",
    ).fit(X, y, sample_weight=weights)
    assert np.corrcoef(search.predict(X), truth)[0, 1] > 0.9


def test_routed_sample_weights_reach_the_fit(weighted):
    X, y, weights, truth = weighted
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = regressor().set_fit_request(sample_weight=True)
        estimator.set_score_request(sample_weight=False)
        estimator.set_fit_request(sample_weight=True)
        routing = clone(estimator).get_metadata_routing()
        assert routing.fit.requests == {"sample_weight": True}
        assert routing.score.requests == {"sample_weight": False}
        search = GridSearchCV(
            estimator,
            {"fit_kwargs__epochs": [20]},
            cv=2,
            error_score="raise",
        ).fit(X, y, sample_weight=weights)
    assert np.corrcoef(search.predict(X), truth)[0, 1] > 0.9


def test_requests_need_routing():
    with pytest.raises(RuntimeError, match="metadata routing is enabled"):
        regressor().set_fit_request(sample_weight=True)
