# SPDX-License-Identifier: Apache-2.0
"""The base class of the families of multiplicative noise."""

import abc
import dataclasses
import math
from numbers import Real
from typing import Any
from typing import TypeVar

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.random.philox import sample_words
from keras_bayesdrop.random.philox import seed_to_key
from keras_bayesdrop.random.philox import words_to_uniform

_T = TypeVar("_T", bound=type)


class Multiplicative(Noise):
    """Multiplies a unit, or a weight, by a random variable `xi`.

        y = x * xi / c,    c = normalizer, so that E[xi / c] = 1

    A weight `z ~ N(0, sigma0^2)` times `xi` is a Gaussian of random scale: the
    noise is a prior of the weight (Nalisnick et al., 2019).

        w = xi * z,    w ~ N(0, sigma0^2 * xi^2)

    Mean, variance, draws and priors are those of `xi` itself. A layer divides
    by the normalizer: its prior is `marginal_prior(sigma0 / normalizer)`.

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045), table 1.
    """

    @property
    @abc.abstractmethod
    def mean(self) -> float:
        """The mean of `xi`, which may be infinite."""

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """The variance of `xi`, which may be infinite."""

    @property
    def active(self) -> bool:
        """True if the variance is above 0."""
        return self.variance > 0

    @property
    def normalizer(self) -> float:
        """The divisor of the noise in a layer: the mean, if there is one."""
        if not math.isfinite(self.mean) or self.mean == 0:
            raise BayesdropError(
                f"The noise {self!r} cannot be scaled to mean 1. Expected "
                "noise with a finite mean other than 0. "
                f"Received: mean={self.mean:g}"
            )
        return self.mean

    @abc.abstractmethod
    def quantile(self, u: Any) -> Any:
        """Returns the inverse CDF of `xi`, by operations that XLA compiles.

        Args:
            u: Floating tensor with values in (0, 1).

        Returns:
            Tensor of the shape and dtype of `u`.
        """

    @abc.abstractmethod
    def log_prob(self, value: Any) -> tf.Tensor:
        """Returns the log-density of `xi`, or its log-probability."""

    @abc.abstractmethod
    def variance_prior(self, dtype: str = "float32") -> Any:
        """Returns the distribution of `xi^2`, with `log_prob` and `sample`."""

    @abc.abstractmethod
    def marginal_prior(
        self, sigma0: float = 1.0, dtype: str = "float32"
    ) -> Any:
        """Returns the distribution of a weight under this noise.

        Args:
            sigma0: Positive float. Standard deviation of the weight before it
                is multiplied.
            dtype: Floating dtype of the values.

        Returns:
            The distribution of `xi * z` with `z ~ N(0, sigma0^2)`: an object
            with `log_prob(value)` and `sample(sample_shape, seed)`.
        """

    def from_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the draws of `xi` that words encode, in float64."""
        return self.quantile(words_to_uniform(words))

    def factor(self, u: Any) -> Any:
        """Returns `quantile(u) / normalizer`, the factor of a layer."""
        return self.quantile(u) / self.normalizer

    def factor_from_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the factor of a layer for words, in float64."""
        return self.from_words(words) / self.normalizer

    def apply(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Multiplies by `xi / normalizer`, in float32 or better."""
        wide = tf.float64 if x.dtype == tf.float64 else tf.float32
        factor = tf.cast(self.factor_from_words(words), wide)
        return tf.cast(tf.cast(x, wide) * factor, x.dtype)

    def sample(
        self, shape: int | tuple[int, ...], seed: int | None = None
    ) -> Float64Array:
        """Draws from the noise, without the division by `normalizer`.

        Args:
            shape: Int or tuple of ints.
            seed: Optional int. Makes the draws reproducible.

        Returns:
            A float64 array.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        draws = self.from_words(words_of(sizes, check_seed(seed), stream=0))
        return np.asarray(draws, np.float64)

    def get_config(self) -> dict[str, Any]:
        """Returns the parameters."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Multiplicative":
        """Returns the noise that `get_config` described."""
        return cls(**config)


def register(cls: _T) -> _T:
    """Registers a family with Keras in the package `keras_bayesdrop.noise`.

    The config of a layer can then hold noise of this family.
    """
    keras.saving.register_keras_serializable("keras_bayesdrop.noise")(cls)
    return cls


def keep_checked(noise: Multiplicative, **parameters: float) -> None:
    """Stores checked parameters in a frozen dataclass."""
    for name, value in parameters.items():
        object.__setattr__(noise, name, value)


def check_finite(value: Any, name: str) -> float:
    """Returns `value` as a float if it is a finite number."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value):
        raise invalid(name, value, "a finite float")
    return float(value)


def words_of(sizes: tuple[int, ...], seed: int, stream: int) -> tf.Tensor:
    """Returns uint32 words in the shape `sizes`.

    Different streams are independent.
    """
    key = tf.constant(seed_to_key(seed), tf.uint64)
    words = sample_words(key, stream, 0, 0, math.prod(sizes))
    return tf.reshape(words, sizes)
