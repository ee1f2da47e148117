# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own checks of an estimator.

Keras' regressor fails 4 of 50 checks, which train twice and expect the same
model. `random_state` makes that so here.
"""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from keras_bayesdrop.sklearn import BayesdropClassifier
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.sklearn.networks import classes
from tests.sklearn.networks import regression

# Needs more than these estimators have, or another process.
SKIPPED = {
    "check_array_api_input": "other arrays than NumPy's are not supported",
    "check_pipeline_consistency": "for estimators that never change",
}


@pytest.mark.slow
# Checks pass data that do not suit, and TensorFlow warns of many traces.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        BayesdropRegressor(
            regression, fit_kwargs={"verbose": 0}, num_samples=10
        ),
        BayesdropClassifier(
            classes, fit_kwargs={"verbose": 0, "epochs": 5}, num_samples=10
        ),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scikit_learn_finds_nothing(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) >= 50
    failed = {
        result["check_name"]: repr(result["exception"])
        for result in results
        if result["status"] == "failed"
    }
    assert failed == {}
    skipped = {
        result["check_name"]
        for result in results
        if result["status"] == "skipped"
    }
    assert skipped <= SKIPPED.keys()
