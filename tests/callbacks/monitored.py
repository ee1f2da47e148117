# SPDX-License-Identifier: Apache-2.0
"""Models to monitor, and logs computed from the samples."""

import keras
import numpy as np
import scipy.special

import keras_bayesdrop as kbd
from keras_bayesdrop.callbacks import UncertaintyMonitor
from tests.helpers import flat

SEED = 3
SAMPLES = 12


def make_data(rows=20):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    return x, x @ np.array([[1.0], [2.0], [0.0], [-1.0]], np.float32)


def make_model(outputs=1, activation=None, loss="mse", rate=0.3):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    model.compile(keras.optimizers.SGD(0.05), loss)
    return model


def evaluated(model, data, **kwargs):
    settings = {"num_samples": SAMPLES, "seed": SEED, **kwargs}
    monitor = UncertaintyMonitor(data, **flat(**settings))
    monitor.set_model(model)
    return monitor.evaluate()


def samples_of(model, x, **kwargs):
    """All samples in float64, [samples, rows, outputs]."""
    p = kbd.predict_with_uncertainty(
        model,
        x,
        SAMPLES,
        seed=SEED,
        return_samples=True,
        verbose=0,
        **flat(**kwargs),
    )
    return keras.tree.map_structure(
        lambda part: part.samples.astype(np.float64), p
    )


def gaussian_nll(samples, y, tau):
    """Gal's test log-likelihood, with its sign turned."""
    squared = ((samples - y) ** 2).sum(axis=-1)
    dims = y.shape[-1]
    return -np.mean(
        scipy.special.logsumexp(-0.5 * tau * squared, axis=0)
        - np.log(len(samples))
        - dims / 2 * np.log(2 * np.pi / tau)
    )


def calibration_error(confidence, right, bins=15):
    """Expected calibration error, bin by bin."""
    total = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            gap = right[inside].mean() - confidence[inside].mean()
            total += inside.mean() * abs(gap)
    return total


def expected_classes(p, labels):
    mean = p.mean(axis=0)
    chosen = mean[np.arange(len(labels)), labels]
    right = mean.argmax(axis=-1) == labels
    entropy = -np.sum(scipy.special.xlogy(mean, mean), axis=-1)
    each = -np.sum(scipy.special.xlogy(p, p), axis=-1)
    return {
        "mc_nll": -np.mean(np.log(chosen)),
        "mc_accuracy": right.mean(),
        "mc_ece": calibration_error(mean.max(axis=-1), right),
        "mutual_information": np.mean(entropy - each.mean(axis=0)),
        "epistemic": p.var(axis=0, ddof=1).mean(),
    }


def assert_logs(logs, expected, prefix="val_"):
    named = {prefix + key: value for key, value in expected.items()}
    for key, value in named.items():
        assert key in logs, (key, sorted(logs))
        assert isinstance(logs[key], float), key
        np.testing.assert_allclose(
            logs[key], value, rtol=2e-4, atol=1e-6, err_msg=key
        )
