# SPDX-License-Identifier: Apache-2.0
"""A callback that logs learned dropout rates and sparsity."""

import collections
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.callbacks._layer_logger import LayerLogger
from keras_bayesdrop.callbacks._layer_logger import quantiles


class DropoutRateLogger(LayerLogger):
    """Writes learned dropout rates into the logs of `fit`.

    Per layer, by the names of the layers from the model down to it:

        <path>_rate              rate of `ConcreteDropout` and its like
        <path>_log_alpha_q05     quantiles of log alpha over the weights or
        <path>_log_alpha_q50         units of a layer with variational dropout
        <path>_log_alpha_q95
        <path>_sparsity          share of log alpha above `threshold`

    `History` and callbacks that stand behind this one in the list (CSVLogger,
    TensorBoard, ModelCheckpoint) see them.

    Args:
        threshold: Float. Weights of a larger log alpha count as gone. At the
            default of 3 the noise is 95% of what a weight does.
        every: Positive int. Epochs from one look to the next. The last values
            stand in the logs in between, so that CSVLogger finds them.
        log_dir: Optional path. Writes event files for TensorBoard, with all
            of the above and a histogram of log alpha per layer. TensorBoard
            need not be installed.

    Example:
    ```python
    model.fit(
        x,
        y,
        epochs=100,
        callbacks=[
            keras_bayesdrop.callbacks.DropoutRateLogger(),
            keras.callbacks.CSVLogger("training.csv"),
        ],
    )
    ```
    """

    def __init__(
        self,
        threshold: float = 3.0,
        *,
        every: int = 1,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(every, log_dir)
        self.threshold = _check_threshold(threshold)

    def measure(self) -> dict[str, float]:
        """Returns the current values for the logs."""
        logs: dict[str, float] = {}
        for path, layer in _paths(self.model):
            # Only a layer with a KL divergence learns its rate.
            if getattr(layer, "kl_weight", None) is not None:
                rate = getattr(layer, "rate", None)
                if rate is not None:
                    logs[f"{path}_rate"] = float(rate)
            values = _log_alpha(layer)
            if values is not None:
                logs.update(quantiles(f"{path}_log_alpha", values))
                share = np.mean(values > self.threshold)
                logs[f"{path}_sparsity"] = float(share)
        return logs

    def _histograms(self) -> Iterator[tuple[str, np.ndarray]]:
        for path, layer in _paths(self.model):
            values = _log_alpha(layer)
            if values is not None:
                yield f"{path}_log_alpha", values


def _paths(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields every layer below a model once, with the shortest path to it."""
    seen = {id(model)}
    queue = collections.deque([("", model)])
    while queue:
        prefix, parent = queue.popleft()
        for layer in private_keras.sublayers(parent):
            if id(layer) not in seen:
                seen.add(id(layer))
                path = prefix + layer.name
                yield path, layer
                queue.append((path + "/", layer))


def _log_alpha(layer: Any) -> np.ndarray | None:
    """Returns the log alpha of a built layer, flat, if it has one."""
    method = getattr(layer, "log_alpha", None)
    if not callable(method) or not getattr(layer, "built", False):
        return None
    values = keras.ops.convert_to_numpy(method())
    return np.ravel(values).astype("float64")


def _check_threshold(threshold: Any) -> float:
    """Returns the threshold as a float; any number will do."""
    if isinstance(threshold, (bool, str)) or np.ndim(threshold):
        raise invalid("threshold", threshold, "a float")
    try:
        value = float(threshold)
    except (TypeError, ValueError):
        raise invalid("threshold", threshold, "a float") from None
    if not np.isfinite(value):
        raise invalid("threshold", threshold, "a finite float")
    return value
