# SPDX-License-Identifier: Apache-2.0
"""Networks with exact moments, and many balanced predictions of them.

With independent masks every row has draws of its own: the same input in many
rows gives as many independent predictions.
"""

import itertools

import keras
import numpy as np
from scipy.special import ndtri

import keras_bayesdrop as kbd
from tests.noise.cases import LAYER_NOISE

layers = keras.layers
KERNEL = np.array([[1.1], [-0.7]])
BIAS = np.array([0.2])
X = np.array([0.9, 1.3], np.float32)
SATURATION = -1.7580993408473766  # of SELU


def two_units(noise, activation="tanh"):
    """A network of two noisy units, y = f(1.1 x0 n0 - 0.7 x1 n1 + 0.2)."""
    model = keras.Sequential(
        [keras.Input((2,)), noise, layers.Dense(1, activation=activation)]
    )
    model.layers[-1].set_weights([KERNEL, BIAS])
    return model


def many(model, x, num_samples, rows, draws="balanced", seed=0, **options):
    """Predicts the same input `rows` times, each with draws of its own."""
    method = options.pop("method", kbd.Sampling)(
        masks="independent", draws=draws, engine="reference"
    )
    return kbd.predict_with_uncertainty(
        model,
        np.repeat(x[np.newaxis], rows, axis=0),
        num_samples,
        seed=seed,
        verbose=0,
        method=method,
        **options,
    )


def unit_interval():
    """Nodes and weights of the double exponential rule on (0, 1).

    It takes functions that are singular at the ends, as quantile functions
    are. Nodes 1e-15 from an end are left out.
    """
    t = np.arange(-48, 49) / 16
    u = 0.5 + 0.5 * np.tanh(0.5 * np.pi * np.sinh(t))
    weight = np.pi / 4 * np.cosh(t) / np.cosh(0.5 * np.pi * np.sinh(t)) ** 2
    inside = (u > 1e-15) & (u < 1 - 1e-15)
    return u[inside], weight[inside] / 16


def output(first, second, activation=np.tanh):
    """The output of `two_units` for perturbed inputs."""
    return activation(KERNEL[0, 0] * first + KERNEL[1, 0] * second + BIAS[0])


def moments(values, chances):
    """Mean and variance of values with probabilities."""
    mean = np.sum(values * chances)
    return mean, np.sum((values - mean) ** 2 * chances)


def of_continuous(perturbed, activation=np.tanh):
    """Moments of `two_units`, by quadrature over both words.

    Args:
        perturbed: Returns an input with the noise of a number in (0, 1).
        activation: That of the output.
    """
    u, weight = unit_interval()
    values = output(
        perturbed(X[0], u)[:, np.newaxis], perturbed(X[1], u), activation
    )
    return moments(values, weight[:, np.newaxis] * weight)


def of_two_values(perturbed, rate, activation=np.tanh):
    """Moments of `two_units`, of noise that drops or keeps, by enumeration."""
    values, chances = [], []
    for kept in itertools.product((0, 1), repeat=2):
        each = [perturbed(x, keep) for x, keep in zip(X, kept, strict=True)]
        values.append(output(*each, activation))
        chances.append(np.prod(np.where(kept, 1 - rate, rate)))
    return moments(np.array(values), np.array(chances))


def _alpha(x, keep, rate=0.3):
    a = ((1 - rate) * (1 + rate * SATURATION**2)) ** -0.5
    return a * (keep * x + (1 - keep) * SATURATION) - a * SATURATION * rate


def _concrete(x, u, rate=0.3, temperature=0.5):
    logits = np.log(rate / (1 - rate)) + np.log(u / (1 - u))
    return x / (1 + np.exp(logits / temperature)) / (1 - rate)


def _multiplied(family, reference):
    # Without a mean the layer divides by the median.
    finite = np.isfinite(family.mean)
    scale = family.mean if finite else reference.ppf(0.5)
    return lambda x, u: x * reference.ppf(u) / scale


def _before(layer):
    return lambda: two_units(layer)


def _in_the_layer(layer):
    def build():
        model = keras.Sequential([keras.Input((2,)), layer()])
        values = {KERNEL.shape: KERNEL, BIAS.shape: BIAS}
        for weight in model.weights:
            weight.assign(values.get(tuple(weight.shape), weight))
        return model

    return build


def families():
    """Yields the name of a family, a network with it, and exact moments."""
    dropped = of_two_values(lambda x, keep: x * keep / 0.7, 0.3)
    yield "bernoulli", _before(layers.Dropout(0.3)), dropped
    yield (
        "bernoulli weights",
        _in_the_layer(
            lambda: kbd.layers.DropConnectDense(1, 0.3, activation="tanh")
        ),
        dropped,
    )
    yield (
        "alpha",
        _before(layers.AlphaDropout(0.3)),
        of_two_values(_alpha, 0.3),
    )
    yield (
        "gaussian dropout",
        _before(layers.GaussianDropout(0.2)),
        of_continuous(lambda x, u: x * (1 + 0.5 * ndtri(u))),
    )
    yield (
        "additive",
        _before(layers.GaussianNoise(0.6)),
        of_continuous(lambda x, u: x + 0.6 * ndtri(u)),
    )
    yield (
        "concrete",
        _in_the_layer(
            lambda: kbd.layers.ConcreteDropout(
                layers.Dense(1, activation="tanh"),
                100,
                init_rate=0.3,
                temperature=0.5,
                sampling="concrete",
            )
        ),
        of_continuous(_concrete),
    )
    for name, family, reference in LAYER_NOISE:
        yield (
            name,
            _before(kbd.layers.MCDropout(noise=family)),
            of_continuous(_multiplied(family, reference)),
        )
