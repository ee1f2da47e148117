# SPDX-License-Identifier: Apache-2.0
"""Layers that learn a Gaussian distribution of their kernel, by its KL."""

from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._gaussian_kernel import GaussianKernel
from keras_bayesdrop.layers._kl_weight import KLLayer


class PosteriorKernel(KLLayer, GaussianKernel):
    """Mixin of a layer of Keras: the variables of its noise, and their use.

    Attributes:
        noise_initializer: Of `log_noise`.
    """

    # Of the layer of Keras.
    name: str
    # Of the classes that mix this in.
    noise_initializer: Any

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a variable that is not cast to the compute dtype by itself."""
        kwargs["autocast"] = False
        return super().add_weight(*args, **kwargs)  # type: ignore[misc]

    def build(self, input_shape: Any) -> None:
        """Makes the variables of the layer, and those of its noise."""
        super().build(input_shape)  # type: ignore[misc]
        additive = self.parametrization == "additive"
        self.log_noise = self.add_weight(
            name="log_variance" if additive else "log_alpha",
            shape=self._noise_shape(),
            initializer=self.noise_initializer,
            regularizer=self._kl_penalty,
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Draws the outputs in training, and uses the means otherwise."""
        if training:
            return self._call_noisy(inputs)
        return self.call_expected(inputs)

    def sparsity(self, threshold: float = 3.0) -> float:
        """Returns the share of weights whose log alpha is above a threshold."""
        above = keras.ops.convert_to_numpy(self.log_alpha()) > threshold
        return float(above.mean())

    def enable_lora(self, *args: Any, **kwargs: Any) -> None:
        """Raises: the noise is that of the whole kernel."""
        raise BayesdropError(
            f"Layer `{self.name}` ({type(self).__name__}) cannot have low-rank "
            "updates of its kernel. Expected `lora_rank=None`. Received: a "
            "rank, or a call of `enable_lora`"
        )

    # Dense and convolutions store their kernel and bias, and nothing else.

    def save_own_variables(self, store: Any) -> None:
        """Stores all variables."""
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads all variables."""
        keras.layers.Layer.load_own_variables(self, store)

    def _noise_shape(self) -> tuple[int, ...]:
        """Returns the shape of `log_noise`: that of the kernel."""
        return tuple(self.kernel.shape)
