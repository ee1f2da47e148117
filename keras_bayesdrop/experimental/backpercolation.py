# SPDX-License-Identifier: Apache-2.0
"""An activation with dropout in the backward pass."""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.layers._random import uniform

# Of Keras, by name: their outputs depend on more than one input.
_NOT_ELEMENTWISE = ("glu", "log_softmax", "softmax", "sparsemax")


@export("keras_bayesdrop.experimental.Backpercolation")
class Backpercolation(keras.layers.Layer):
    """An activation that passes the gradient of a unit on, or does not.

    Forward it is `y = f(x)`. Backward, in training, the derivative `f'(x)` is
    the probability of a unit to pass the gradient on unattenuated:

        dx = sign(f'(x)) * scale * pass * dy
        pass ~ Bernoulli(|f'(x)| / scale)

    Its mean is backpropagation, `dx = f'(x) dy`, and its variance
    `|f'(x)| (scale - |f'(x)|) dy^2`. Where `|f'(x)|` is `scale` or more, the
    gradient is `f'(x) dy` itself. Draws are independent, and the backward
    pass is linear in them layer by layer: so the gradients of all weights of
    a network of such activations have the mean of backpropagation.

    Outside of training the gradient is the usual one. The first derivative
    only is defined.

    Standing: an observation. The reference has no experiments with it, and
    says that it must be slow, since it samples what backpropagation computes.
    Whether the noise helps to avoid local minima is left open there.

    Args:
        activation: Name of an activation, or a function that acts on every
            number by itself. Defaults to `"sigmoid"`.
        scale: Positive float. What a gradient that passes is multiplied by;
            one in the reference. The less, the less variance; the largest
            derivative (1/4 for the sigmoid) is still all dropout. Defaults to
            1.
        seed: Optional int. Makes the sequence of draws reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor of any rank.
        training: Bool or `None`. Whether to drop gradients.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(256),
        keras_bayesdrop.experimental.Backpercolation("sigmoid", scale=0.25),
        keras.layers.Dense(10),
    ])
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), section 10.2.
    """

    def __init__(
        self,
        activation: Any = "sigmoid",
        *,
        scale: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = _check_activation(activation)
        self.scale = check_positive(scale, "scale")
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Applies the activation; in training its gradient is dropped."""
        if not training:
            return self.activation(inputs)
        wide = keras.backend.result_type(self.compute_dtype, "float32")
        sizes = keras.ops.shape(inputs)
        u = uniform(sizes, wide, self.seed_generator)

        @keras.ops.custom_gradient
        def activate(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = self.activation(x)
            # Of the sum of all outputs: each depends on its own input only.
            slope = tape.gradient(y, x, unconnected_gradients="zero")
            factor = keras.ops.cast(self._factor(slope, u), x.dtype)

            def gradient(upstream: Any) -> Any:
                return upstream * factor

            return y, gradient

        return activate(inputs)

    def _factor(self, slope: Any, u: Any) -> Any:
        """Returns what gradients are multiplied by, with the mean `slope`."""
        slope = keras.ops.cast(slope, u.dtype)
        size = keras.ops.abs(slope)
        passed = u * self.scale < size
        full = keras.ops.maximum(size, self.scale) * keras.ops.sign(slope)
        return keras.ops.where(passed, full, 0.0)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the inputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "scale": self.scale,
            "seed": self.seed,
        }


def _check_activation(activation: Any) -> Any:
    """Returns the function, unless it is known to mix its inputs."""
    function = keras.activations.get(activation)
    mixes = getattr(function, "__name__", "") in _NOT_ELEMENTWISE
    # A layer may have weights, and these would get no gradient.
    if mixes or isinstance(function, keras.layers.Layer):
        raise invalid(
            "activation",
            activation,
            "the name of an activation that acts on every number by itself, "
            "or such a function",
        )
    return function
