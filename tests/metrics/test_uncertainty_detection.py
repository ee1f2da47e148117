# SPDX-License-Identifier: Apache-2.0
"""AUROC and AUPR of uncertainty, against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.metrics import uncertainty_aupr
from keras_bayesdrop.metrics import uncertainty_auroc


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.5, 2.0, 3.0]), st.booleans()),
        min_size=2,
        max_size=30,
    ).filter(lambda rows: len({wrong for _, wrong in rows}) == 2)
)
def test_with_ties(rows):
    uncertainty, wrong = zip(*rows, strict=True)
    assert uncertainty_auroc(wrong, uncertainty) == pytest.approx(
        sklearn.metrics.roc_auc_score(wrong, uncertainty)
    )
    assert uncertainty_aupr(wrong, uncertainty) == pytest.approx(
        sklearn.metrics.average_precision_score(wrong, uncertainty)
    )


def test_many_rows():
    rng = np.random.default_rng(0)
    uncertainty = rng.normal(size=5000)
    wrong = uncertainty + rng.normal(size=5000) > 1.5
    assert uncertainty_auroc(wrong, uncertainty[:, None]) == pytest.approx(
        sklearn.metrics.roc_auc_score(wrong, uncertainty)
    )
    assert uncertainty_aupr(wrong.astype(int), uncertainty) == pytest.approx(
        sklearn.metrics.average_precision_score(wrong, uncertainty)
    )


def test_extremes():
    assert uncertainty_auroc([0, 1], [1, 2]) == 1.0
    assert uncertainty_aupr([0, 1], [1, 2]) == 1.0
    assert uncertainty_auroc([0, 1], [2, 1]) == 0.0
    assert uncertainty_auroc([0, 1, 1], [1, 1, 1]) == 0.5
    assert uncertainty_aupr([0, 1, 1], [1, 1, 1]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("score", [uncertainty_auroc, uncertainty_aupr])
def test_bad_input(score):
    for wrong in ([0, 0], [1, 1]):
        with pytest.raises(BayesdropError, match=r"both 0 and 1.*of 2 rows"):
            score(wrong, [0.1, 0.2])
    with pytest.raises(BayesdropError, match=r"`wrong`.*0 and 1.*2.0"):
        score([0, 2], [0.1, 0.2])
    with pytest.raises(BayesdropError, match=r"`wrong`.*\(2,\).*\(3,\)"):
        score([0, 1, 1], [0.1, 0.2])
    with pytest.raises(NonFiniteError, match="`uncertainty`"):
        score([0, 1], [0.1, np.nan])
