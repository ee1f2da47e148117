# SPDX-License-Identifier: Apache-2.0
"""A worker of a `MultiWorkerMirroredStrategy`: writes what it predicts.

`TF_CONFIG` says which worker it is. The folder that it writes to is given.
"""

import contextlib
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.helpers import flat

ROWS = 9
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
# Of 9 rows the first worker has 4. In batches of 4 and 8 the last has 1 row, of
# which the workers share the samples.
CASES = {
    "rows": {"masks": "independent", "quantiles": (0.2, 0.8)},
    "batches": {
        "masks": "independent",
        "batch_size": 4,
        "return_samples": True,
        "num_samples": 40,
    },
    "adaptive": {"num_samples": 200, "tolerance": 0.05},
    "one block": {"num_samples": 10, "batch_size": 8},
    "balanced": {
        "draws": "balanced",
        "engine": "reference",
        "batch_size": 4,
        "num_samples": 50,
    },
    "balanced, adaptive": {
        "draws": "balanced",
        "engine": "reference",
        "num_samples": 200,
        "tolerance": 0.05,
    },
    "learned noise": {
        "head": "heteroscedastic",
        "batch_size": 4,
        "return_samples": True,
        "num_samples": 40,
    },
    "learned noise, adaptive": {
        "head": "heteroscedastic",
        "num_samples": 200,
        "tolerance": 0.1,
    },
}
FIELDS = (
    "mean",
    "variance",
    "mean_entropy",
    "vote_counts",
    "samples",
    "quantile_values",
    "num_samples_used",
    "noise_variance",
    "noise_samples",
    "mean_variance",
)


def build(scope=None, name=""):
    """Makes the same model in every process, for the case of a name."""
    noisy = name.startswith("learned noise")
    last = {"units": 4} if noisy else {"units": 3, "activation": "softmax"}
    with scope or contextlib.nullcontext():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(8, activation="tanh"),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(**last),
            ]
        )
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


def predict(model, **arguments):
    return kbd.predict_with_uncertainty(
        model, X, **flat(**{"seed": 7, "verbose": 0, **arguments})
    )


def arrays(prediction):
    """Returns the arrays of a prediction by name."""
    found = {name: getattr(prediction, name) for name in FIELDS}
    return {name: x for name, x in found.items() if x is not None}


def message(*arguments, **keywords):
    """Returns what a prediction that fails says."""
    try:
        kbd.predict_with_uncertainty(*arguments, verbose=0, **flat(**keywords))
    except kbd.BayesdropError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main():
    folder = pathlib.Path(sys.argv[1])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker = strategy.cluster_resolver.task_id
    model = build(strategy.scope())
    found = {}
    for name, arguments in CASES.items():
        p = predict(build(strategy.scope(), name), **arguments)
        found |= {f"{name}/{key}": x for key, x in arrays(p).items()}
        found[f"{name}/replicas"] = p.stats.num_replicas
    p = predict(model, seed=None)
    found["no seed/mean"] = p.mean
    found["no seed/seed"] = str(p.stats.seed)
    # Doubled, a row of the first worker overflows.
    huge = np.where(np.arange(ROWS)[:, None] == 1, np.float32(3e38), X)
    with strategy.scope():
        linear = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dropout(0.5), keras.layers.ReLU()]
        )
    found["failure"] = message(linear, huge, seed=0, head="regression")
    found["different"] = message(model, X, 10 + worker, seed=0)
    # What came before leaves the workers in step.
    found["after/mean"] = predict(model).mean
    np.savez(folder / f"worker{worker}.npz", **found)


if __name__ == "__main__":
    main()
