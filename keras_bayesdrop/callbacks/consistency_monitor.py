# SPDX-License-Identifier: Apache-2.0
"""A callback that logs the consistency of a dropout network's units."""

import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.callbacks._layer_logger import LayerLogger
from keras_bayesdrop.diagnostics import consistency
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.theory.consistency import Consistency
from keras_bayesdrop.theory.consistency import ConsistencyRecord


class ConsistencyMonitor(LayerLogger):
    """Writes the results of `consistency` into the logs of `fit`.

    Per layer, by the names that `consistency` gives them, means over inputs
    and units of the mean `E` and the variance `V` over masks, and the value
    `W` in the deterministic network:

        <path>_dropout_variance   mean of V
        <path>_ensemble_gap       mean of |E - W|
        <path>_silent             share of units with |E| <= threshold for
                                      every input
        <path>_sparsity           share of activations with |E| <= threshold

    `History` and callbacks that stand behind this one in the list (CSVLogger,
    TensorBoard, ModelCheckpoint) see them. `record` keeps them, and single
    units, from before the first epoch on: `plots.dropout_phases` draws it.

    `E` has a standard error of `sqrt(V / num_samples)`, which is most of the
    gap if that is small: take more samples to measure it.

    Args:
        x: Inputs: an array `[rows, ...]`, or a list or dict of them.
        every: Positive int. Epochs from one look to the next. The last values
            stand in the logs in between, so that CSVLogger finds them. A look
            at a small network takes some 10 to 30 ms: for very short epochs
            take more than the default of `1`.
        num_samples: Number of masks, at least 2. The same are used each time,
            so that changes come from the model.
        max_rows: Positive int. How many rows of `x` to look at, evenly spaced.
            Defaults to `10`.
        layers: As in `consistency`.
        threshold: As in `consistency`.
        seed: Of the masks.
        log_dir: Optional path. Writes event files for TensorBoard, with all
            of the above and a histogram of `V` per layer. TensorBoard need
            not be installed.

    Attributes:
        record: The looks of the last training.

    Example:
    ```python
    monitor = keras_bayesdrop.callbacks.ConsistencyMonitor(x_val)
    model.fit(x, y, epochs=100, callbacks=[monitor])
    keras_bayesdrop.plots.dropout_phases(monitor)
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), section 11.
    """

    def __init__(
        self,
        x: Any,
        *,
        every: int = 1,
        num_samples: int = 50,
        max_rows: int = 10,
        layers: Any = None,
        threshold: float = 0.1,
        seed: int = 0,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(every, log_dir)
        self.num_samples = check_int(num_samples, "num_samples", at_least=2)
        self.max_rows = check_positive_int(max_rows, "max_rows")
        self.x = _some_rows(x, self.max_rows)
        self.layers = layers
        self.threshold = check_positive(threshold, "threshold")
        self.seed = check_int(seed, "seed")
        self.record = ConsistencyRecord(self.threshold)
        self._latest: Consistency | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Opens the event file, and forgets an earlier training."""
        super().on_train_begin(logs)
        self.record = ConsistencyRecord(self.threshold)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Looks at the units before training."""
        if not self.record.epochs:
            self.record.add(epoch, self._look())

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Looks at the units and logs the result."""
        self._latest = None
        super().on_epoch_end(epoch, logs)
        if self._latest is not None:
            self.record.add(epoch + 1, self._latest)

    def measure(self) -> dict[str, float]:
        """Returns the current values for the logs."""
        self._latest = self._look()
        logs: dict[str, float] = {}
        for layer in self._latest.layers:
            logs[f"{layer.path}_dropout_variance"] = layer.dropout_variance
            logs[f"{layer.path}_ensemble_gap"] = layer.ensemble_gap
            logs[f"{layer.path}_silent"] = layer.silent_fraction
            logs[f"{layer.path}_sparsity"] = layer.sparsity
        return logs

    def _look(self) -> Consistency:
        return consistency(
            self.model,
            self.x,
            self.num_samples,
            layers=self.layers,
            threshold=self.threshold,
            seed=self.seed,
        )

    def _histograms(self) -> Iterator[tuple[str, np.ndarray]]:
        if self._latest is not None:
            for layer in self._latest.layers:
                yield f"{layer.path}_dropout_variance", layer.variance.ravel()


def _some_rows(x: Any, most: int) -> Any:
    """Returns copies of at most `most` rows, evenly spaced."""
    count = input_data.count_rows(x)
    if count is None:
        raise BayesdropError(
            "`x` must be readable in every epoch. Expected an array "
            "[rows, ...], or a list or dict of them. Received: "
            f"{type(x).__name__}"
        )
    input_data.check_arrays(x)
    rows = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    return keras.tree.map_structure(lambda leaf: np.asarray(leaf)[rows], x)
