# SPDX-License-Identifier: Apache-2.0
"""One call that predicts, compares with the truth, and reports."""

import os
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.diagnostics.evaluation_report import Evaluation
from keras_bayesdrop.diagnostics.evaluation_report import evaluation_of
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.metrics._regression import check_level
from keras_bayesdrop.prediction.input_data import count_rows
from keras_bayesdrop.prediction.labels import Labels
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.prepared import Prepared
from keras_bayesdrop.prediction.request import OLD_KEYWORDS
from keras_bayesdrop.prediction.request import Arguments
from keras_bayesdrop.predictive import Predictive


@refuse_old_keywords(OLD_KEYWORDS)
def evaluate_with_uncertainty(
    model: keras.Model | Sequence[keras.Model],
    x: Any,
    y: Any = None,
    num_samples: int = 50,
    *,
    level: float = 0.9,
    confidence: float = 0.95,
    num_resamples: int = 1000,
    batch_size: int | None = None,
    seed: int | None = None,
    method: str | Method = "sampling",
    head: Any = "auto",
    layers: LayerSelection = None,
    quantiles: Sequence[float] | None = None,
    return_samples: bool | str | os.PathLike[str] | None = None,
    first_row: int = 0,
    allow_hidden_noise: bool = False,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Predicts with uncertainty, and measures how far to trust it.

    The data is read once. The result has every metric of `metrics` that fits
    the head: of numbers, for instance, the RMSE, CRPS, coverage, width and
    score of intervals; of classes accuracy, Brier score, calibration errors
    and the AUROC of uncertainty for errors; of both the negative
    log-likelihood and the area under the risk-coverage curve.

    Each metric has a bootstrap interval. A resample draws as many rows as
    there are, with replacement, each with all its labels or outputs; the
    metric of every resample is computed anew; and the interval has the
    central values:

        [quantile(metric[b], (1 - confidence) / 2),
         quantile(metric[b], (1 + confidence) / 2)]    over resamples b

    Errors of calibration are sums of absolute gaps. Chance makes them larger,
    and resampling does so once more. Their interval is therefore reflected,
    `[2 * value - high, 2 * value - low]`, and can lie below the value. Its
    lower end is 0 if a calibrated model shows as large an error by chance
    (its labels drawn from its own probabilities). It is approximate, and too
    short where bins have fewer than about 50 labels.

    Intervals show the chance of which rows were evaluated. They do not show
    that of training or of the masks, and few rows (below 50, say) make them
    too short. The resamples are the same in every call on as many rows.
    The time grows with rows times resamples; the memory does not grow with
    resamples.

    Args:
        model: A built Keras model, or a list of them, an ensemble.
        x: Arrays, with the labels in `y`; or a `tf.data.Dataset`, a
            `PyDataset` or a generator of batches `(x, y)`, which may be one
            that can be read only once.
        y: Labels or targets of arrays: class numbers or one-hot labels, 0 and
            1, or numbers. For several outputs a structure like the outputs,
            or a dict with their names. `None` for a stream.
        num_samples: As in `predict_with_uncertainty`.
        level: Float in `(0, 1)`. Probability of the intervals whose coverage
            and width are measured. Defaults to `0.9`.
        confidence: Float in `(0, 1)`. Probability of the bootstrap intervals.
            Defaults to `0.95`.
        num_resamples: Number of resamples; 0 for no bootstrap intervals.
            Defaults to `1000`.
        batch_size: As in `predict_with_uncertainty`.
        seed: As in `predict_with_uncertainty`.
        method: As in `predict_with_uncertainty`.
        head: As in `predict_with_uncertainty`. The likelihood of a regression
            needs `Regression(noise_precision=...)` or learned noise.
        layers: As in `predict_with_uncertainty`.
        quantiles: As in `predict_with_uncertainty`.
        return_samples: As in `predict_with_uncertainty`. `None` (default)
            keeps the samples of outputs that are numbers, whose metrics need
            them, unless the method has a tolerance or no samples. With
            `False` the metrics of numbers take a normal distribution of the
            same mean and variance, and the likelihood is left out.
        first_row: As in `predict_with_uncertainty`.
        allow_hidden_noise: As in `predict_with_uncertainty`.
        verbose: As in `predict_with_uncertainty`.
        steps: As in `predict_with_uncertainty`.
        callbacks: As in `predict_with_uncertainty`.

    Returns:
        An `Evaluation`, or a structure of them like the results of
        `predict_with_uncertainty`. It prints itself as a table; `plot()`
        draws one page of pictures, `to_html(path)` writes both to a file.

    Example:
    ```python
    evaluation = keras_bayesdrop.evaluate_with_uncertainty(model, x, y)
    print(evaluation)
    evaluation["accuracy"], evaluation.estimates["accuracy"].lower
    evaluation.to_html("report.html")
    ```

    References:
        - [Efron and Tibshirani, 1993](https://doi.org/10.1201/9780429246593),
          chapter 13.
    """
    level = check_level(level)
    confidence = check_level(confidence, "confidence")
    num_resamples = check_int(num_resamples, "num_resamples", at_least=0)
    _check_data(x, y)
    first = model[0] if isinstance(model, (list, tuple)) and model else model
    labels = Labels(first, y)
    arguments = Arguments(
        num_samples=num_samples,
        batch_size=batch_size,
        seed=seed,
        method=method,
        head=head,
        layers=layers,
        quantiles=quantiles,
        return_samples=False if return_samples is None else return_samples,
        first_row=first_row,
        allow_hidden_noise=allow_hidden_noise,
    )
    prediction = Prepared(model, arguments).predict(
        x,
        verbose=verbose,
        steps=steps,
        callbacks=callbacks,
        labels=labels,
        samples_of_numbers=return_samples is None,
    )

    def evaluate(p: Predictive, truth: Any) -> Evaluation:
        return evaluation_of(p, truth, level, confidence, num_resamples)

    rows = len(keras.tree.flatten(prediction)[0])
    truth = labels.result(rows)
    return keras.tree.map_structure(evaluate, prediction, truth)


def _check_data(x: Any, y: Any) -> None:
    """Raises unless arrays come with labels, and streams without."""
    is_stream = count_rows(x) is None
    if is_stream and y is not None:
        raise BayesdropError(
            "A stream has its labels in its batches. Expected y=None, and "
            "batches `(x, y)`. Received: a stream and labels "
            f"{type(y).__name__}"
        )
    if not is_stream and y is None:
        raise BayesdropError(
            "Labels are missing. Expected `y` beside arrays, or a stream of "
            f"batches `(x, y)`. Received: x={type(x).__name__}, y=None"
        )
