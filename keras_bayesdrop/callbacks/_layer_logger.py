# SPDX-License-Identifier: Apache-2.0
"""Base of callbacks that measure layers and write into the logs."""

import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.callbacks import _summaries

_LEVELS = (5, 50, 95)


class LayerLogger(keras.callbacks.Callback):
    """A callback that measures something at the end of epochs.

    Args:
        every: Positive int. Epochs from one look to the next. The last values
            stand in the logs in between.
        log_dir: Path for event files, or `None` for none.
    """

    def __init__(
        self, every: int, log_dir: str | os.PathLike[str] | None
    ) -> None:
        super().__init__()
        self.every = check_positive_int(every, "every")
        self.log_dir = None if log_dir is None else os.fspath(log_dir)
        self._last: dict[str, float] = {}
        self._writer: Any = None

    def measure(self) -> dict[str, float]:
        """Returns the current values for the logs."""
        raise NotImplementedError

    def _histograms(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields names and values of what event files show as histograms."""
        raise NotImplementedError

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Opens the event file and drops values of an earlier training."""
        self._last = {}
        if self.log_dir is not None:
            self._writer = _summaries.open_writer(self.log_dir)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Measures the layers and writes the values."""
        if epoch % self.every == 0 or not self._last:
            self._last = self.measure()
            if self._writer is not None:
                self._write(epoch)
        if logs is not None:
            logs.update(self._last)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, epoch: int) -> None:
        for name, value in self._last.items():
            _summaries.scalar(self._writer, name, value, epoch)
        for name, values in self._histograms():
            _summaries.histogram(self._writer, name, values, epoch)
        self._writer.flush()


def quantiles(name: str, values: np.ndarray) -> dict[str, float]:
    """Returns quantiles of an array, named for their levels.

    Each is one of the values, without interpolation: some may be infinite.
    """
    levels = np.percentile(values, _LEVELS, method="inverted_cdf")
    return {
        f"{name}_q{level:02d}": float(value)
        for level, value in zip(_LEVELS, levels, strict=True)
    }
