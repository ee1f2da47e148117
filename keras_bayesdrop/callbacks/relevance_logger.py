# SPDX-License-Identifier: Apache-2.0
"""A callback that logs the learned scales of priors."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.callbacks._layer_logger import LayerLogger
from keras_bayesdrop.callbacks._layer_logger import quantiles
from keras_bayesdrop.diagnostics import relevance
from keras_bayesdrop.errors import BayesdropError


class RelevanceLogger(LayerLogger):
    """Writes the learned scales of priors into the logs of `fit`.

    Per layer, by the names that `relevance` gives them:

        <path>_row_scale_q05     quantiles of the scales over the rows, which
        <path>_row_scale_q50         are the input units or channels
        <path>_row_scale_q95
        <path>_matrix_scale      scale of all weights of the layer

    `History` and callbacks that stand behind this one in the list (CSVLogger,
    TensorBoard, ModelCheckpoint) see them. `VariationalEM` stands before it.

    Args:
        every: Positive int. Epochs from one look to the next. The last values
            stand in the logs in between, so that CSVLogger finds them.
        log_dir: Optional path. Writes event files for TensorBoard, with all
            of the above and a histogram of the row scales per layer.
            TensorBoard need not be installed.

    Raises:
        BayesdropError: In `fit`, if the model has no learned scales.

    Example:
    ```python
    logger = keras_bayesdrop.callbacks.RelevanceLogger()
    history = model.fit(x, y, epochs=100, callbacks=[logger])
    history.history["dense_row_scale_q50"]
    ```
    """

    def __init__(
        self, every: int = 1, *, log_dir: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(every, log_dir)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Looks for scales, and opens the event file."""
        if private_keras.all_built(self.model):
            self.measure()
        super().on_train_begin(logs)

    def measure(self) -> dict[str, float]:
        """Returns the current values for the logs."""
        logs: dict[str, float] = {}
        for layer in relevance(self.model).layers:
            if layer.rows is not None:
                logs.update(quantiles(f"{layer.path}_row_scale", layer.rows))
            if layer.matrix is not None:
                logs[f"{layer.path}_matrix_scale"] = layer.matrix
        if not logs:
            raise BayesdropError(
                "`RelevanceLogger` has nothing to log. Expected a model with "
                "learned scales, of a layer such as `BayesianDense` or of a "
                "regularizer such as `ARD`. Received: model "
                f"`{self.model.name}`, which has none"
            )
        return logs

    def _histograms(self) -> Iterator[tuple[str, np.ndarray]]:
        for layer in relevance(self.model).layers:
            if layer.rows is not None:
                yield f"{layer.path}_row_scale", layer.rows
