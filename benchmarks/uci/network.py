# SPDX-License-Identifier: Apache-2.0
"""The published network as a Keras model of this library's layers."""

from dataclasses import dataclass
from typing import Any

import keras

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.predictive import Predictive
from uci.data import Array
from uci.data import Scaling


def network(
    widths: tuple[int, ...], rate: float, regularizer: Any = None
) -> keras.Model:
    """Returns the network, with dropout before every weight layer.

    Args:
        widths: Units of the inputs, the hidden layers, and the output.
        rate: Rate of the dropout.
        regularizer: That of the kernels.
    """
    layers = [keras.Input((widths[0],))]
    for width, units in enumerate(widths[1:], 2):
        activation = "relu" if width < len(widths) else None
        layers.append(MCDropout(rate))
        layers.append(
            keras.layers.Dense(
                units, activation, kernel_regularizer=regularizer
            )
        )
    return keras.Sequential(layers)


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network, and how to predict with it.

    Attributes:
        model: A model with the weights that it has at the time; see `weights`.
        weights: The trained weights, for scaled inputs and unscaled targets.
        scaling: That of the inputs.
        tau: Noise precision for `y` in its own units.
        samples: Monte Carlo samples.
        seed: Of the masks.
        chosen: Hyper-parameters that were chosen.
    """

    model: keras.Model
    weights: list[Array]
    scaling: Scaling
    tau: float
    samples: int
    seed: int
    chosen: dict[str, Any]

    def predict(self, x: Array) -> Predictive:
        """Predicts in units of `y`."""
        variables = self.model.trainable_variables
        for variable, value in zip(variables, self.weights, strict=True):
            variable.assign(value)
        prediction: Predictive = kbd.predict_with_uncertainty(
            self.model,
            self.scaling.scaled_x(x),
            self.samples,
            seed=self.seed,
            return_samples=True,
            verbose=0,
            head=kbd.Regression(noise_precision=self.tau),
        )
        return prediction


def in_units_of_y(weights: list[Array], scaling: Scaling) -> list[Array]:
    """Returns weights of the network that undoes the scaling of `y`."""
    *others, kernel, bias = weights
    return [
        *others,
        kernel * scaling.y_std,
        bias * scaling.y_std + scaling.y_mean,
    ]
