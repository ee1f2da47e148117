# SPDX-License-Identifier: Apache-2.0
"""Moments of the softmax of normal logits, from no noise to all noise."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.rules.softmax import softmax_outcome
from tests.moments.integration import moments_of_normal

ROWS = 12


def _logits(classes, size, spread, correlated, seed=0):
    """Means, variances and covariances of logits, [rows, classes, ...]."""
    rng = np.random.default_rng(seed)
    mean = size * rng.normal(size=(ROWS, classes))
    variance = spread**2 * rng.gamma(4.0, 0.25, size=(ROWS, classes))
    factors = rng.normal(size=(ROWS, classes, 3))
    factors /= np.linalg.norm(factors, axis=-1, keepdims=True)
    share = 0.7 if correlated else 0.0
    correlation = share * factors @ factors.swapaxes(1, 2)
    correlation += (1.0 - share) * np.eye(classes)
    stddev = np.sqrt(variance)
    return (
        mean,
        variance,
        correlation * stddev[:, :, None] * stddev[:, None, :],
    )


def _found(mean, covariance, dtype="float32"):
    """Mean and standard deviation by the rule, with and without covariances."""
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    outcome = softmax_outcome(
        MeanVariance(tf.constant(mean, dtype), tf.constant(variance, dtype))
    )
    alone = outcome.moments
    together, between = outcome.joint(tf.constant(covariance, dtype))
    assert between.shape == covariance.shape
    return [
        (np.asarray(each.mean), np.sqrt(each.variance))
        for each in (alone, together)
    ]


def _sampled(mean, covariance, count=4000):
    rng = np.random.default_rng(1)
    root = np.linalg.cholesky(covariance)
    noise = rng.normal(size=(count, *mean.shape))
    logits = mean + np.einsum("rij,trj->tri", root, noise)
    p = scipy.special.softmax(logits, axis=-1)
    return p.mean(axis=0), p.std(axis=0)


# Distance of the distributions over classes (half the sum of differences), and
# error of the standard deviations relative to them in root mean squares: a
# quarter more than was measured. By expansion to second order alone the
# distances are up to 0.8 at a spread of 30.
NOISY = [
    (3, 0.3, 0.002, 0.018),
    (3, 1.0, 0.006, 0.04),
    (3, 3.0, 0.019, 0.055),
    (3, 30.0, 0.027, 0.032),
    (10, 0.3, 0.002, 0.028),
    (10, 1.0, 0.008, 0.095),
    (10, 3.0, 0.041, 0.125),
    (10, 30.0, 0.075, 0.125),
    (40, 1.0, 0.013, 0.2),
    (40, 3.0, 0.07, 0.24),
    (40, 30.0, 0.115, 0.17),
]


@pytest.mark.parametrize("size", [0.0, 2.0, 10.0])
@pytest.mark.parametrize(("classes", "spread", "distance", "error"), NOISY)
def test_from_little_noise_to_nothing_but_noise(
    classes, spread, distance, error, size
):
    for correlated in (False, True):
        mean, _, covariance = _logits(classes, size, spread, correlated)
        want_mean, want_std = _sampled(mean, covariance)
        alone, together = _found(mean, covariance)
        for p, std in [together] if correlated else [alone, together]:
            apart = 0.5 * np.abs(p - want_mean).sum(axis=1).mean()
            assert apart <= distance
            missed = np.sqrt(np.mean((std - want_std) ** 2))
            assert missed <= error * np.sqrt(np.mean(want_std**2))


def test_one_of_many_takes_all():
    """Second moments scale like means if few of many logits matter."""
    mean, _, covariance = _logits(100, 0.0, 5.0, False)
    _, want = _sampled(mean, covariance, 2000)
    for _, std in _found(mean, covariance):
        missed = np.sqrt(np.mean((std - want) ** 2))
        # 0.11 was measured.
        assert missed <= 0.14 * np.sqrt(np.mean(want**2))


def test_without_correlations_both_forms_are_the_same():
    for spread in (0.1, 3.0, 30.0):
        mean, _, covariance = _logits(6, 3.0, spread, False)
        alone, together = _found(mean, covariance, "float64")
        np.testing.assert_allclose(alone[0], together[0], rtol=1e-12)
        np.testing.assert_allclose(alone[1], together[1], rtol=1e-9)


@pytest.mark.parametrize("spread", [0.01, 1.0, 2.6, 3.0, 10.0, 300.0])
def test_two_classes_are_exact(spread):
    """p[0] = sigmoid(x[0] - x[1]), whose difference is normal."""
    mean, _, covariance = _logits(2, 2.0, spread, True)
    step = mean[:, 0] - mean[:, 1]
    variance = covariance[:, 0, 0] + covariance[:, 1, 1]
    stddev = np.sqrt(variance - 2.0 * covariance[:, 0, 1])
    want, square, _ = moments_of_normal(scipy.special.expit, step, stddev)
    _, (p_mean, std) = _found(mean, covariance, "float64")
    # Largest error of the quadrature.
    tolerance = min(2e-3, 2e-3 * spread**4)
    np.testing.assert_allclose(p_mean[:, 0], want, atol=tolerance)
    np.testing.assert_allclose(p_mean.sum(axis=1), np.ones(ROWS), rtol=1e-12)
    for column in std.T:
        np.testing.assert_allclose(column, np.sqrt(square), atol=tolerance)


def test_right_to_first_order_in_the_noise():
    """Mean p + tr(H C) / 2 and variance g' C g, by the derivatives of p."""
    mean, _, covariance = _logits(5, 1.5, 1e-3, True)
    _, (p_mean, std) = _found(mean, covariance, "float64")
    logits = tf.constant(mean)
    with tf.GradientTape() as outer:
        outer.watch(logits)
        with tf.GradientTape() as inner:
            inner.watch(logits)
            p = tf.nn.softmax(logits)
        gradient = inner.batch_jacobian(p, logits)
        flat = tf.reshape(gradient, [ROWS, 25])
    hessian = tf.reshape(outer.batch_jacobian(flat, logits), [ROWS, 5, 5, 5])
    shift = 0.5 * np.einsum("rkij,rij->rk", hessian, covariance)
    # Relative errors are of the order of the variance, 1e-6.
    np.testing.assert_allclose(p_mean - p, shift, rtol=1e-4, atol=1e-11)
    spread = np.einsum("rki,rij,rkj->rk", gradient, covariance, gradient)
    np.testing.assert_allclose(std**2, spread, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [1, 2, 3, 30])
