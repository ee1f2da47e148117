# SPDX-License-Identifier: Apache-2.0
"""Validation with uncertainty, in the logs of `fit`."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_bayesdrop import metrics
from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.calibrate._noise_precision import fit_noise_precision
from keras_bayesdrop.callbacks._monitored_targets import by_name
from keras_bayesdrop.callbacks._monitored_targets import targets_of
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.api import OLD_KEYWORDS
from keras_bayesdrop.prediction.api import predict_with_uncertainty
from keras_bayesdrop.prediction.detection import check_heads
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.prediction.model_checks import check_noise
from keras_bayesdrop.prediction.model_checks import check_num_samples
from keras_bayesdrop.prediction.model_checks import unwrap
from keras_bayesdrop.prediction.reading import readings_of
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets
from keras_bayesdrop.predictive.sample_noise import knows_noise
from keras_bayesdrop.predictive.sample_noise import learns_noise


class UncertaintyMonitor(keras.callbacks.Callback):
    """Validates with Monte Carlo samples and writes the result into `logs`.

    At the end of an epoch the model predicts the validation data with
    uncertainty. Callbacks behind this one (EarlyStopping, ModelCheckpoint,
    TensorBoard) and the history of `fit` then see, in nats per example:

        val_mc_nll               -mean{ log mean{ p(y | x, mask[t]) : t } }
        val_epistemic            mean variance over the samples
        val_aleatoric            for learned noise: its mean variance
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
        every: Epochs from one validation to the next. The last values stand
            in the logs in between, so that monitors find them.
        batch_size: As in `predict_with_uncertainty`.
        seed: The same masks are used each time, so that changes from epoch to
            epoch come from the model.
        method: `"sampling"`, or a `Sampling` object without a tolerance.
        head: As in `predict_with_uncertainty`. A regression without a
            `noise_precision` gets the value that makes the validation data
            most likely, fitted anew each time and logged as
            `val_noise_precision`. Of `Heteroscedastic(mean=...,
            log_variance=...)` the targets are those of the mean.
        layers: As in `predict_with_uncertainty`.
        allow_hidden_noise: As in `predict_with_uncertainty`. Noise that cannot
            be sampled is an error before training begins, if the model is
            built by then.

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

    @refuse_old_keywords(OLD_KEYWORDS)
    def __init__(
        self,
        validation_data: Any,
        num_samples: int = 20,
        *,
        every: int = 1,
        batch_size: int | None = None,
        seed: int = 0,
        method: str | Sampling = "sampling",
        head: Any = "auto",
        layers: LayerSelection = None,
        allow_hidden_noise: bool = False,
    ) -> None:
        super().__init__()
        self.validation_data = _check_data(validation_data)
        self.num_samples = check_num_samples(num_samples)
        self.every = check_positive_int(every, "every")
        self.batch_size = (
            None
            if batch_size is None
            else check_positive_int(batch_size, "batch_size")
        )
        self.seed = check_int(seed, "seed")
        self.method = _check_method(method)
        check_heads(head)
        self.head = head
        self.layers = layers
        self.allow_hidden_noise = bool(allow_hidden_noise)
        self._last: dict[str, float] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Forgets what an earlier training left; looks for problems.

        Hidden noise, and outputs that cannot be read, are errors here, before
        an epoch is spent.
        """
        self._last = {}
        if not private_keras.all_built(self.model):
            return
        model, layers = unwrap(self.model, self.layers)
        surveyed = survey(model)
        if not surveyed.is_complete:
            return
        if not self.allow_hidden_noise:
            check_noise(model, surveyed, layers)
        plan = build_plan(model, layers, surveyed=surveyed)
        readings_of(model, plan, self.head)

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
        labels: list[Any] = []
        prediction = predict_with_uncertainty(
            self.model,
            self._inputs(labels),
            self.num_samples,
            batch_size=self.batch_size,
            seed=self.seed,
            method=self.method,
            head=self.head,
            layers=self.layers,
            allow_hidden_noise=self.allow_hidden_noise,
            return_samples=True,
            verbose=0,
        )
        logs: dict[str, float] = {}
        for name, part in by_name(self.model, prediction, self.head).items():
            targets = [
                targets_of(y, name, self.model, prediction, self.head)
                for y in labels
            ]
            truth = np.concatenate([np.asarray(y) for y in targets])
            for key, value in self._measure(part, truth).items():
                logs[f"val_{name}_{key}" if name else f"val_{key}"] = value
        return logs

    def _inputs(self, labels: list[Any]) -> Any:
        """Returns the inputs; `labels` gets the targets as they are read."""
        data = self.validation_data
        if isinstance(data, tuple):
            labels.append(data[1])
            return data[0]
        batches = data
        if isinstance(data, keras.utils.PyDataset):
            batches = (data[index] for index in range(len(data)))

        def read() -> Iterator[tuple[Any]]:
            for batch in batches:
                x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
                _check_targets(y)
                labels.append(y)
                yield (x,)

        return read()

    def _measure(self, prediction: Predictive, truth: Any) -> dict[str, float]:
        result = {"epistemic": float(np.mean(prediction.epistemic))}
        if learns_noise(prediction):
            result["aleatoric"] = float(np.mean(prediction.aleatoric))
        if prediction.head.observation == "number":
            if not knows_noise(prediction):
                truth = regression_targets(prediction.mean, truth)
                tau = fit_noise_precision(prediction.samples, truth)
                result["noise_precision"] = tau
                prediction = prediction.with_noise(noise_precision=tau)
            result["mc_rmse"] = metrics.root_mean_squared_error(
                truth, prediction
            )
        else:
            result["mc_accuracy"] = metrics.accuracy(truth, prediction)
            result["mc_ece"] = metrics.expected_calibration_error(
                truth, prediction
            )
            information = prediction.mutual_information
            result["mutual_information"] = float(np.mean(information))
        result["mc_nll"] = metrics.negative_log_likelihood(truth, prediction)
        return result


def _check_method(method: Any) -> Sampling:
    """Returns the method, which must give samples of every row."""
    sampling = get_choice(method, "method", (Sampling,))
    if sampling.stops_early:
        raise BayesdropError(
            "The likelihood of the validation data needs as many samples for "
            "every row. Expected a method without tolerance. Received: "
            f"{sampling}"
        )
    return sampling


def _check_data(data: Any) -> Any:
    if isinstance(data, (tuple, list)):
        if len(data) not in (2, 3):
            raise BayesdropError(
                "Invalid value for argument `validation_data`. Expected "
                "`(x, y)` or a stream of `(x, y)` batches. Received: a "
                f"{type(data).__name__} of length {len(data)}"
            )
        rows = input_data.count_rows(data[0])
        input_data.check_arrays(data[0])
        for leaf in _check_targets(data[1]):
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


def _check_targets(y: Any) -> list[Any]:
    """Returns the leaves of targets, after looking for NaN and infinity."""
    leaves = keras.tree.flatten(y)
    if not leaves or not all(np.ndim(leaf) for leaf in leaves):
        raise BayesdropError(
            "Invalid targets in `validation_data`. Expected arrays "
            f"[rows, ...]. Received: {type(y).__name__} of "
            f"{sorted({type(leaf).__name__ for leaf in leaves})}"
        )
    for leaf in leaves:
        input_data.check_finite(leaf, "the targets of `validation_data`", 0)
    return list(leaves)
