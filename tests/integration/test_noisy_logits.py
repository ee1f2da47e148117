# SPDX-License-Identifier: Apache-2.0
"""Noisy logits, trained on labels that are flipped in a known region."""

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.losses import NoisyLogitsCrossentropy

layers = keras.layers

CLASSES = 3
# Where a label is drawn at random with this probability.
EDGE, FLIPPED = 0.5, 0.9


def labelled(count, seed):
    """Points, class numbers, and which of them lie in the noisy region."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(count, 2)).astype("float32")
    y = np.digitize(x[:, 1], [-0.7, 0.7])
    noisy = x[:, 0] > EDGE
    drawn = rng.integers(0, CLASSES, count)
    flips = noisy & (rng.uniform(size=count) < FLIPPED)
    return x, np.where(flips, drawn, y), noisy


@pytest.fixture(scope="module")
def fitted():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.05),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.05),
            layers.Dense(2 * CLASSES),
        ]
    )
    x, y, _ = labelled(6000, seed=1)
    schedule = keras.optimizers.schedules.CosineDecay(5e-3, 700)
    model.compile(
        keras.optimizers.Adam(schedule), NoisyLogitsCrossentropy(seed=2)
    )
    model.fit(x, y, epochs=15, batch_size=128, verbose=0)
    return model


def predict(model, x, **arguments):
    settings = {"num_samples": 40, "seed": 3, "verbose": 0, **arguments}
    return kbd.predict_with_uncertainty(model, x, **settings)


def test_noise_of_labels_is_told_from_ignorance(fitted):
    x, y, noisy = labelled(3000, seed=4)
    # Leave out points next to the border of a class or of the region.
    gaps = np.abs(x[:, 1:] - [[-0.7, 0.7]]).min(axis=1)
    clear = (gaps > 0.25) & (np.abs(x[:, 0] - EDGE) > 0.25)
    p = predict(fitted, x)
    # Labels of the region: 0.4 for one class and 0.3 for each other.
    chances = np.array([1 - 2 * FLIPPED / 3, FLIPPED / 3, FLIPPED / 3])
    truth = -np.sum(chances * np.log(chances))
    there = p.expected_entropy[clear & noisy]
    elsewhere = p.expected_entropy[clear & ~noisy]
    assert np.abs(np.mean(there) - truth) < 0.1 * truth
    assert np.mean(elsewhere) < 0.1 * truth
    # The network has seen as many points there, and knows as much.
    assert np.mean(p.mutual_information[clear & noisy]) < 0.05 * truth
    assert np.mean(p.mutual_information) < 0.05 * truth
    # The log-likelihood is that of the truth, up to what 3000 points tell.
    inside = p.log_likelihood(y)[noisy].mean()
    assert -truth - 0.1 < inside < -truth + 0.1


def test_what_takes_classes_takes_these(fitted, tmp_path):
    x, y, noisy = labelled(600, seed=5)
    p = predict(fitted, x, return_samples=True)
    assert p.head.observation == "class" and p.mean.shape == (600, CLASSES)
    np.testing.assert_allclose(p.mean.sum(-1), 1, atol=1e-5)
    assert kbd.metrics.accuracy(y[~noisy], p[~noisy]) > 0.95
    assert 0 <= kbd.metrics.expected_calibration_error(y, p) < 0.1
    fit = kbd.calibrate.conformal(y[:300], p[:300], level=0.9)
    sets = fit.sets(p[300:])
    # Five deviations of a coverage of 300 rows by a fit of 300 rows.
    assert (
        sets[np.arange(300), y[300:]].mean() > 0.9 - 5 * 0.3 * (2 / 300) ** 0.5
    )
    kbd.calibrate.temperature(y[:300], p[:300])
    # The noisy region is deferred.
    rows = p.defer(budget=0.25).rows
    assert noisy[rows].mean() > 0.9
    assert len(p.to_frame()) == 600
    p.plot()
    plt.close("all")
    p.save(tmp_path / "p.npz")
    loaded = kbd.Predictive.load(tmp_path / "p.npz")
    assert loaded.head == p.head
    evaluation = kbd.evaluate_with_uncertainty(
        fitted, x, y, num_samples=10, seed=0, verbose=0
    )
    assert "accuracy" in str(evaluation)


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x, *_ = labelled(20, seed=6)
    np.testing.assert_array_equal(
        predict(loaded, x).mean, predict(fitted, x).mean
    )


def test_monitor(fitted):
    x, y, _ = labelled(60, seed=7)
    model = keras.models.clone_model(fitted)
    model.set_weights(fitted.get_weights())
    model.compile("sgd", NoisyLogitsCrossentropy())
    monitor = kbd.callbacks.UncertaintyMonitor((x, y), num_samples=5)
    logs = model.fit(x, y, verbose=0, callbacks=[monitor]).history
    assert any("mutual_information" in name for name in logs), logs
