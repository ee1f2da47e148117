# SPDX-License-Identifier: Apache-2.0
"""Cases and formulas for the tests of penalties with scales."""

import keras
import numpy as np
import tensorflow as tf
from scipy import stats

from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.losses import LikelihoodInNats
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale
from keras_bayesdrop.regularizers import ADD
from keras_bayesdrop.regularizers import ARD
from keras_bayesdrop.regularizers import ARDADD
from tests.priors import scale_reference as reference

# Each penalty with each prior, for 40 training examples.
PENALTIES = (
    *(
        (penalty, (prior, 40))
        for penalty in (ARD, ADD)
        for prior in (
            InverseGammaScale(2.0, 0.5),
            HalfCauchyScale(0.7),
            LogUniformScale(),
        )
    ),
    (ARDADD, (InverseGammaScale(2.0, 0.5), InverseGammaScale(3.0, 3.0), 40)),
    (ARDADD, (HalfCauchyScale(1.0), HalfCauchyScale(0.5), 40)),
    (ARDADD, (InverseGammaScale(2.0, 0.5), HalfCauchyScale(1.0), 40)),
    (ARDADD, (HalfCauchyScale(1.0), LogUniformScale(), 40)),
)


def likelihood_of(loss, precision, outputs):
    """Returns the likelihood of a loss: "nll", "mse" or "half_mse"."""
    if loss == "nll":
        return LikelihoodInNats(outputs)
    return GaussianLikelihood(precision, outputs, loss)


def kernel(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape) * 0.8


def train(model, x, y, steps=400):
    """Minimises the squared error on all of the data, with smaller steps.

    Weights whose scale goes to zero would jitter by the size of a step.
    """
    rate = keras.optimizers.schedules.CosineDecay(0.03, steps)
    model.compile(keras.optimizers.Adam(rate), "mse")
    whole = (x.astype("float32"), y.astype("float32"))
    data = tf.data.Dataset.from_tensors(whole).repeat(steps)
    model.fit(data, epochs=1, shuffle=False, verbose=0)


def prior_std(penalty, scales, columns):
    """The prior standard deviation of each weight of a matrix."""
    std = penalty.sigma0 * np.ones((1, columns))
    if scales.rows is not None:
        std = std * scales.rows[:, None]
    if scales.matrix is not None:
        std = std * scales.matrix
    return std


def nats(penalty, matrix, scales):
    """Minus the log-density of a matrix and its scales, by SciPy."""
    std = prior_std(penalty, scales, matrix.shape[1])
    value = -np.sum(stats.norm.logpdf(matrix, 0.0, std))
    # The expectation over a width of epsilon about each weight.
    width = penalty.epsilon**2 / (2.0 * std**2)
    value += np.sum(np.broadcast_to(width, matrix.shape))
    for prior, tau in (
        (penalty.row_prior, scales.rows),
        (penalty.matrix_prior, scales.matrix),
    ):
        if prior is not None:
            value -= np.sum(reference.log_density(prior, tau))
    return value
