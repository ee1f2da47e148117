# SPDX-License-Identifier: Apache-2.0
"""Validation with uncertainty, in the logs of `fit`."""

import dataclasses
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bayesdrop import _data
from keras_bayesdrop import metrics
from keras_bayesdrop._noise_precision import fit_noise_precision
from keras_bayesdrop._validate import check_choice
from keras_bayesdrop._validate import check_int
from keras_bayesdrop._validate import check_positive
from keras_bayesdrop._validate import check_positive_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predict import predict_with_uncertainty
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.sites import LayerSelection
from keras_bayesdrop.views import MASKS


class UncertaintyMonitor(keras.callbacks.Callback):
    """Validates with Monte Carlo samples and writes the result into `logs`.

    At the end of an epoch the model predicts the validation data with
    uncertainty. Callbacks behind this one (EarlyStopping, ModelCheckpoint,
    TensorBoard) and the history of `fit` then see, in nats per example:

        val_mc_nll               -mean{ log mean{ p(y | x, mask[t]) : t } }
        val_epistemic            mean variance over the samples
        val_mc_accuracy          for classes: accuracy of the mean prediction
        val_mc_ece               for classes: expected calibration error
        val_mutual_information   for classes: mean mutual information
        val_mc_rmse              for numbers: error of the mean prediction

    A model with several outputs gets one of each per output, named
    `val_<output>_mc_nll` and so on.

    Args:
        validation_data: `(x, y)`, or a stream of `(x, y)` batches that can be
            iterated over again: a `tf.data.Dataset` or a `PyDataset`.
        num_samples: Samples per example.
        noise_precision: For numbers, the precision `tau` of the observation
            noise. By default the value that makes the validation data most
            likely, found anew each time and logged as `val_noise_precision`.
        every: Epochs from one validation to the next. The last values stand
            in the logs in between, so that monitors find them.
        batch_size: As in `predict_with_uncertainty`.
        masks: As in `predict_with_uncertainty`.
        seed: The same masks are used each time, so that changes from epoch to
            epoch come from the model.
        task: As in `predict_with_uncertainty`.
        from_logits: As in `predict_with_uncertainty`.
        layers: As in `predict_with_uncertainty`.

    Example:
    ```python
    model.fit(
        x,
        y,
        callbacks=[
            keras_bayesdrop.callbacks.UncertaintyMonitor((x_val, y_val)),
            keras.callbacks.EarlyStopping("val_mc_nll", mode="min"),
        ],
    )
    ```
    """

    def __init__(
        self,
        validation_data: Any,
        num_samples: int = 20,
        noise_precision: float | None = None,
        every: int = 1,
        batch_size: int | None = None,
        masks: str = "shared",
        seed: int = 0,
        task: Any = "auto",
        from_logits: bool | None = None,
        layers: LayerSelection = None,
    ) -> None:
        super().__init__()
        self.validation_data = _check_data(validation_data)
        self.num_samples = check_int(num_samples, "num_samples", at_least=2)
        self.noise_precision = (
            None
            if noise_precision is None
            else check_positive(noise_precision, "noise_precision")
        )
        self.every = check_positive_int(every, "every")
        self.batch_size = batch_size
        self.masks = check_choice(masks, "masks", MASKS)
        self.seed = check_int(seed, "seed")
        self.task = task
        self.from_logits = from_logits
        self.layers = layers
        self._last: dict[str, float] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Forgets what an earlier training left."""
        self._last = {}

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Validates and writes the result into `logs`."""
        if epoch % self.every == 0 or not self._last:
            self._last = self.evaluate()
        if logs is not None:
            logs.update(self._last)

    def evaluate(self) -> dict[str, float]:
        """Validates once and returns what the logs would get."""
        predictions: list[Any] = []
        labels: list[Any] = []
        for x, y in self._parts():
            predictions.append(
                predict_with_uncertainty(
                    self.model,
                    x,
                    self.num_samples,
                    batch_size=self.batch_size,
                    masks=self.masks,
                    seed=self.seed,
                    task=self.task,
                    from_logits=self.from_logits,
                    layers=self.layers,
                    return_samples=True,
                    verbose=0,
                )
            )
            labels.append(y)
        names, outputs = _by_output(self.model, predictions)
        flat = [_leaves(y, len(names)) for y in labels]
        logs: dict[str, float] = {}
        for index, name in enumerate(names):
            prediction = _joined([parts[index] for parts in outputs])
            truth = np.concatenate([np.asarray(parts[index]) for parts in flat])
            for key, value in self._measure(prediction, truth).items():
                logs[f"val_{name}_{key}" if name else f"val_{key}"] = value
        return logs

    def _parts(self) -> Iterator[tuple[Any, Any]]:
        """Yields `(x, y)`: all at once for arrays, else batch by batch."""
        data = self.validation_data
        if isinstance(data, tuple):
            yield data[0], data[1]
            return
        batches = data
        if isinstance(data, keras.utils.PyDataset):
            batches = (data[index] for index in range(len(data)))
        for batch in batches:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
            yield x, y

    def _measure(self, prediction: Predictive, truth: Any) -> dict[str, float]:
        result = {"epistemic": float(np.mean(prediction.epistemic))}
        if prediction.task == "regression":
            tau = self.noise_precision
            if tau is None:
                tau = fit_noise_precision(prediction.samples, truth)
                result["noise_precision"] = tau
            prediction = dataclasses.replace(prediction, noise_precision=tau)
            result["mc_rmse"] = metrics.root_mean_squared_error(
                prediction, truth
            )
        else:
            result["mc_accuracy"] = metrics.accuracy(prediction, truth)
            result["mc_ece"] = metrics.expected_calibration_error(
                prediction, truth
            )
            information = prediction.mutual_information
            result["mutual_information"] = float(np.mean(information))
        result["mc_nll"] = metrics.negative_log_likelihood(prediction, truth)
        return result