@pytest.mark.parametrize("size", [0.0, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 1.0, 100.0, 1e6])
def test_always_probabilities(size, spread, classes, dtype):
    mean, _, covariance = _logits(classes, size, spread, True)
    for p, std in _found(mean, covariance, dtype):
        assert np.isfinite(p).all() and np.isfinite(std).all()
        assert (p >= 0).all() and (p <= 1 + 1e-6).all()
        np.testing.assert_allclose(p.sum(axis=1), np.ones(ROWS), rtol=1e-5)
        # The largest standard deviation of a number between zero and one.
        most = np.sqrt(np.clip(p * (1 - p), 0, None))
        assert (std <= most * (1 + 1e-5) + 1e-9).all()
        if spread == 0.0:
            sure = scipy.special.softmax(mean, axis=1)
            np.testing.assert_allclose(p, sure, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(std, 0.0 * std, atol=1e-6)


@pytest.mark.parametrize("gap", [4.0, 8.0, 12.0])
def test_the_likely_class_of_confident_rows_keeps_its_digits(gap):
    """1 - p has few digits in float32; the standard deviation has all."""
    mean = np.array([[gap, 0.0, -0.5, 0.3]])
    covariance = np.diag([1.0, 0.5, 2.0, 0.1])[None]
    wide = _found(mean, covariance, "float64")
    for (_, std), (_, want) in zip(_found(mean, covariance), wide, strict=True):
        np.testing.assert_allclose(std, want, rtol=2e-3)


def test_covariances_of_probabilities_sum_to_nothing():
    """Rows of the covariance sum to zero, with the right diagonal."""
    mean, variance, covariance = _logits(5, 1.0, 1e-3, True)
    moments = MeanVariance(tf.constant(mean), tf.constant(variance))
    probabilities, between = softmax_outcome(moments).joint(
        tf.constant(covariance)
    )
    whole = tf.linalg.set_diag(between, probabilities.variance)
    size = np.abs(whole).max()
    np.testing.assert_allclose(
        np.sum(whole, axis=2), np.zeros((ROWS, 5)), atol=1e-4 * size
    )


def test_memory_is_linear_in_the_number_of_classes():
    """There is no matrix per row: memory is linear in the classes."""
    classes = 997
    spec = tf.TensorSpec([None, classes])

    def run(mean, variance):
        moments = softmax_outcome(MeanVariance(mean, variance)).moments
        return moments.mean, moments.variance

    graph = tf.function(run).get_concrete_function(spec, spec).graph
    shapes = [
        tensor.shape.as_list()
        for operation in graph.get_operations()
        for tensor in operation.outputs
        if tensor.shape.rank is not None
    ]
    assert [None, classes] in shapes
    assert not [each for each in shapes if each.count(classes) > 1]


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_inputs_that_nobody_scaled(covariance):
    """Pixels from 0 to 255 give huge logits; predictions stay valid."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    x = np.random.default_rng(0).uniform(0, 255, (40, 64)).astype("float32")
    sampled = kbd.predict_with_uncertainty(model, x, 2000, seed=0, verbose=0)
    prediction = kbd.predict_with_uncertainty(
        model, x, verbose=0, method=kbd.Moments(covariance=covariance)
    )
    assert prediction.std.max() <= 0.5
    pair = np.corrcoef(prediction.std.ravel(), sampled.std.ravel())
    assert pair[0, 1] > 0.98
    np.testing.assert_allclose(prediction.mean, sampled.mean, atol=0.08)


def test_the_last_axis_of_a_sequence():
    mean, variance, _ = _logits(4, 1.0, 2.0, False)
    flat = MeanVariance(tf.constant(mean), tf.constant(variance))
    folded = MeanVariance(
        tf.constant(mean.reshape(3, 4, 4)),
        tf.constant(variance.reshape(3, 4, 4)),
    )
    for name in ("mean", "variance"):
        np.testing.assert_allclose(
            np.reshape(
                getattr(softmax_outcome(folded).moments, name), (ROWS, 4)
            ),
            getattr(softmax_outcome(flat).moments, name),
            rtol=1e-12,
        )
