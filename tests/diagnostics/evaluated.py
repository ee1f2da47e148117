# SPDX-License-Identifier: Apache-2.0
"""Small models and labelled data to evaluate."""

import keras
import numpy as np

import keras_bayesdrop as kbd

ROWS = 60
SETTINGS = {"num_samples": 8, "seed": 1, "num_resamples": 50, "verbose": 0}


def data(outputs=1):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    return x, rng.normal(size=(ROWS, outputs)).astype("float32")


def labels(classes=3):
    return np.random.default_rng(2).integers(classes, size=ROWS)


def model(outputs=1, activation=None, loss="mse", seed=0):
    keras.utils.set_random_seed(seed)
    network = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(0.4),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    network.compile("sgd", loss)
    return network


def classifier(classes=3):
    return model(classes, "softmax", "sparse_categorical_crossentropy")


def two_outputs(structure):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dropout(0.4)(keras.layers.Dense(8)(inputs))
    dense = keras.layers.Dense
    outputs = {
        "price": dense(1, name="price")(hidden),
        "kind": dense(3, activation="softmax", name="kind")(hidden),
    }
    if structure == "list":
        outputs = list(outputs.values())
    return keras.Model(inputs, outputs)


def evaluate(network, *arguments, **options):
    return kbd.evaluate_with_uncertainty(
        network, *arguments, **{**SETTINGS, **options}
    )


def predict(network, x, **options):
    return kbd.predict_with_uncertainty(
        network,
        x,
        SETTINGS["num_samples"],
        seed=SETTINGS["seed"],
        verbose=0,
        **options,
    )


def assert_same(actual, desired, rtol=0.0):
    """Asserts that two evaluations have the same numbers."""
    assert set(actual.estimates) == set(desired.estimates)
    for name, estimate in actual.to_dict().items():
        for end, value in estimate.items():
            np.testing.assert_allclose(
                value,
                desired.to_dict()[name][end],
                rtol=rtol,
                # A coverage may move by one row, and so by 1 / ROWS.
                atol=1e-6 if rtol else 0.0,
                err_msg=f"{name} {end}",
            )
