# SPDX-License-Identifier: Apache-2.0
"""The state of an estimator: files, failures, seeds, warm starts."""

import pickle
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.sklearn import BayesdropClassifier
from keras_bayesdrop.sklearn import BayesdropRegressor
from tests.helpers import TestCase
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import blobs
from tests.sklearn.networks import classes
from tests.sklearn.networks import line
from tests.sklearn.networks import regression


def regressor(**options):
    options = {"random_state": 0, **options}
    return BayesdropRegressor(
        regression, fit_kwargs=QUIET, num_samples=10, **options
    )


# Pickles.

LOAD = """
import pickle, sys
import numpy as np

estimator, X = pickle.loads(open(sys.argv[1], "rb").read())
assert "keras_bayesdrop.sklearn" in sys.modules
np.save(sys.argv[2], estimator.predict(X, return_std=True))
"""


def test_pickle_predicts_the_same_in_another_process(tmp_path):
    X, y = line()
    estimator = regressor(random_state=None).fit(X, y)
    (tmp_path / "estimator.pkl").write_bytes(pickle.dumps((estimator, X)))
    TestCase().run_in_new_process(
        LOAD, str(tmp_path / "estimator.pkl"), str(tmp_path / "result.npy")
    )
    np.testing.assert_array_equal(
        np.load(tmp_path / "result.npy"), estimator.predict(X, return_std=True)
    )


def test_pickle_of_a_classifier_keeps_its_labels():
    X, y = blobs(["a", "b", "c"])
    estimator = BayesdropClassifier(classes, fit_kwargs=QUIET).fit(X, y)
    loaded = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(
        loaded.predict_proba(X), estimator.predict_proba(X)
    )
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))
    assert loaded.epoch_ == 2
    assert loaded.get_params() == estimator.get_params()


# Failures.


def fail(epoch, logs):
    raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({"num_samples": 1}, {}),
        ({}, {"callbacks": [keras.callbacks.LambdaCallback(fail)]}),
        ({"model": 3}, {}),
        ({}, {"epocs": 3}),
    ],
    ids=["option", "training", "model", "argument"],
)
def test_failed_fit_leaves_the_last_one(changes, arguments):
    X, y = line()
    estimator = regressor().fit(X, y)
    before, state = estimator.predict(X), dict(vars(estimator))
    original = estimator.get_params(deep=False)
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        # Another number of features, and of targets.
        estimator.set_params(**changes).fit(
            *line(features=2, outputs=2, seed=1), **arguments
        )
    estimator.set_params(**original)
    assert vars(estimator) == state
    np.testing.assert_array_equal(estimator.predict(X), before)


# Seeds.


def test_same_state_trains_and_predicts_the_same():
    X, y = line()
    first, second, other = (
        regressor(random_state=state).fit(X, y) for state in (1, 1, 2)
    )
    assert first.seed_ == second.seed_ == 1
    assert first.history_.history == second.history_.history
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert first.history_.history != other.history_.history


def test_random_state_object_goes_on():
    X, y = line()
    generator = np.random.RandomState(5)
    first, second = (
        regressor(random_state=generator).fit(X, y) for _ in range(2)
    )
    assert first.seed_ != second.seed_
    again = regressor(random_state=np.random.RandomState(5)).fit(X, y)
    np.testing.assert_array_equal(first.predict(X), again.predict(X))


def test_no_state_draws_masks_once():
    X, y = line()
    estimator = regressor(random_state=None).fit(X, y)
    np.testing.assert_array_equal(estimator.predict(X), estimator.predict(X))
    seed = estimator.seed_
    assert estimator.fit(X, y).seed_ != seed
    keras.utils.set_random_seed(7)
    first = estimator.fit(X, y).predict(X)
    keras.utils.set_random_seed(7)
    np.testing.assert_array_equal(estimator.fit(X, y).predict(X), first)


def draws():
    return (
        random.random(),
        float(np.random.random()),  # noqa: NPY002
        float(tf.random.uniform(())),
    )


def test_fit_restores_the_generators_of_others():
    X, y = line()
    keras.utils.set_random_seed(7)
    expected = draws(), draws()
    keras.utils.set_random_seed(7)
    first = draws()
    regressor().fit(X, y)
    second = draws()
    assert first == expected[0]
    # One number of Python's generator became TensorFlow's seed.
    assert second[1] == expected[1][1]
    regressor().fit(X, y)
    third = draws()
    # Draws after two equal fits are not equal.
    assert all(a != b for a, b in zip(second, third, strict=True))
    keras.utils.set_random_seed(7)
    draws()
    regressor().fit(X, y)
    assert draws() == second


# Warm starts.


def test_warm_start_continues():
    X, y = line(rows=100)
    cold, warm = regressor(), regressor(warm_start=True)
    for estimator in (cold, warm):
        estimator.fit(X, y)
    np.testing.assert_array_equal(cold.predict(X), warm.predict(X))
    losses = warm.history_.history["loss"]
    model = warm.model_
    again = warm.fit(X, y).history_.history["loss"]
    assert warm.model_ is model
    assert again[0] < losses[0]
    assert cold.fit(X, y).history_.history["loss"] == losses


def test_warm_start_begins_with_the_weights_of_the_model():
    X, y = line()
    model = regression(X, y[:, None])
    estimator = BayesdropRegressor(
        model, warm_start=True, fit_kwargs={"verbose": 0}
    )
    # A learning rate of zero: the weights stay where they begin.
    model.compile(keras.optimizers.SGD(0.0), "mse")
    estimator.fit(X, y)
    assert estimator.model_ is not model
    for ours, theirs in zip(
        estimator.model_.get_weights(), model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    estimator.set_params(warm_start=False).fit(X, y)
    kernel = estimator.model_.get_weights()[0]
    assert np.all(kernel != model.get_weights()[0])


def test_unbuilt_model_is_built_from_the_data():
    def network(X, y):
        model = keras.Sequential(
            [kbd.MCDropout(0.5), keras.layers.Dense(y.shape[1])]
        )
        model.compile("sgd", "mse")
        return model

    X, y = line()
    estimator = BayesdropRegressor(network, fit_kwargs=QUIET).fit(X, y)
    assert np.all(estimator.predict(X, return_std=True)[1] > 0)
