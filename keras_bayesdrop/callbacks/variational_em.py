# SPDX-License-Identifier: Apache-2.0
"""A callback for the M-step of variational EM."""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers.sources import ScaleSource

STEPS = ("batch", "epoch")


class VariationalEM(keras.callbacks.Callback):
    """Updates the scales of priors that layers hold in variables.

    The steps of the optimizer are the E-step: the posterior of the weights
    moves, the scales of its prior stand. The M-step is here: the scales become
    those that maximise, in closed form, the evidence lower bound,

        E_q[log p(w | scales)] + log p(scales)

    first when training begins, if the model is built by then, and after each
    batch or epoch, for all layers with `scales="variable"`, also those of
    nested models.

    With `"batch"` this is what `scales="inline"` does. With `"epoch"` the
    scales change less often than the weights, and the loss of an epoch is one
    function of the weights.

    Args:
        every: `"batch"` or `"epoch"`: how long an E-step is. With
            `steps_per_execution` a batch is that many. Defaults to `"epoch"`.

    Raises:
        BayesdropError: In `fit`, if no layer holds scales in variables.

    Example:
    ```python
    model = keras.Sequential([
        keras_bayesdrop.layers.BayesianDense(
            50, len(x), scales="variable", activation="relu"
        ),
        keras.layers.Dense(10, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, callbacks=[keras_bayesdrop.callbacks.VariationalEM()])
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """

    def __init__(self, every: str = "epoch") -> None:
        super().__init__()
        self.every = check_choice(every, "every", STEPS)
        self._update: Any = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Makes an M-step: the first batch has the scales of its weights."""
        self._update = None
        if private_keras.all_built(self.model):
            self._m_step()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Makes an M-step, if each batch has one."""
        if self.every == "batch":
            self._m_step()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Makes an M-step, if each epoch has one."""
        if self.every == "epoch":
            self._m_step()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Releases the layers."""
        self._update = None

    def _m_step(self) -> None:
        if self._update is None:
            self._update = self._compile()
        self._update()

    def _compile(self) -> Any:
        """Returns a function that updates all layers.

        One compiled call is faster than many small operations.
        """
        layers = [
            layer
            for layer in private_keras.all_layers(self.model)
            if isinstance(layer, ScaleSource) and layer.scales_in_variables
        ]
        if not layers:
            raise BayesdropError(
                "`VariationalEM` has no scales to update. Expected a model "
                "with a layer that holds them in variables, such as "
                "`BayesianDense(..., scales='variable')`. Received: model "
                f"`{self.model.name}`, which has none"
            )

        def update() -> None:
            for layer in layers:
                layer.update_scales()

        return tf.function(update, autograph=False)
