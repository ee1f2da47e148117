# SPDX-License-Identifier: Apache-2.0
"""Validation with uncertainty, in the logs of `fit`."""

from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.calibrate._noise_precision import fit_noise_precision
from keras_bayesdrop.callbacks._output_names import by_name
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.metrics._measures import measures_of
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import check_heads
from keras_bayesdrop.prediction.labels import Labels
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.prediction.model_checks import check_noise
from keras_bayesdrop.prediction.model_checks import check_num_samples
from keras_bayesdrop.prediction.model_checks import unwrap
from keras_bayesdrop.prediction.prepared import Prepared
from keras_bayesdrop.prediction.reading import readings_of
from keras_bayesdrop.prediction.request import OLD_KEYWORDS
from keras_bayesdrop.prediction.request import Arguments
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.sample_noise import knows_noise
from keras_bayesdrop.predictive.sample_noise import learns_noise

# Names in the logs of the metrics that are logged.
_LOGGED = {
    "epistemic": "epistemic",
    "aleatoric": "aleatoric",
    "root_mean_squared_error": "mc_rmse",
    "accuracy": "mc_accuracy",
    "expected_calibration_error": "mc_ece",
    "mutual_information": "mutual_information",
    "negative_log_likelihood": "mc_nll",
}


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
        x, y = self.validation_data, None
        if isinstance(x, tuple):
            x, y = x
        labels = Labels(self.model, y, ignore_weights=True)
        arguments = Arguments(
            num_samples=self.num_samples,
            batch_size=self.batch_size,
            seed=self.seed,
            method=self.method,
            head=self.head,
            layers=self.layers,
            return_samples=True,
            allow_hidden_noise=self.allow_hidden_noise,
        )
        prediction = Prepared(self.model, arguments).predict(
            x, verbose=0, labels=labels
        )
        truths = by_name(self.model, labels.result(), self.head)
        logs: dict[str, float] = {}
        for name, part in by_name(self.model, prediction, self.head).items():
            for key, value in _measure(part, truths[name]).items():
                logs[f"val_{name}_{key}" if name else f"val_{key}"] = value
        return logs


def _measure(prediction: Predictive, truth: Any) -> dict[str, float]:
    """Returns what is logged of one output."""
    logs = {}
    numbers = prediction.head.observation == "number"
    if numbers and not knows_noise(prediction):
        tau = fit_noise_precision(prediction.samples, truth)
        logs["noise_precision"] = tau
        prediction = prediction.with_noise(noise_precision=tau)
    names = set(_LOGGED)
    if not learns_noise(prediction):
        names.remove("aleatoric")
    measures, _ = measures_of(truth, prediction, names=names)
    return logs | {
        _LOGGED[name]: measure.value for name, measure in measures.items()
    }


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
