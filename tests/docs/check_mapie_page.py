# SPDX-License-Identifier: Apache-2.0
"""The page on MAPIE runs, and MAPIE agrees with our own intervals and sets.

Not collected with the other tests: it needs MAPIE, which they do not.
`make test-mapie` runs it.
"""

import numpy as np
import pytest
import scipy.special
from mapie.classification import SplitConformalClassifier
from mapie.regression import CrossConformalRegressor
from mapie.regression import SplitConformalRegressor
from sklearn.base import BaseEstimator
from sklearn.base import ClassifierMixin
from sklearn.base import RegressorMixin

from keras_bayesdrop import calibrate
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.docs.pages import run_page
from tests.metrics import cases
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import line
from tests.sklearn.networks import regression


def test_page():
    names = run_page("mapie.md")
    # 800 steps: the coverage scatters by sqrt(0.09 / 800) = 0.011 for the
    # steps and by sqrt(0.09 / 695) = 0.011 for the calibration; four of both
    # together are 0.063.
    assert names["fixed"] < 0.9 - 0.063
    assert abs(names["followed"] - 0.9) < 0.063
    assert names["fixed"] < names["followed"] - 0.05
    # About 100 alarms: the precision scatters by 0.04. The bound fails in one
    # of ten calibrations, by little.
    assert names["precision"] > 0.8 - 0.08
    assert names["alarm"].sum() > 30


def test_clones_are_trained_with_their_epochs():
    X, y = line(rows=60)
    regressor = BayesdropRegressor(
        regression, fit_kwargs={**QUIET, "epochs": 3}, random_state=0
    )
    theirs = CrossConformalRegressor(regressor, cv=2)
    theirs.fit_conformalize(X, y)
    fitted = theirs._mapie_regressor.estimator_.estimators_
    assert [each.epoch_ for each in fitted] == [3, 3]
    points, ends = theirs.predict_interval(X)
    assert np.all((ends[:, 0, 0] < points) & (points < ends[:, 1, 0]))


class Known(BaseEstimator):
    """A fitted estimator that returns its inputs."""

    fitted_ = True

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True


class KnownMean(RegressorMixin, Known):
    def predict(self, X):
        return X[:, 0]


class KnownProbabilities(ClassifierMixin, Known):
    classes_ = np.arange(4)

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return np.argmax(X, axis=1)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_absolute_intervals(level):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=150)
    y = mean + rng.normal(size=150)
    theirs = SplitConformalRegressor(KnownMean(), level, prefit=True)
    theirs.conformalize(mean[:61, None], y[:61])
    _, ends = theirs.predict_interval(mean[61:, None])
    p = cases.predictive("regression", mean)
    fit = calibrate.conformal(y[:61], p[:61], level, "absolute")
    np.testing.assert_allclose(
        fit.intervals(p[61:]), ends[:, :, 0].T, rtol=1e-12
    )


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_least_ambiguous_sets(level):
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(400, 4))
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    mean = scipy.special.softmax(logits, axis=1)
    theirs = SplitConformalClassifier(
        KnownProbabilities(), level, prefit=True, conformity_score="lac"
    )
    theirs.conformalize(mean[:161], y[:161])
    _, sets = theirs.predict_set(mean[161:])
    p = cases.predictive("classification", mean)
    fit = calibrate.conformal(y[:161], p[:161], level, "lac", allow_empty=True)
    np.testing.assert_array_equal(fit.sets(p[161:]), sets[:, :, 0])
