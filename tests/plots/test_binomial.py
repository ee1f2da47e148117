# SPDX-License-Identifier: Apache-2.0
import pytest
from scipy import stats

from keras_bayesdrop.plots._binomial import binomial_band


@pytest.mark.parametrize("trials", [1, 2, 7, 150, 4001, 10**6])
@pytest.mark.parametrize("p", [1e-4, 0.03, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_band_is_that_of_scipy(trials, p, level):
    low, high = binomial_band(trials, p, level)
    exact = stats.binom.ppf([(1 - level) / 2, (1 + level) / 2], trials, p)
    assert [low * trials, high * trials] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("certain", [0.0, 1.0])
def test_no_chance_where_it_is_certain(certain):
    assert binomial_band(10, certain, 0.95) == (certain, certain)
