# SPDX-License-Identifier: Apache-2.0
"""Models that are no regression, and do not say what they are."""

import keras

import keras_bayesdrop as kbd
from tests.prediction.head_models import SPARSE
from tests.prediction.head_models import Wrapping
from tests.prediction.head_models import concrete
from tests.prediction.head_models import dense
from tests.prediction.head_models import images
from tests.prediction.head_models import own
from tests.prediction.head_models import own_activation
from tests.prediction.head_models import sequence
from tests.prediction.head_models import steps

layers = keras.layers
losses = keras.losses

# Name: (builds the model, a part of the error's message).
ERRORS = {
    "linear, cross-entropy": (
        lambda: sequence(dense(3, None), loss=SPARSE),
        r"Classification\(from_logits=True\).*linear of `dense",
    ),
    "linear, binary cross-entropy": (
        lambda: sequence(dense(1, None), loss=losses.BinaryCrossentropy()),
        r"activation='sigmoid'.*Binary\(from_logits=True\)",
    ),
    "concrete linear, cross-entropy": (
        lambda: sequence(concrete(dense(3, None)), loss=SPARSE),
        "from_logits=True",
    ),
    "relu, cross-entropy": (
        lambda: sequence(
            dense(3, None), layers.ReLU(), loss="categorical_crossentropy"
        ),
        "ReLU of",
    ),
    "linear, focal": (
        lambda: sequence(
            dense(3, None), loss=losses.CategoricalFocalCrossentropy()
        ),
        "CategoricalFocalCrossentropy",
    ),
    "linear, divergence": (
        lambda: sequence(dense(3, None), loss="kld"),
        "activation='softmax'",
    ),
    "softmax over another axis": (
        lambda: steps(dense(3, None), layers.Softmax(axis=1), loss=SPARSE),
        "over another axis than the last",
    ),
    "sigmoid, classes": (
        lambda: sequence(dense(3, "sigmoid"), loss=SPARSE),
        "disagree.*head='binary' or head='classification'",
    ),
    "linear, dice": (
        lambda: images(dense(2, None), loss=losses.Dice()),
        "does not say of which kind.*head='binary'",
    ),
    "own call, linear, cross-entropy": (
        lambda: own(None, loss=SPARSE),
        "not the probabilities of a classification.*sums from",
    ),
    "own call, linear, binary cross-entropy": (
        lambda: own(None, loss="binary_crossentropy"),
        "not the probabilities of a binary",
    ),
    "lambda, cross-entropy": (
        lambda: sequence(
            dense(3, None), layers.Lambda(lambda x: x), loss=SPARSE
        ),
        "not the probabilities",
    ),
    "lambda, noise, cross-entropy": (
        lambda: sequence(
            dense(3, None),
            layers.Lambda(lambda x: x),
            layers.Dropout(0.2),
            loss=SPARSE,
        ),
        "not the probabilities",
    ),
    "somebody's wrapper changes values": (
        lambda: sequence(Wrapping(dense(), 2.0)),
        "not the probabilities",
    ),
}

# Name: builds a model whose regression has to be a warning.
WARNINGS = {
    "own call": own,
    "own call, mse": lambda: own(loss="mse"),
    "lambda": lambda: sequence(
        dense(3, None), layers.Lambda(keras.ops.softmax)
    ),
    "own activation": lambda: sequence(dense(3, own_activation)),
    "places": lambda: images(dense(2, own_activation)),
    "softmax, Gaussian": lambda: sequence(
        dense(3), loss=kbd.losses.GaussianNLL(4.0)
    ),
}
