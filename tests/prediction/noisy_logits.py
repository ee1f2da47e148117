# SPDX-License-Identifier: Apache-2.0
"""Models with noisy logits, and their probabilities by hand."""

import keras
import numpy as np
import scipy.special

import keras_bayesdrop as kbd
from tests.helpers import flat
from tests.prediction.two_outputs import split_outputs
from tests.random.test_rng import philox_words

layers = keras.layers

SEED = 3
SAMPLES = 20
LIMIT = 2.0  # So low that it clips some, and not all.
DRAWS = 12
HEAD = kbd.NoisyLogits(num_draws=DRAWS, log_variance_limit=LIMIT)
TWO = kbd.NoisyLogits("f", "s", num_draws=DRAWS, log_variance_limit=LIMIT)
X = np.random.default_rng(0).normal(size=(9, 3)).astype("float32")


def weighted(model, scale=1.0):
    rng = np.random.default_rng(1)
    model.set_weights(
        [scale * rng.normal(size=w.shape) for w in model.get_weights()]
    )
    return model


def network(classes=3, rate=0.3, shape=None, dtype=None):
    stack = [
        keras.Input((3,)),
        layers.Dense(16, activation="relu", dtype=dtype),
        layers.Dropout(rate, dtype=dtype),
        layers.Dense(16, activation="tanh", dtype=dtype),
        layers.Dropout(rate, dtype=dtype),
        layers.Dense(2 * classes, dtype=dtype),
    ]
    if shape is not None:
        stack.append(layers.Reshape(shape))
    return weighted(keras.Sequential(stack), 0.7)


def split(model, outputs=lambda f, s: {"f": f, "s": s}):
    """Returns the same network with two outputs."""
    return split_outputs(model, ("f", "s"), outputs)


def predict(model, x=X, **arguments):
    settings = {
        "num_samples": SAMPLES,
        "seed": SEED,
        "verbose": 0,
        "head": HEAD,
        "draws": "independent",
        **arguments,
    }
    return kbd.predict_with_uncertainty(model, x, **flat(**settings))


def averaged(raw, shared, seed=SEED, draws=DRAWS, output=0, first_row=0):
    """Averages the softmax over draws that follow from the contract.

    Args:
        raw: Logits and log variances, [samples, rows, ..., 2 * classes].
        shared: Whether all rows take the same draws.
        seed: The seed.
        draws: How many there are.
        output: Number of the output.
        first_row: Number of the first row.
    """
    logits, log_variance = np.split(raw.astype("float64"), 2, axis=-1)
    scale = np.exp(0.5 * np.clip(log_variance, -LIMIT, LIMIT))
    count, rows, *dims = logits.shape
    numbered = range(1) if shared else range(first_row, first_row + rows)
    total = np.zeros_like(logits)
    for pair in range(draws // 2):
        site = 2**30 + output * 2**15 + pair
        words = philox_words(
            seed, site, range(count), numbered, int(np.prod(dims))
        )
        normal = scipy.special.ndtri((words.astype("float64") + 0.5) / 2**32)
        noise = np.moveaxis(normal, 0, 1).reshape(count, len(numbered), *dims)
        for sign in (1, -1):
            noisy = logits + sign * scale * noise
            total += scipy.special.softmax(noisy, axis=-1)
    return total / draws


def raw_samples(model, x=X, **arguments):
    """Returns samples of the outputs themselves."""
    settings = {"head": "regression", "return_samples": True, **arguments}
    p = predict(model, x, **settings)
    raw = np.concatenate(
        [each.samples for each in keras.tree.flatten(p)], axis=-1
    )
    log_variance = np.split(raw, 2, axis=-1)[1]
    assert (np.abs(log_variance) > LIMIT).any()
    assert (np.abs(log_variance) < LIMIT).any()
    return raw
