# SPDX-License-Identifier: Apache-2.0
"""A dense output layer trained as dropout is on average, without noise."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.noise import NoiseThenLayer

_ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "mse": (keras.activations.linear,),
    "binary_crossentropy": (
        keras.activations.sigmoid,
        keras.activations.linear,
    ),
    "categorical_crossentropy": (
        keras.activations.softmax,
        keras.activations.linear,
    ),
}
LOSSES = tuple(_ACTIVATIONS)
# Of any layer; all other arguments are those of the `Dense` layer inside.
_LAYER_ARGUMENTS = ("name", "trainable", "dtype")


@export("keras_bayesdrop.layers.MarginalizedDropoutDense")
class MarginalizedDropoutDense(keras.layers.Layer, NoiseThenLayer):
    """Dropout and a dense output layer, trained by the mean over all masks.

    In place of noise, a penalty is added to the loss in training: a weight
    decay that adapts to the inputs. With `S = x W + b` and, under dropout of
    the inputs,

        v[k] = Var S[k] = rate / (1 - rate) * sum{ x[i]^2 W[i, k]^2 : i }

    it is, averaged over the batch, by the loss that the model is compiled with

        "mse"                         mean{ v[k] : k }
        "binary_crossentropy"         1/2 mean{ o[k] (1 - o[k]) v[k] : k }
        "categorical_crossentropy"    1/2 sum{ H[k, l] Cov(S[k], S[l]) : k, l }

    where `o` are the outputs, as probabilities, and `H = diag(o) - o o'`.

    For the squared error the gradient is that of dropout, averaged over all
    masks, exactly. For the others it is so to first order in the deviations of
    `S`. As in the reference, the curvature (`o (1 - o)` or `H`) is held
    constant under the gradient. With `hold_curvature=False` it is not, which
    is nearer: the penalty is what dropout adds to the expected loss, to second
    order.

    Only the noise of this layer's input is averaged out, so it is a layer for
    the outputs of a model. `predict_with_uncertainty` drops units here as
    behind a `Dropout(rate)`; elsewhere there is no noise.

    The penalty weighs all examples and positions alike: it knows nothing of
    sample weights and masks of time steps. Under `tf.distribute`, with layers
    that synchronise replicas in the model, the loss that is shown counts the
    penalties of other replicas too, as with Keras' activity regularizers;
    the gradient does not.

    Args:
        units: Positive int. Number of outputs.
        rate: Float in `[0, 1)`. Probability of dropping an input.
        loss: The loss of the model: `"mse"`, `"binary_crossentropy"` or
            `"categorical_crossentropy"` (sparse or not), each with its mean
            over the batch as in Keras. Defaults to `"mse"`.
        hold_curvature: Whether the curvature is held constant. Defaults to
            `True`.
        seed: Optional int. Passed to the `Dropout` layer inside.
        **kwargs: Passed to `keras.layers.Dense`, e.g. `activation` and `name`.
            The activation is the one of the loss, or none where the loss is
            from logits.

    Call arguments:
        inputs: Tensor [batch, ..., features].
        training: Bool or `None`. Whether to add the penalty to the losses.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(256, activation="relu"),
        keras_bayesdrop.layers.MarginalizedDropoutDense(
            10, 0.5, loss="categorical_crossentropy", activation="softmax"
        ),
    ])
    model.compile("adam", "sparse_categorical_crossentropy")
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 148 and 165.
        - [Wager et al., 2013](https://arxiv.org/abs/1307.1493).
    """

    def __init__(
        self,
        units: int,
        rate: float,
        *,
        loss: str = "mse",
        hold_curvature: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        own = {k: kwargs.pop(k) for k in _LAYER_ARGUMENTS if k in kwargs}
        super().__init__(**own)
        self.rate = check_rate(rate, below_one=True)
        self.loss = check_choice(loss, "loss", LOSSES)
        self.hold_curvature = bool(hold_curvature)
        self.seed = seed
        self.noise = keras.layers.Dropout(
            self.rate, seed=seed, name="noise", dtype=self.dtype_policy
        )
        self.dense = keras.layers.Dense(
            units, name="dense", dtype=self.dtype_policy, **kwargs
        )
        if self.dense.activation not in _ACTIVATIONS[self.loss]:
            names = [f.__name__ for f in _ACTIVATIONS[self.loss]]
            expected = f"{' or '.join(names)} with loss={self.loss!r}"
            raise invalid("activation", kwargs["activation"], expected)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        self.dense.build(input_shape)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Returns the outputs without noise; adds the penalty in training."""
        outputs = self.dense(self.noise(inputs, training=False))
        if training and self.rate > 0:
            self.add_loss(self._penalty(inputs, outputs))
        return outputs

    def noise_then_layer(self) -> tuple[Any, Any]:
        """Returns the dropout, and the dense layer that it is the input of."""
        return self.noise, self.dense

    def _penalty(self, inputs: Any, outputs: Any) -> Any:
        """Returns what dropout adds to the loss on average, a scalar."""
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        squares = keras.ops.square(keras.ops.cast(inputs, wide))
        kernel = keras.ops.cast(self.dense.kernel, wide)
        outputs = keras.ops.cast(outputs, wide)
        noise = self.rate / (1.0 - self.rate)
        variance = noise * keras.ops.matmul(squares, keras.ops.square(kernel))
        if self.loss == "mse":
            return keras.ops.mean(variance)
        logits = self.dense.activation is keras.activations.linear
        if self.loss == "binary_crossentropy":
            o = keras.ops.sigmoid(outputs) if logits else outputs
            curvature = self._held(o * (1.0 - o))
            return 0.5 * keras.ops.mean(curvature * variance)
        o = self._held(keras.ops.softmax(outputs) if logits else outputs)
        # sum{ o[k] W[i, k] : k } is the mean weight of an input.
        middle = keras.ops.matmul(o, keras.ops.transpose(kernel))
        shared = noise * squares * keras.ops.square(middle)
        spread = keras.ops.sum(o * variance, -1) - keras.ops.sum(shared, -1)
        return 0.5 * keras.ops.mean(spread)

    def _held(self, curvature: Any) -> Any:
        """Returns it as a constant of the gradient, if so asked."""
        if self.hold_curvature:
            return keras.ops.stop_gradient(curvature)
        return curvature

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the outputs."""
        return self.dense.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        dense = self.dense.get_config()
        for name in _LAYER_ARGUMENTS:
            dense.pop(name, None)
        return {
            **super().get_config(),
            **dense,
            "rate": self.rate,
            "loss": self.loss,
            "hold_curvature": self.hold_curvature,
            "seed": self.seed,
        }
