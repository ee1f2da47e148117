# SPDX-License-Identifier: Apache-2.0
"""Layers with a structured prior, for tests."""

import keras
import numpy as np

from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale
from tests.priors import scale_reference as reference

IN, OUT = 4, 3
# Each structure with each prior, and pairs of them.
PRIORS = (
    *(
        (structure, prior)
        for structure in ("ard", "add")
        for prior in (
            InverseGammaScale(2.0, 0.5),
            HalfCauchyScale(0.7),
            LogUniformScale(),
        )
    ),
    ("ard_add", HalfCauchyScale(1.0)),
    ("ard_add", (InverseGammaScale(2.0, 0.5), HalfCauchyScale(1.0))),
)


def fill(layer, seed=7):
    """Gives a built layer means and variances well apart from each other."""
    rng = np.random.default_rng(seed)
    shape = layer.kernel.shape
    layer.kernel.assign(rng.normal(size=shape))
    layer.log_noise.assign(rng.uniform(-3.0, 0.5, size=shape))
    if layer.use_bias:
        layer.bias.assign(rng.normal(size=layer.bias.shape))
    return layer


def filled_layer(structure="ard", scale_prior=None, **kwargs):
    layer = BayesianDense(
        OUT, 50, structure=structure, scale_prior=scale_prior, **kwargs
    )
    layer.build((None, IN))
    return fill(layer)


def posterior(layer):
    """Means and variances of the weights, in float64."""
    theta = np.array(layer.kernel, "float64")
    return theta, np.exp(np.array(layer.log_noise, "float64"))


def prior_std(layer, scales):
    """Prior standard deviation of each weight of a matrix."""
    std = np.full(layer.kernel.shape, layer.sigma0)
    if scales.rows is not None:
        std = std * np.asarray(scales.rows, "float64")[:, None]
    if scales.matrix is not None:
        std = std * np.asarray(scales.matrix, "float64")
    return std


def log_density(layer, scales):
    """Log-density of scales, by SciPy."""
    total = 0.0
    for prior, tau in (
        (layer.row_prior, scales.rows),
        (layer.matrix_prior, scales.matrix),
    ):
        if prior is not None:
            total += np.sum(reference.log_density(prior, tau))
    return total


def model_with(layer, shape):
    x = keras.Input(shape[1:])
    return keras.Model(x, layer(x))


def inputs(shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")
