# SPDX-License-Identifier: Apache-2.0
"""Exports with balanced draws say the same of their error as predictions."""

import keras
import numpy as np
import pytest

from tests.serving.exports import export
from tests.serving.exports import named_inputs
from tests.serving.exports import predict

layers = keras.layers
X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
NAMES = ("mean", "variance", "std", "mc_error", "aleatoric", "total")


def network(activation=None, size=1.0, noise=None):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,), name="features"),
            layers.Dense(16, activation="tanh"),
            noise or layers.Dropout(0.3),
            layers.Dense(2, activation=activation),
        ]
    )
    *first, kernel, bias = model.get_weights()
    model.set_weights([*first, size * kernel, size * bias])
    return model


def assert_served(model, path, num_samples, names=NAMES, **options):
    """Returns the prediction, after comparing an export with it."""
    options = {"num_samples": num_samples, "draws": "balanced", **options}
    signatures = export(model, path, outputs=names, **options)
    first = model[0] if isinstance(model, list) else model
    answers = signatures["serving_default"](**named_inputs(first, X))
    p = predict(model, X, **options)
    for name in names:
        # As in `test_export`: the order of sums, and one more rounding.
        np.testing.assert_allclose(
            answers[name], getattr(p, name), rtol=1e-4, atol=0, err_msg=name
        )
    return p


@pytest.mark.parametrize("num_samples", [20, 50])
def test_numbers(num_samples, tmp_path):
    p = assert_served(network(), tmp_path / "m", num_samples)
    plain = p.std / np.sqrt(num_samples)
    assert np.all(p.mc_error < 0.97 * plain) == (num_samples > 31)


def test_classes(tmp_path):
    names = (*NAMES, "mutual_information")
    assert_served(network("softmax"), tmp_path / "m", 50, names)


def test_requests_of_which_few_samples_fit(tmp_path):
    """Four samples at a time: a block of 16 is never at hand as a whole."""
    p = assert_served(network(), tmp_path / "m", 50, batch_size=20)
    assert p.stats.draws == "balanced"


def test_ensemble_with_a_network_without_noise(tmp_path):
    members = [network(size=1.0), network(size=2.0, noise=layers.Identity())]
    assert_served(members, tmp_path / "m", 50)


def test_ensemble(tmp_path):
    members = [network(size=1.0), network(size=2.0)]
    p = assert_served(members, tmp_path / "m", 50)
    plain = np.sqrt(p.variance / 100)
    assert np.all(p.mc_error < 0.95 * plain)


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_numbers_of_any_size(size, tmp_path):
    names = ("mean", "std", "mc_error")
    p = assert_served(network(size=size), tmp_path / "m", 50, names)
    assert np.all(p.mc_error > 0) and np.all(np.isfinite(p.mc_error))
