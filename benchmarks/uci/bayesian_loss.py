# SPDX-License-Identifier: Apache-2.0
"""The loss of residual networks with Gaussian weights, for many at once.

    h[1] = relu(x W[1] + b[1])
    h[2] = h[1] + relu(h[1] W[2] + b[2])
    f    = h[2] W[3] + b[3]

    loss = mean over rows and samples of -log N(y; f, 1 / precision)
           + 1/N * sum over layers of (KL(q(W) || p(W | scales))
                                       - log p(scales))

Each output of a layer is drawn from its own Gaussian given its input (local
reparametrisation), and the scales of the prior are the best for `q`, not
differentiated. It is the loss of `MonteCarloModel` with layers `BayesianDense`.
"""

import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import structured_scales
from keras_bayesdrop.priors.structures import STRUCTURES
from uci.together import Weights
from uci.together import Words

# Least variance of an output: the gradient of its root must be finite.
_VARIANCE_FLOOR = 1e-16
PRIOR = InverseGammaScale(3.0, 3.0)


@dataclass(frozen=True)
class BayesianLoss:
    """A loss of `together.train`.

    The weights are kernel, bias, and logs of the kernel's variances, for each
    layer in turn.

    Attributes:
        units: Outputs of each layer.
        structures: Structure of each layer's prior.
        samples: Draws for each row.
    """

    units: tuple[int, ...]
    structures: tuple[str, ...]
    samples: int

    def noise(self, words: Words, rows: int) -> list[tf.Tensor]:
        """Draws from N(0, 1) for each output, sample and row."""
        return [
            _normal(words((rows, self.samples, units), site))
            for site, units in enumerate(self.units)
        ]

    def __call__(
        self,
        weights: Weights,
        x: tf.Tensor,
        y: tf.Tensor,
        row_weights: tf.Tensor,
        precisions: tf.Tensor,
        noise: list[tf.Tensor],
        num_train_examples: int,
    ) -> tf.Tensor:
        """Returns the loss of each member, see `MemberLoss`."""
        layers = [weights[at : at + 3] for at in range(0, len(weights), 3)]
        hidden = tf.nn.relu(_outputs(x[:, :, None], layers[0], noise[0]))
        for layer, drawn in zip(layers[1:-1], noise[1:-1], strict=True):
            hidden += tf.nn.relu(_outputs(hidden, layer, drawn))
        outputs = _outputs(hidden, layers[-1], noise[-1])
        squares = tf.square(y - outputs[..., 0])  # [members, rows, samples]
        rows = tf.reduce_sum(row_weights * tf.reduce_mean(squares, 2), 1)
        losses = 0.5 * precisions * rows
        losses -= 0.5 * tf.math.log(precisions / (2 * math.pi))
        for (kernel, _, log_variance), structure in zip(
            layers, self.structures, strict=True
        ):
            nats = _prior_nats(kernel, log_variance, structure)
            losses += nats / num_train_examples
        return losses


def _normal(words: tf.Tensor) -> tf.Tensor:
    """Maps words to standard normal draws, of 23 bits."""
    bits = tf.bitwise.right_shift(words, tf.constant(9, tf.uint32))
    # Exact in float32, and half a step away from both ends.
    uniform = (tf.cast(bits, tf.float32) + 0.5) * 2.0**-22 - 1.0
    return math.sqrt(2.0) * tf.math.erfinv(uniform)


def _outputs(x: tf.Tensor, layer: Weights, noise: tf.Tensor) -> tf.Tensor:
    """Draws the outputs of a layer.

    Args:
        x: [members, rows, samples or 1, inputs].
        layer: Kernel, bias and logs of variances.
        noise: [members, rows, samples, units].
    """
    kernel, bias, log_variance = layer
    mean = _product(x, kernel) + bias[:, None, None]
    variance = _product(tf.square(x), tf.exp(log_variance))
    return mean + tf.sqrt(tf.maximum(variance, _VARIANCE_FLOOR)) * noise


def _product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    members, rows, samples, inputs = x.shape
    flat = tf.reshape(x, (members, rows * samples, inputs)) @ kernel
    return tf.reshape(flat, (members, rows, samples, -1))


def _prior_nats(
    kernel: tf.Tensor, log_variance: tf.Tensor, structure: str
) -> tf.Tensor:
    """Returns KL(q || p) - log p(scales) of each member."""
    variance = tf.exp(log_variance)
    moments = tf.square(kernel) + variance
    priors = [PRIOR if has else None for has in STRUCTURES[structure]]

    def best(moments: tf.Tensor) -> Any:
        scales = structured_scales(structure, moments, *priors)
        return (
            tf.broadcast_to(scales.variance, moments.shape),
            scales.log_prob(*priors),
        )

    prior_variance, log_prob = tf.vectorized_map(
        best, tf.stop_gradient(moments)
    )
    terms = moments / prior_variance - 1.0
    terms += tf.math.log(prior_variance) - log_variance
    return 0.5 * tf.reduce_sum(terms, axis=(1, 2)) - tf.stop_gradient(log_prob)
