# SPDX-License-Identifier: Apache-2.0
"""The paper's residual network as a Keras model of this library's layers."""

import math
from typing import Any

import keras

from keras_bayesdrop.layers import BayesianDense
from uci.bayesian_loss import PRIOR
from uci.data import Array
from uci.data import Scaling


def bayesian_network(
    widths: tuple[int, ...], structures: tuple[str, ...], rows: int
) -> keras.Model:
    """Returns the network, with a skip connection over each inner layer.

    Args:
        widths: Units of the inputs, the hidden layers, which are alike, and
            the output.
        structures: Structure of the prior of each weight layer.
        rows: Number of training rows.
    """

    def dense(layer: int, activation: Any = None) -> BayesianDense:
        return BayesianDense(
            widths[layer + 1],
            rows,
            structure=structures[layer],
            scale_prior=PRIOR,
            estimator="local",
            activation=activation,
        )

    inputs = keras.Input((widths[0],))
    hidden = dense(0, "relu")(inputs)
    for layer in range(1, len(structures) - 1):
        hidden = keras.layers.Add()([hidden, dense(layer, "relu")(hidden)])
    return keras.Model(inputs, dense(len(structures) - 1)(hidden))


def in_units_of_y(weights: list[Array], scaling: Scaling) -> list[Array]:
    """Returns weights of the network that undoes the scaling of `y`."""
    *others, kernel, bias, log_variance = weights
    return [
        *others,
        kernel * scaling.y_std,
        bias * scaling.y_std + scaling.y_mean,
        log_variance + 2 * math.log(scaling.y_std),
    ]
