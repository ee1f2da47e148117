# SPDX-License-Identifier: Apache-2.0
"""A callback that raises the weight of the KL divergence."""

import math
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError

SCHEDULES = ("linear", "cosine", "cyclic")
UPDATES = ("batch", "epoch")


class KLAnnealing(keras.callbacks.Callback):
    """Raises the weight of the KL divergence from `start` to 1 in `fit`.

    At the start of training the KL divergence can be so much stronger than
    the data that the layers switch themselves off before they have learned
    anything. With `t` the share of `epochs` that is over, from 0 to 1, the
    variable `kl_weight` of every layer that has one is

        linear   start + (1 - start) * t
        cosine   start + (1 - start) * (1 - cos(pi * t)) / 2
        cyclic   start + (1 - start) * min(1, s / ramp)
                 s = t * cycles - floor(t * cycles), the share of the cycle

    and 1 when `epochs` are over. The weight is a function of the number of the
    epoch alone, so that `fit(initial_epoch=...)` and `BackupAndRestore` go on
    where they stopped; and it is a variable of the model, saved with it.
    `logs` get it as `kl_weight`, as it was for the last batch of the epoch.

    Args:
        schedule: `"linear"`, `"cosine"` or `"cyclic"`. Defaults to `"linear"`.
        epochs: Positive int. Epochs until the weight is 1. Defaults to 10.
        start: Float in `[0, 1]`. Weight to begin with. Defaults to `0.0`.
        cycles: Positive int. How often `"cyclic"` begins anew. Defaults to 4.
        ramp: Float in `(0, 1]`. Share of a cycle in which the weight rises, to
            stay at 1 for the rest. Defaults to 0.5.
        update: `"batch"` or `"epoch"`: when the weight changes. If the number
            of batches is not known, the first epoch has one weight.

    Example:
    ```python
    model.fit(
        x,
        y,
        epochs=100,
        callbacks=[keras_bayesdrop.callbacks.KLAnnealing("linear", 20)],
    )
    ```

    References:
        - [Sonderby et al., 2016](https://arxiv.org/abs/1602.02282), linear.
        - [Fu et al., 2019](https://arxiv.org/abs/1903.10145), cyclic.
    """

    def __init__(
        self,
        schedule: str = "linear",
        epochs: int = 10,
        *,
        start: float = 0.0,
        cycles: int = 4,
        ramp: float = 0.5,
        update: str = "batch",
    ) -> None:
        super().__init__()
        self.schedule = check_choice(schedule, "schedule", SCHEDULES)
        self.epochs = check_positive_int(epochs, "epochs")
        self.start = check_rate(start, "start")
        self.cycles = check_positive_int(cycles, "cycles")
        self.ramp = check_rate(ramp, "ramp")
        if self.ramp == 0:
            raise invalid("ramp", ramp, "a float in (0, 1]")
        self.update = check_choice(update, "update", UPDATES)
        self._variables: list[Any] = []
        self._epoch = 0
        self._steps: int | None = None  # in an epoch, if that is known
        self._batches = 0
        self._value = 1.0

    def weight(self, epoch: float) -> float:
        """Returns the weight after `epoch` epochs, which need not be whole."""
        if epoch >= self.epochs:
            return 1.0
        share = epoch / self.epochs
        if self.schedule == "cosine":
            share = (1.0 - math.cos(math.pi * share)) / 2.0
        elif self.schedule == "cyclic":
            share = min(1.0, (share * self.cycles) % 1.0 / self.ramp)
        return self.start + (1.0 - self.start) * share

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Finds the layers."""
        self._variables = [
            layer.kl_weight
            for layer in private_keras.all_layers(self.model)
            if getattr(layer, "kl_weight", None) is not None
        ]
        if not self._variables:
            raise BayesdropError(
                "`KLAnnealing` has nothing to anneal. Expected a model with "
                "a layer that has a KL divergence, and so a variable "
                "`kl_weight`, such as `ConcreteDropout`. Received: model "
                f"`{self.model.name}`, which has none"
            )
        self._steps = (self.params or {}).get("steps")

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Sets the weight for the first batch, or the whole epoch."""
        self._epoch = epoch
        self._set(self.weight(epoch))

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Sets the weight for the batch."""
        if self.update == "batch" and self._steps:
            # A stream can turn out longer than it was in the epoch before.
            share = min(1.0, batch / self._steps)
            self._set(self.weight(self._epoch + share))

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Counts the batches."""
        self._batches = batch + 1

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Writes the weight into `logs`; ends the annealing if it is over."""
        self._steps = self._batches or self._steps
        if logs is not None:
            logs["kl_weight"] = self._value
        if epoch + 1 >= self.epochs:
            self._set(1.0)

    def _set(self, value: float) -> None:
        self._value = value
        for variable in self._variables:
            variable.assign(value)
