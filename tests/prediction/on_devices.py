# SPDX-License-Identifier: Apache-2.0
"""Predicts on one and on three devices and prints how results differ.

Arguments are the names of cases.

A program of its own: logical devices are made before TensorFlow starts.
"""

import functools
import json
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.engines import spread
from tests.helpers import flat

DEVICES = 3
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES
)
STRATEGY = tf.distribute.MirroredStrategy(
    [f"CPU:{number}" for number in range(DEVICES)]
)
layers = keras.layers
rng = np.random.default_rng(0)
X = rng.normal(size=(11, 6)).astype("float32")
WORDS = rng.integers(0, 5, size=(11, 7))


def masks_only():
    """Outputs are the masks: ones, dropped and scaled by a power of two."""
    return keras.Sequential([keras.Input((6,)), layers.Dropout(0.5)])


def dense():
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="tanh"),
            layers.Dropout(0.2),
            layers.Dense(17, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(3, activation="softmax"),
        ]
    )


def masked():
    """A Keras mask, made before the noise; noise of one shape for all steps."""
    return keras.Sequential(
        [
            keras.Input((7,)),
            layers.Embedding(5, 4, mask_zero=True),
            layers.SpatialDropout1D(0.3),
            layers.GRU(5, recurrent_dropout=0.2),
            layers.Dense(2),
        ]
    )


def two_outputs():
    inputs = keras.Input((6,))
    hidden = layers.GaussianDropout(0.3)(layers.Dense(9)(inputs))
    return keras.Model(
        inputs,
        {
            "a": layers.Dense(2)(hidden),
            "b": layers.Dense(1, activation="sigmoid")(hidden),
        },
    )


def weights_drawn():
    return keras.Sequential(
        [
            keras.Input((6,)),
            kbd.layers.VariationalDense(5, 50, prior="gaussian"),
            layers.Dense(2),
        ]
    )


def arrays(prediction):
    """Returns all that a prediction holds, by name."""
    found = {}
    for index, each in enumerate(keras.tree.flatten(prediction)):
        for name in (
            "mean",
            "variance",
            "samples",
            "quantile_values",
            "mean_entropy",
            "vote_counts",
            "num_samples_used",
            "noise_variance",
            "noise_samples",
        ):
            value = getattr(each, name, None)
            if value is not None:
                found[f"{index} {name}"] = np.asarray(value, np.float64)
    return found


def difference(one, many):
    """Returns the largest difference, relative to the largest number."""
    one, many = arrays(one), arrays(many)
    assert one.keys() == many.keys(), (one.keys(), many.keys())
    return max(
        float(np.abs(one[name] - many[name]).max() / np.abs(one[name]).max())
        for name in one
    )


def used():
    """Which spread engines were made since the last call."""
    kinds, seen[:] = sorted(set(seen)), []
    return kinds


seen = []
make = spread.Spread.__init__


def watched(self, engine, strategy, devices):
    seen.append(f"{self.axis} {len(devices)}")
    make(self, engine, strategy, devices)


spread.Spread.__init__ = watched


def compare(build, x, **arguments):
    """Predicts on one device, and on all; returns what was found."""
    keras.utils.set_random_seed(3)
    alone = build()
    with STRATEGY.scope():
        together = build()
    together.set_weights(alone.get_weights())
    arguments = {"seed": 5, "verbose": 0, **arguments}
    one = kbd.predict_with_uncertainty(alone, x, **flat(**arguments))
    assert used() == []
    many = kbd.predict_with_uncertainty(together, x, **flat(**arguments))
    kinds = used()
    stats = keras.tree.flatten(many)[0].stats
    return {
        "difference": difference(one, many),
        "kinds": kinds,
        "replicas": stats.num_replicas,
    }


def local_variables():
    """Reads no variable of another device: changes the copy of one."""
    with STRATEGY.scope():
        model = keras.Sequential(
            [keras.Input((1,)), layers.Dropout(0.5), layers.Dense(1)]
        )
    kernel = model.layers[-1].kernel.value
    for number, copy in enumerate(STRATEGY.experimental_local_results(kernel)):
        copy.assign([[float(number + 1)]])
    p = kbd.predict_with_uncertainty(
        model,
        np.ones((6, 1)),
        4096,
        seed=0,
        verbose=0,
        method=kbd.Sampling(engine="reference"),
    )
    return np.round(p.mean[:, 0]).tolist()


def within_scope():
    """A model made outside of the scope in which it predicts."""
    model = dense()
    one = kbd.predict_with_uncertainty(model, X, seed=1, verbose=0)
    with STRATEGY.scope():
        many = kbd.predict_with_uncertainty(model, X, seed=1, verbose=0)
    return {
        "difference": difference(one, many),
        "kinds": used(),
        "replicas": many.stats.num_replicas,
    }


def case(build, x, **arguments):
    return functools.partial(compare, build, x, **arguments)


ones = np.ones((11, 6), np.float32)
stream = tf.data.Dataset.from_tensor_slices(X).batch(4)
keep = {"return_samples": True, "num_samples": 40}
own = {"masks": "independent"}
CASES = {
    "masks shared": case(masks_only, ones, **keep),
    "masks independent": case(masks_only, ones, **keep, **own),
    "masks of few rows shared": case(masks_only, ones[:2], **keep),
    "masks of few rows independent": case(masks_only, ones[:2], **keep, **own),
    "quantiles": case(dense, X, quantiles=(0.1, 0.9), **own),
    "adaptive": case(dense, X, num_samples=200, tolerance=0.03, **own),
    "weights": case(weights_drawn, X, **own),
    "one row": case(dense, X[:1], engine="reference"),
    "one row, one block": case(dense, X[:1], num_samples=16),
    "two rows, one block": case(dense, X[:2], num_samples=16),
    "stream": case(dense, stream),
    "masked": case(masked, WORDS, **own),
    "learned noise": case(masks_only, X, head="heteroscedastic", **keep),
    "two outputs": case(two_outputs, X, batch_size=4),
    "rao_blackwell": case(dense, X, method="rao_blackwell"),
    "moments": case(dense, X, method="moments"),
    "far rows": case(dense, X, first_row=10**12, **own),
    "scope": within_scope,
    "variables": local_variables,
}
print(json.dumps({name: CASES[name]() for name in sys.argv[1:]}))  # noqa: T201
