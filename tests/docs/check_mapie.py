# SPDX-License-Identifier: Apache-2.0
"""MAPIE on the estimators for scikit-learn, as the page shows it.

Not collected with the other tests: it needs MAPIE, which they do not.
"""

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor

from keras_bayesdrop.sklearn import BayesdropClassifier
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.docs.pages import run_page
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import blobs
from tests.sklearn.networks import classes
from tests.sklearn.networks import line
from tests.sklearn.networks import regression


# MAPIE warns at every update that its arguments will change.
@pytest.mark.filterwarnings(
    "ignore:\\s*This function behavior has been changed"
)
def test_page():
    names = run_page("sklearn.md")
    # Twice the noise: 90 % intervals of the old noise cover about 59 %, the
    # 5 % and 95 % quantiles lying 0.82 standard deviations away. 200 rows: 4
    # standard errors are 0.14 and 0.085.
    assert names["fixed"] < 0.74
    assert names["updated"] > 0.8
    assert names["precision"] > 0.95
    assert 0.1 < names["alarms"].mean() < 0.5


def test_regressor_is_cloned_and_trained_with_its_epochs():
    X, y = line(rows=600)
    y = y + np.random.default_rng(1).normal(size=600)
    regressor = BayesdropRegressor(
        regression, fit_kwargs={**QUIET, "epochs": 9}, random_state=0
    )
    conformal = SplitConformalRegressor(regressor, prefit=False)
    conformal.fit(X[:200], y[:200]).conformalize(X[200:400], y[200:400])
    trained = conformal._mapie_regressor.estimator
    assert trained is not regressor
    assert trained.epoch_ == 9
    points, ends = conformal.predict_interval(X[400:])
    np.testing.assert_array_equal(points, trained.predict(X[400:]))
    inside = (ends[:, 0, 0] <= y[400:]) & (y[400:] <= ends[:, 1, 0])
    # 0.9 but for the 200 rows of the calibration and the 200 tested: four
    # times sqrt(2 * 0.09 / 200) is 0.12.
    assert abs(inside.mean() - 0.9) < 0.12


def test_classifier():
    X, y = blobs(["a", "b", "c"], rows=600)
    classifier = BayesdropClassifier(
        classes, fit_kwargs={**QUIET, "epochs": 5}, random_state=0
    ).fit(X[:200], y[:200])
    conformal = SplitConformalClassifier(classifier)
    conformal.conformalize(X[200:400], y[200:400])
    labels, sets = conformal.predict_set(X[400:])
    np.testing.assert_array_equal(labels, classifier.predict(X[400:]))
    truth = np.searchsorted(classifier.classes_, y[400:])
    inside = sets[np.arange(200), truth, 0]
    assert abs(inside.mean() - 0.9) < 0.12
