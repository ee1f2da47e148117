# SPDX-License-Identifier: Apache-2.0
"""Conformal sets of a dropout network that was trained on digits."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd

LEVEL = 0.9


def predicted_digits(noise, epochs):
    """Predictions and labels of digits that the network has not seen."""
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    x = (x[order] / 16 + noise * rng.standard_normal(x.shape)).astype("float32")
    y = y[order]
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy"
    )
    model.fit(x[:700], y[:700], epochs=epochs, verbose=0)
    p = kbd.predict_with_uncertainty(
        model, x[700:], num_samples=50, seed=0, verbose=0
    )
    return p, y[700:]


def coverage_and_sizes(p, y, **options):
    """Coverage and sizes over 20 splits into two halves of 548 rows."""
    coverage, sizes = [], []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(y))
        first, second = order[:548], order[548:]
        fit = kbd.calibrate.conformal(
            y[first], p[first], LEVEL, seed=seed, **options
        )
        sets = fit.sets(p[second])
        coverage.append(sets[np.arange(len(second)), y[second]].mean())
        sizes.append(sets.sum(axis=1))
    return np.mean(coverage), np.concatenate(sizes)


# Over all splits of a fixed set of N = 1,097 rows into halves, the coverage is
# 0.9 to 0.9 + 1 / 549 on average. One split has a standard deviation of about
# sqrt(0.09 / 548 + 0.09 / 549) = 0.018; four of the mean of 20 are 0.0162.
TOLERANCE = 0.0162


def test_sets_of_a_sure_network_are_small():
    p, y = predicted_digits(noise=0.0, epochs=25)
    accuracy = np.mean(p.mean.argmax(axis=1) == y)
    assert accuracy > 0.95
    for method in ("aps", "raps", "lac"):
        coverage, sizes = coverage_and_sizes(p, y, method=method)
        assert coverage > LEVEL - TOLERANCE
        assert sizes.min() == 1
        assert sizes.mean() <= 1.3
    coverage, sizes = coverage_and_sizes(p, y, randomize=True, allow_empty=True)
    assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)
    assert sizes.min() == 0


def test_sets_of_noisy_digits_cover_exactly():
    p, y = predicted_digits(noise=0.5, epochs=10)
    accuracy = np.mean(p.mean.argmax(axis=1) == y)
    assert 0.5 < accuracy < 0.8
    for method in ("aps", "raps", "lac"):
        coverage, sizes = coverage_and_sizes(p, y, method=method)
        assert coverage == pytest.approx(LEVEL, abs=TOLERANCE)
        assert sizes.min() == 1
        assert 1.5 < sizes.mean() < 5
