# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import sklearn.metrics

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.metrics import root_mean_squared_error
from tests.metrics import cases


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 3), (2, 4, 5), (1,)])
def test_against_scikit_learn(shape):
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(shape).astype("float32")
    y = rng.standard_normal(shape)
    expected = sklearn.metrics.root_mean_squared_error(y.ravel(), mean.ravel())
    p = cases.predictive("regression", mean)
    assert root_mean_squared_error(y, mean) == pytest.approx(expected)
    assert root_mean_squared_error(y, p) == pytest.approx(expected)


def test_rows_are_never_broadcast_against_a_column():
    mean = np.arange(4.0)
    for a, b in ((mean[:, None], mean), (mean, mean[:, None])):
        assert root_mean_squared_error(b, a) == 0.0


def test_small_errors_of_large_values_survive():
    mean = np.full(1000, 1e4, "float32")
    y = mean.astype("float64") + 1e-3
    assert root_mean_squared_error(y, mean) == pytest.approx(1e-3, rel=1e-6)


def test_bad_input():
    with pytest.raises(BayesdropError, match=r"`y`.*\(3,\).*\(4,\)"):
        root_mean_squared_error(np.ones(4), np.ones(3))
    with pytest.raises(BayesdropError, match="at least one example"):
        root_mean_squared_error([], [])
    with pytest.raises(NonFiniteError, match=r"finite.*1 value"):
        root_mean_squared_error([1.0, np.nan], np.ones(2))
    p = cases.predictive("binary", np.ones(2))
    with pytest.raises(BayesdropError, match="Received: task='binary'"):
        root_mean_squared_error(np.ones(2), p)
