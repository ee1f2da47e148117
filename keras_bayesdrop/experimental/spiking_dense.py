# SPDX-License-Identifier: Apache-2.0
"""A dense layer that receives spikes from the units before it."""

import weakref
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.layers._random import uniform
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.random.philox import words_to_uniform

FIRINGS = ("unit", "connection")


@export("keras_bayesdrop.experimental.SpikingDense")
class SpikingDense(WeightNoiseSource, keras.layers.Dense):
    """A dense layer whose inputs are the firing probabilities of units.

    A unit with the activity `x[i]` fires with that probability, and a spike
    has the size `r`. With `firing="unit"` it sends the same spike to all
    units of this layer, with `firing="connection"` one of its own to each:

        S[k] = sum{ W[i, k] spike[i] : i } + b[k],       "unit"
        S[k] = sum{ W[i, k] spike[i, k] : i } + b[k],    "connection"
        y[k] = activation(S[k])
        spike = r with probability x[i], 0 otherwise

    Both have mean and variance

        E S[k]   = r sum{ W[i, k] x[i] : i } + b[k]
        Var S[k] = r^2 sum{ W[i, k]^2 x[i] (1 - x[i]) : i }

    but with "connection" the sums are independent of each other, while with
    "unit" their covariance is `r^2 sum{ W[i, k] W[i, l] x[i] (1 - x[i]) : i }`.
    The noise is most for a unit that fires half of the time, where that of
    dropout grows with `x[i]`.

    The outputs of a hidden layer, with a sigmoid, are the probabilities of the
    next spiking layer. Probabilities below 0 or above 1 count as 0 or 1.

    There are spikes in training and in `predict_with_uncertainty` (by
    sampling). Elsewhere the layer receives the mean of the spikes, `r x`. For
    a sigmoid or a softmax that output is the normalised geometric mean over
    all spikes, which is near to the mean of `y`, and is the mean of `S`. The
    gradient goes straight through a spike, as if that were its mean:
    `d spike / dx = r`, which is biased before an activation that is not
    linear.

    With `firing="connection"` a call draws and holds `batch * inputs * units`
    numbers.

    Standing: a model of neurons. The reference shows its relation to dropout;
    it has no experiments in favour of it, and leaves open whether spikes
    are better than dropout.

    Args:
        units: Positive int. Number of outputs.
        firing: `"unit"` (in the reference "global") or `"connection"`.
            Defaults to `"unit"`.
        spike_size: Positive float `r`. At most one it is the probability to
            keep a unit in the corresponding network with dropout. Defaults to
            1.
        seed: Optional int. Makes the spikes of training reproducible.
        **kwargs: Passed to `keras.layers.Dense`, e.g. `activation`.

    Call arguments:
        inputs: Tensor of rank 2 or more, with values in `[0, 1]`.
        training: Bool or `None`. Whether to send spikes.

    Example:
    ```python
    spiking = keras_bayesdrop.experimental.SpikingDense
    model = keras.Sequential([
        keras.layers.Dense(256, activation="sigmoid"),
        spiking(256, activation="sigmoid"),
        spiking(10, activation="softmax"),
    ])
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), section 10.1.
    """

    def __init__(
        self,
        units: int,
        *,
        firing: str = "unit",
        spike_size: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.firing = check_choice(firing, "firing", FIRINGS)
        self.spike_size = check_positive(spike_size, "spike_size")
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies the layer, in training to spikes."""
        if not training:
            return self.call_expected(inputs)
        sizes = keras.ops.shape(inputs)
        if self.firing == "connection":
            sizes = (*sizes, self.units)
        u = uniform(sizes, self._wide, self.seed_generator)
        return self._call_spiking(inputs, u)

    @property
    def weight_units(self) -> int:
        """The number of words that an example takes: one for each spike."""
        inputs, units = self.kernel.shape
        return int(inputs * units if self.firing == "connection" else inputs)

    def call_expected(self, x: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the mean of the spikes."""
        return self._send(self._probability(x))

    def call_sampled(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with the spikes that words encode."""
        u = words_to_uniform(words)
        if self.firing == "connection":
            u = tf.reshape(u, self.kernel.shape)
        return self._call_spiking(x, u)

    def noise_site(self) -> tuple[Noise, tuple[int | None, ...] | None]:
        """Returns the noise of predictions with uncertainty."""
        description = f"spikes of size {self.spike_size:g}, by {self.firing}"
        return WeightNoise(weakref.ref(self), description), None

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "firing": self.firing,
            "spike_size": self.spike_size,
            "seed": self.seed,
        }

    @property
    def _wide(self) -> str:
        """The dtype of probabilities: float32 or better."""
        return str(keras.backend.result_type(self.compute_dtype, "float32"))

    def _probability(self, x: Any) -> Any:
        return keras.ops.clip(keras.ops.cast(x, self._wide), 0.0, 1.0)

    def _call_spiking(self, x: Any, u: Any) -> Any:
        """Calls the layer; units fire where `u` is below the probability.

        Args:
            x: Inputs [..., inputs].
            u: Numbers in [0, 1), that broadcast against [..., inputs] or
                [..., inputs, units].
        """
        probability = self._probability(x)
        if self.firing == "unit":
            return self._send(_fire(probability, u))
        probability = keras.ops.expand_dims(probability, -1)
        probability = keras.ops.repeat(probability, self.units, axis=-1)
        return self._send(_fire(probability, u), "...ik,ik->...k")

    def _send(self, fired: Any, equation: str = "...i,ik->...k") -> Any:
        """Returns the outputs for units that fired, or do so on average."""
        spikes = keras.ops.cast(fired * self.spike_size, self.compute_dtype)
        kernel = keras.ops.cast(self.kernel, self.compute_dtype)
        outputs = keras.ops.einsum(equation, spikes, kernel)
        if self.bias is not None:
            outputs = outputs + keras.ops.cast(self.bias, outputs.dtype)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs


def _fire(probability: Any, u: Any) -> Any:
    """Returns 1 where a unit fires and 0 elsewhere; its gradient is one."""

    @keras.ops.custom_gradient
    def fired(p: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return upstream

        # Words make numbers in float64, which in float32 may round to one.
        fires = u < keras.ops.cast(p, u.dtype)
        return keras.ops.cast(fires, p.dtype), gradient

    return fired(probability)
