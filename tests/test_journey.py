# SPDX-License-Identifier: Apache-2.0
"""What a user does from training to serving, each part in a new process."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Plain Keras: nothing of this package is imported.
TRAIN = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
x = random.normal(size=(900, 2)).astype("float32")
# Three sectors around the origin; one label of ten is a slip.
angle = np.arctan2(x[:, 1], x[:, 0])
y = ((angle + np.pi) / (2 * np.pi) * 3).astype(int) % 3
slip = random.random(900) < 0.1
y[slip] = random.integers(0, 3, slip.sum())
np.savez("data.npz", x=x, y=y)
model = keras.Sequential([
    keras.Input((2,), name="place"),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(3, activation="softmax", name="sector"),
])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(x[:300], y[:300], epochs=20, verbose=0)
model.save("model.keras")
"""

# Somebody else, who gets the file.
DECIDE = """
import json

import keras
import numpy as np

import keras_bayesdrop as kbd

model = keras.models.load_model("model.keras")
before = [weight.copy() for weight in model.get_weights()]
data = np.load("data.npz")
x, y = data["x"], data["y"]
settings = dict(num_samples=40, seed=7, verbose=0, return_samples=True)
validation = kbd.predict_with_uncertainty(model, x[300:600], **settings)
test = kbd.predict_with_uncertainty(model, x[600:], **settings)
soft = kbd.calibrate.temperature(y[300:600], validation)
sets = kbd.calibrate.conformal(y[300:600], validation, level=0.9).sets(test)
deferral = test.defer(budget=0.2, y=y[600:])
kbd.export_uncertainty(
    model, "served", num_samples=40, seed=7, outputs=("mean", "std", "entropy")
)
test.save("test.npz")
same = all(map(np.array_equal, before, model.get_weights()))
print(json.dumps({
    "same": same,
    "accuracy": kbd.metrics.accuracy(y[600:], test),
    "likelihood": kbd.metrics.negative_log_likelihood(y[600:], test),
    "tempered": kbd.metrics.negative_log_likelihood(
        y[600:], soft.apply(test)
    ),
    "covered": float(sets[np.arange(300), y[600:]].mean()),
    "risk": deferral.risk,
    "full_risk": deferral.full_risk,
    "handed_over": len(deferral.rows),
}))
"""

# A server, on which this package was never installed.
SERVE = """
import sys

sys.modules["keras_bayesdrop"] = None

import numpy as np
import tensorflow as tf

x = np.load("data.npz")["x"][600:]
served = tf.saved_model.load("served").signatures["serving_default"]
answer = served(place=tf.constant(x))
np.savez("answer.npz", **{name: t.numpy() for name, t in answer.items()})
"""


@pytest.fixture(scope="module")
def journey(tmp_path_factory):
    folder = tmp_path_factory.mktemp("journey")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = ""
    for part in (TRAIN, DECIDE, SERVE):
        done = subprocess.run(
            [sys.executable, "-c", part],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        printed += done.stdout
    found = json.loads(printed.strip().splitlines()[-1])
    return folder, found


def test_the_model_is_left_as_it_was(journey):
    assert journey[1]["same"]


def test_it_predicts_and_is_calibrated(journey):
    found = journey[1]
    # A slip hits the right one of three by chance: 0.933 at best.
    assert 0.85 < found["accuracy"] < 0.96
    # One number, fitted on other rows of the same kind, can lose a little.
    assert found["tempered"] < found["likelihood"] + 0.02
    # 300 rows to calibrate on and 300 to measure: the coverage scatters by
    # sqrt(2 * 0.09 / 300) = 0.025; four of them below, and sets that hold
    # whole classes may hold more.
    assert found["covered"] > 0.8


def test_who_hands_over_the_unsure_errs_less(journey):
    found = journey[1]
    assert found["handed_over"] == 60
    assert found["risk"] < found["full_risk"]


def test_the_server_says_what_the_library_says(journey):
    folder, _ = journey
    with np.load(folder / "answer.npz") as answer:
        served = dict(answer)
    from keras_bayesdrop import Predictive

    expected = Predictive.load(folder / "test.npz")
    # Float32 sums of 64 products, in another order; 40 samples of them.
    for name, quantity in {
        "mean": expected.mean,
        "std": expected.std,
        "entropy": expected.predictive_entropy,
    }.items():
        np.testing.assert_allclose(served[name], quantity, rtol=1e-4, atol=1e-5)
