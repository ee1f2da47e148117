# SPDX-License-Identifier: Apache-2.0
"""The loss of dropout networks with several samples a row, for many at once.

    loss = -sum over rows of weight * objective{ log N(y; f[s], 1 / precision) :
           samples s } + decay * sum over the kernels of W^2

It is the loss of `MonteCarloModel` with layers `MCDropout` and `Dense`, and the
decay of `DropoutL2`.
"""

import math
from dataclasses import dataclass

import tensorflow as tf

from keras_bayesdrop.losses.objectives import OBJECTIVES
from keras_bayesdrop.random.philox import rate_to_scale
from keras_bayesdrop.random.philox import rate_to_threshold
from keras_bayesdrop.regularizers import DropoutL2
from uci.together import Weights
from uci.together import Words


@dataclass(frozen=True)
class DropoutLoss:
    """A loss of `together.train`.

    The weights are kernel and bias of each layer in turn.

    Attributes:
        widths: Units of the inputs, the hidden layers, and the output.
        rate: Rate of the dropout before every weight layer.
        objective: What is made of the samples, a key of `OBJECTIVES`.
        samples: Samples for each row.
        length_scale: Prior length scale of the kernels; `None` for no decay.
    """

    widths: tuple[int, ...]
    rate: float
    objective: str
    samples: int
    length_scale: float | None

    def noise(self, words: Words, rows: int) -> list[tf.Tensor]:
        """Draws which units are kept, for each sample and row."""
        threshold = tf.constant(rate_to_threshold(self.rate), tf.uint32)
        return [
            words((rows, self.samples, units), site) >= threshold
            for site, units in enumerate(self.widths[:-1])
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
        scale = rate_to_scale(self.rate)
        hidden = x[:, :, None]  # [members, rows, samples or 1, units]
        for layer, kept in enumerate(noise):
            kernel, bias = weights[2 * layer : 2 * layer + 2]
            hidden = tf.where(kept, hidden * scale, 0.0)
            shape = hidden.shape
            flat = tf.reshape(hidden, (shape[0], -1, shape[-1])) @ kernel
            hidden = tf.reshape(flat + bias[:, None], (*shape[:-1], -1))
            if layer < len(noise) - 1:
                hidden = tf.nn.relu(hidden)
        precision = precisions[:, None, None]
        log_likelihood = 0.5 * tf.math.log(precision / (2 * math.pi))
        log_likelihood -= 0.5 * precision * tf.square(y - hidden[..., 0])
        rows = OBJECTIVES[self.objective](log_likelihood)  # [members, rows]
        losses = -tf.reduce_sum(row_weights * rows, axis=1)
        decay = self.regularizer(num_train_examples)
        if decay is not None:
            for kernel in weights[::2]:
                squares = tf.reduce_sum(tf.square(kernel), axis=(1, 2))
                losses += decay.weight_decay * squares
        return losses

    def regularizer(self, num_train_examples: int) -> DropoutL2 | None:
        """Returns the regularizer of the kernels, if they have one."""
        if self.length_scale is None:
            return None
        return DropoutL2(
            self.rate, self.length_scale, num_train_examples, likelihood="nll"
        )
