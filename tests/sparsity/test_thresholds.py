# SPDX-License-Identifier: Apache-2.0
"""Thresholds of log alpha that are refused."""

import pytest

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import sparsity_report
from keras_bayesdrop.sparsity import to_sparse_size
from tests.sparsity.fakes import noisy_sequential


@pytest.mark.parametrize("function", [prune, sparsity_report, to_sparse_size])
@pytest.mark.parametrize(
    "threshold", [float("nan"), float("inf"), "3", True, None]
)
def test_threshold_must_be_a_finite_number(function, threshold):
    with pytest.raises(BayesdropError, match="`threshold`"):
        function(noisy_sequential(), threshold)