def _check_data(data: Any) -> Any:
    if isinstance(data, (tuple, list)):
        if len(data) not in (2, 3):
            raise BayesdropError(
                "Invalid value for argument `validation_data`. Expected "
                "`(x, y)` or a stream of `(x, y)` batches. Received: a "
                f"{type(data).__name__} of length {len(data)}"
            )
        _data.check_arrays(data[0])
        rows = _data.count_rows(data[0])
        for leaf in keras.tree.flatten(data[1]):
            if len(leaf) != rows:
                raise BayesdropError(
                    "Inputs and targets of `validation_data` differ in "
                    f"length. Expected {rows} targets. Received: {len(leaf)}"
                )
        return tuple(data[:2])
    if hasattr(data, "__next__") or not (
        hasattr(data, "__iter__") or hasattr(data, "__getitem__")
    ):
        raise BayesdropError(
            "`validation_data` is read once per epoch. Expected `(x, y)`, a "
            "`tf.data.Dataset` or a `PyDataset`. Received: "
            f"{type(data).__name__}, which can be read only once"
        )
    return data


def _by_output(
    model: Any, predictions: Sequence[Any]
) -> tuple[list[str], list[list[Predictive]]]:
    """Returns the names of the outputs, and the predictions as flat lists."""
    first = predictions[0]
    if isinstance(first, Predictive):
        return [""], [[part] for part in predictions]
    if isinstance(first, dict):
        names = sorted(first)
        return names, [[part[name] for name in names] for part in predictions]
    count = len(first)
    names = list(getattr(model, "output_names", None) or [])
    if len(names) != count:
        names = [f"output_{index}" for index in range(count)]
    return names, [list(part) for part in predictions]


def _leaves(y: Any, count: int) -> list[Any]:
    if isinstance(y, dict):
        return [y[key] for key in sorted(y)]
    return list(y) if count > 1 else [y]


def _joined(parts: Sequence[Predictive]) -> Predictive:
    """Puts the rows of several predictions together."""
    if len(parts) == 1:
        return parts[0]

    def rows(name: str, axis: int = 0) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays, axis)

    return dataclasses.replace(
        parts[0],
        mean=rows("mean"),
        variance=rows("variance"),
        samples=rows("samples", axis=1),
        mean_entropy=rows("mean_entropy"),
        vote_counts=rows("vote_counts"),
        stats=dataclasses.replace(
            parts[0].stats, num_rows=sum(len(part) for part in parts)
        ),
    )
