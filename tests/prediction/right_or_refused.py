# SPDX-License-Identifier: Apache-2.0
"""Predictions of unusual layers, and the masks that samples show."""

import warnings

import numpy as np
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.random.philox import counter_words
from keras_bayesdrop.random.philox import rate_to_threshold
from tests.helpers import flat

THREE_BEATS = "(?s)Expected.*Received"


def predict(model, x, samples=20, **kwargs):
    settings = {"seed": 5, "return_samples": True, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(model, x, samples, **flat(**settings))


def quiet(model, x, samples=20, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kbd.BayesdropWarning)
        return predict(model, x, samples, **kwargs)


def keeps(site, samples, rows, units, rate=0.5, seed=5):
    """Returns which units the counters keep, [samples, rows, units]."""
    words = counter_words(
        tf.constant(seed, tf.uint64),
        site,
        0,
        samples,
        -(-samples // 16),
        0,
        rows,
        units,
        balanced=True,
    )
    return np.swapaxes(words.numpy() >= rate_to_threshold(rate), 0, 1)
