# SPDX-License-Identifier: Apache-2.0
"""Variational layers for tests."""

import keras
import numpy as np

from keras_bayesdrop.layers import VariationalConv1D
from keras_bayesdrop.layers import VariationalConv2D
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.layers import VariationalDropout
from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.priors import StudentTPrior

N = {"num_train_examples": 50, "prior": "log_uniform"}
DENSE = {"units": 4, **N}
CONV = {"filters": 4, "kernel_size": 2, **N}
MULTIPLICATIVE = {"parametrization": "multiplicative"}
CORRELATED = {"parametrization": "correlated"}
# Name, class, arguments, shapes of an input and its output.
LAYERS = (
    ("additive", VariationalDense, DENSE, (3, 7), (3, 4)),
    (
        "limited",
        VariationalDense,
        {**DENSE, "log_alpha_limit": 8.0, "train_threshold": 3.0},
        (3, 7),
        (3, 4),
    ),
    (
        "multiplicative",
        VariationalDense,
        {**DENSE, **MULTIPLICATIVE, "kl": "kingma"},
        (3, 7),
        (3, 4),
    ),
    (
        "rows",
        VariationalDense,
        {**DENSE, **MULTIPLICATIVE, "alpha": "row"},
        (3, 5, 7),
        (3, 5, 4),
    ),
    (
        "correlated",
        VariationalDense,
        {**DENSE, **CORRELATED, "prior": "gaussian"},
        (3, 7),
        (3, 4),
    ),
    (
        "gaussian",
        VariationalDense,
        {**DENSE, "prior": GaussianPrior(0.3), "use_bias": False},
        (3, 7),
        (3, 4),
    ),
    ("conv1d", VariationalConv1D, CONV, (3, 7, 2), (3, 6, 4)),
    (
        "conv1d_causal",
        VariationalConv1D,
        {**CONV, **CORRELATED, "alpha": "layer", "padding": "causal"},
        (3, 7, 2),
        (3, 7, 4),
    ),
    (
        "conv2d",
        VariationalConv2D,
        {**CONV, "activation": "relu", "strides": 2, "padding": "same"},
        (3, 6, 5, 2),
        (3, 3, 3, 4),
    ),
    (
        "conv2d_layer",
        VariationalConv2D,
        {**CONV, **MULTIPLICATIVE, "alpha": "layer", "kl": "molchanov"},
        (3, 6, 5, 2),
        (3, 5, 4, 4),
    ),
    ("dropout", VariationalDropout, N, (3, 7), (3, 7)),
    (
        "dropout_unit",
        VariationalDropout,
        {**N, "alpha": "unit", "prior": StudentTPrior(4.0)},
        (3, 5, 7),
        (3, 5, 7),
    ),
)
BY_NAME = {case[0]: case for case in LAYERS}


def inputs(shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def model_with(layer, shape):
    x = keras.Input(shape[1:])
    return keras.Model(x, layer(x))
