# SPDX-License-Identifier: Apache-2.0
"""Layers whose kernel has a Gaussian distribution: its draws and outputs.

With `theta` the kernel and `e ~ N(0, 1)`, a draw of a weight is

    additive        w = theta + sigma * e
    multiplicative  w = theta * (1 + sqrt(alpha) * e)
    correlated      the same, with one `e` for all weights of an input unit

and `alpha = sigma^2 / theta^2` in all of them.
"""

import math
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.layers._log_alpha import Limits
from keras_bayesdrop.layers._log_alpha import clip
from keras_bayesdrop.layers._normal import draw_normal
from keras_bayesdrop.layers.sources import SparseSource
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.random.philox import words_to_normal

# Added to theta^2, whose logarithm must be finite.
_TINY = 1e-16
# Of log alpha: nothing above has an exponential in float32.
_LARGEST_LOG = 80.0
# Least variance of an output: the gradient of its root must be finite.
_VARIANCE_FLOOR = 1e-16


class GaussianKernel(SparseSource, WeightNoiseSource):
    """Mixin of a layer of Keras that has a `kernel`.

    The layer says how a kernel is applied, what comes after it, and which axis
    of its inputs holds the input units. Its variables keep their dtype inside
    `call`; what is statistical is computed in float32 or better, the dtype
    `_wide`.

    Attributes:
        parametrization: `"additive"`, `"multiplicative"` or `"correlated"`.
        log_noise: Variable: log sigma^2 if additive, log alpha otherwise, of a
            shape that broadcasts with the kernel.
    """

    # Of the layer of Keras.
    kernel: Any
    compute_dtype: str
    # Of the classes that mix this in.
    parametrization: str
    log_noise: Any
    seed_generator: Any
    train_threshold: float | None
    _limits: Limits | None
    _input_axis: int

    def _linear(self, x: Any, kernel: Any) -> Any:
        """Returns the product or the convolution."""
        raise NotImplementedError

    def _finish(self, outputs: Any) -> Any:
        """Adds the bias and applies the activation."""
        raise NotImplementedError

    def mean_kernel(self) -> Any:
        """Returns `theta`, the kernel of the mean network."""
        return keras.ops.cast(self.kernel, self._wide)

    def log_alpha(self) -> Any:
        """Returns `log(sigma^2 / theta^2)`, which broadcasts to the kernel."""
        log_alpha = keras.ops.cast(self.log_noise, self._wide)
        if self.parametrization == "additive":
            log_alpha = log_alpha - keras.ops.log(self._square())
        return clip(log_alpha, self._limits)

    def second_moments(self) -> Any:
        """Returns `theta^2 + sigma^2`, also where `theta` is zero."""
        return keras.ops.square(self.mean_kernel()) + self._variance()

    def weight_variance(self) -> Any:
        """Returns `sigma^2` of each weight."""
        return self._variance()

    def noise_site(self) -> tuple[Noise, None]:
        """Returns the noise of the weights."""
        text = f"Gaussian weights, {self.parametrization}"
        return WeightNoise(weakref.ref(self), text), None

    @property
    def weight_units(self) -> int:
        """How many words a draw of the weights takes."""
        shape = self.kernel.shape
        correlated = self.parametrization == "correlated"
        return int(shape[-2] if correlated else math.prod(shape))

    def call_expected(self, x: Any) -> Any:
        """Calls the layer with the mean of its weights."""
        return self._apply(x, self.mean_kernel())

    def call_sampled(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with one draw of its weights."""
        theta = self.mean_kernel()
        draw = words_to_normal(words, theta.dtype)
        if self.parametrization == "correlated":
            factors = 1.0 + self._scale() * tf.reshape(draw, [-1, 1])
            return self._apply(x, theta * factors)
        sigma = keras.ops.sqrt(self._variance())
        return self._apply(x, theta + sigma * tf.reshape(draw, theta.shape))

    def _call_noisy(self, x: Any) -> Any:
        """Calls the layer with noise of its own for every example."""

        def draw(sizes: Any) -> Any:
            return draw_normal(sizes, self._wide, self.seed_generator)

        if self.parametrization != "correlated":
            return self._draw_outputs(
                x, self._kept_means(), lambda mean: draw(tf.shape(mean))
            )
        shape = [1] * len(x.shape)
        shape[self._input_axis] = self.kernel.shape[-2]
        scale = self._scale()
        if len(scale.shape):
            scale = keras.ops.reshape(scale, shape)
        noise = draw([keras.ops.shape(x)[0], *shape[1:]])
        factors = 1.0 + scale * noise
        noisy = keras.ops.cast(x, self._wide) * factors
        return self._apply(noisy, self.mean_kernel())

    def _kept_means(self) -> Any:
        """Returns `theta`, zero where log alpha is above the threshold."""
        theta = self.mean_kernel()
        if self.train_threshold is None:
            return theta
        factor = math.exp(min(self.train_threshold, _LARGEST_LOG))
        largest = factor * self._square()
        return keras.ops.where(self._variance() <= largest, theta, 0.0)

    def _draw_outputs(
        self, x: Any, theta: Any, draw: Callable[[Any], Any]
    ) -> Any:
        """Draws every output by itself from its distribution given the inputs.

            y ~ N(linear(x, theta), linear(x^2, sigma^2))

        Args:
            x: Inputs.
            theta: Means of the weights.
            draw: Maps the means to standard normal draws of their shape, or
                of one that they broadcast to.

        Returns:
            Outputs, the activation included.
        """
        cast = keras.ops.cast
        narrow = self.compute_dtype
        mean = self._linear(cast(x, narrow), cast(theta, narrow))
        squares = keras.ops.square(cast(x, self._wide))
        variance = self._linear(squares, self._variance())
        sigma = keras.ops.sqrt(keras.ops.maximum(variance, _VARIANCE_FLOOR))
        outputs = cast(mean, self._wide) + sigma * draw(mean)
        return self._finish(cast(outputs, narrow))

    def _apply(self, x: Any, kernel: Any) -> Any:
        """Calls the layer with a given kernel, in the compute dtype."""
        narrow = self.compute_dtype
        x, kernel = keras.ops.cast(x, narrow), keras.ops.cast(kernel, narrow)
        return self._finish(self._linear(x, kernel))

    def _variance(self) -> Any:
        """Returns sigma^2 of each weight."""
        if self.parametrization == "additive" and self._limits is None:
            return keras.ops.exp(keras.ops.cast(self.log_noise, self._wide))
        return keras.ops.exp(self.log_alpha()) * self._square()

    def _log_variance(self) -> Any:
        """Returns log sigma^2 of each weight, without limits."""
        log_noise = keras.ops.cast(self.log_noise, self._wide)
        if self.parametrization == "additive":
            return log_noise
        return log_noise + keras.ops.log(self._square())

    def _square(self) -> Any:
        """Returns theta^2, and a little more."""
        return keras.ops.square(self.mean_kernel()) + _TINY

    def _scale(self) -> Any:
        """Returns sqrt(alpha)."""
        return keras.ops.exp(0.5 * self.log_alpha())

    @property
    def _wide(self) -> str:
        """The compute dtype, or float32 if that is better."""
        return str(keras.backend.result_type(self.compute_dtype, "float32"))
