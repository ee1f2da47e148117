# SPDX-License-Identifier: Apache-2.0
"""The tail of the normal distribution, against SciPy."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.moments import normal


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 3e-7), ("float64", 1e-15)]
)
def test_tail_and_excess(dtype, tolerance):
    x = np.linspace(0, 30, 5001)
    q, r = normal.tail_and_excess(tf.constant(x, dtype))
    tail = scipy.stats.norm.sf(x)
    np.testing.assert_allclose(q, tail, atol=tolerance)
    excess = scipy.stats.norm.pdf(x) - x * tail
    np.testing.assert_allclose(r, excess, atol=tolerance)
    assert np.all(np.asarray(r) >= 0)
