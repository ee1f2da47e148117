# SPDX-License-Identifier: Apache-2.0
"""Distributions of TensorFlow Probability."""

import numpy as np
import pytest

from tests.predictive.cases import SHAPES
from tests.predictive.cases import make
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit

# TensorFlow Probability 0.25 compares versions with distutils as it loads.
loads_tfp = pytest.mark.filterwarnings(
    "ignore:distutils Version classes are deprecated:DeprecationWarning"
)


@loads_tfp
@pytest.mark.parametrize("shape", SHAPES)
def test_mixture_distribution(shape):
    samples = normal(shape, 30)
    p = make("regression", samples, noise_precision=2.0)
    distribution = p.to_distribution()
    assert tuple(distribution.batch_shape) == shape
    assert tuple(distribution.event_shape) == ()
    np.testing.assert_allclose(distribution.mean(), p.mean, rtol=1e-5)
    np.testing.assert_allclose(
        distribution.variance(), samples.var(axis=0) + 0.5, rtol=1e-4
    )
    y = normal(shape, 1, seed=4)[0]
    logs = np.asarray(distribution.log_prob(y)).reshape(shape[0], -1)
    if logs.shape[1] == 1:
        np.testing.assert_allclose(
            p.log_likelihood(y), logs[:, 0], rtol=1e-4, atol=1e-5
        )
    lower, _ = p.interval(0.9)
    np.testing.assert_allclose(distribution.cdf(lower), 0.05, atol=1e-5)


@loads_tfp
@pytest.mark.parametrize("shape", SHAPES)
def test_empirical_distribution(shape):
    samples = normal(shape, 9)
    distribution = make("regression", samples).to_distribution()
    assert tuple(distribution.batch_shape) == shape
    np.testing.assert_allclose(
        distribution.mean(), samples.mean(axis=0), rtol=1e-5
    )
    np.testing.assert_allclose(
        distribution.cdf(np.median(samples, axis=0)), 5 / 9, rtol=1e-6
    )


@loads_tfp
def test_normal_distribution():
    p = make("regression", normal((4, 2)), keep=False, noise_precision=0.5)
    distribution = p.to_distribution()
    np.testing.assert_array_equal(distribution.loc, p.mean)
    np.testing.assert_allclose(
        distribution.scale, np.sqrt(p.variance + 2.0), rtol=1e-6
    )


@loads_tfp
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_label_distributions(dtype):
    p = make("classification", simplex((4, 3), dtype=dtype))
    distribution = p.to_distribution()
    assert tuple(distribution.batch_shape) == (4,)
    y = np.array([0, 2, 1, 1])
    np.testing.assert_allclose(
        distribution.log_prob(y), p.log_likelihood(y), rtol=1e-5
    )
    p = make("binary", unit((4, 1), dtype=dtype))
    distribution = p.to_distribution()
    assert tuple(distribution.batch_shape) == (4, 1)
    y = np.array([[0], [1], [1], [0]])
    np.testing.assert_allclose(
        np.asarray(distribution.log_prob(y))[:, 0],
        p.log_likelihood(y),
        rtol=1e-5,
    )
