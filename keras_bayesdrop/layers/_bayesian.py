# SPDX-License-Identifier: Apache-2.0
"""What layers with a Gaussian posterior and a structured prior share."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.layers._normal import draw_normal
from keras_bayesdrop.layers._signs import draw_signs
from keras_bayesdrop.layers._structured_prior import StructuredPrior

ESTIMATORS = ("flipout", "local")
# A standard deviation of 5%.
_INITIAL_LOG_VARIANCE = -6.0


class BayesianKernel(StructuredPrior):
    """Mixin of a layer of Keras: arguments, and the noise of training."""

    parametrization = "additive"
    train_threshold = None
    _limits = None

    def _init_bayesian(
        self,
        structure: Any,
        scale_prior: Any,
        sigma0: float,
        estimator: str,
        scales: str,
        noise_initializer: Any,
        seed: int | None,
    ) -> None:
        """Checks and keeps the arguments; see `BayesianDense` for them."""
        self._init_prior(structure, scale_prior, sigma0, scales)
        self.estimator = check_choice(estimator, "estimator", ESTIMATORS)
        if noise_initializer is None:
            noise_initializer = keras.initializers.Constant(
                _INITIAL_LOG_VARIANCE
            )
        self.noise_initializer = keras.initializers.get(noise_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),  # type: ignore[misc]
            **self._kl_config(),
            **self._prior_config(),
            "estimator": self.estimator,
            "noise_initializer": keras.initializers.serialize(
                self.noise_initializer
            ),
            "seed": self.seed,
        }

    def _call_noisy(self, x: Any) -> Any:
        """Calls the layer with noise of its own for every example."""
        if self.estimator == "local":
            return super()._call_noisy(x)
        return self._call_flipout(x)

    def _call_flipout(self, x: Any) -> Any:
        """Calls the layer with one draw for the batch, and signs apart.

            y[n] = linear(x[n], theta) + r[n] * linear(x[n] * s[n], sigma * e)

        Signs `s` and `r` are one for each input and each output unit, the
        same at all positions: each example has one draw of the weights.
        """
        cast, wide, narrow = keras.ops.cast, self._wide, self.compute_dtype
        seed = self.seed_generator
        theta = self.mean_kernel()
        mean = cast(self._linear(cast(x, narrow), cast(theta, narrow)), wide)
        normal = draw_normal(theta.shape, wide, seed)
        draw = keras.ops.sqrt(self._variance()) * normal
        signs = draw_signs(self._one_per_unit(x), wide, seed)
        noise = self._linear(cast(x, wide) * signs, draw)
        noise = noise * draw_signs(self._one_per_unit(mean), wide, seed)
        return self._finish(cast(mean + noise, narrow))

    def _one_per_unit(self, x: Any) -> list[Any]:
        """Returns the shape of `x`, with 1 for all positions."""
        shape = [1] * len(x.shape)
        shape[self._input_axis] = x.shape[self._input_axis]
        return [keras.ops.shape(x)[0], *shape[1:]]
