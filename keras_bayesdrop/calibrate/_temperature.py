# SPDX-License-Identifier: Apache-2.0
"""Temperature scaling of probabilities."""

import math
from dataclasses import dataclass
from typing import Any
from typing import overload

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import as_floating
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._maximise import maximise
from keras_bayesdrop.calibrate._plain import Plain
from keras_bayesdrop.calibrate._tempering import at_temperature
from keras_bayesdrop.calibrate._tempering import log_label_probabilities
from keras_bayesdrop.calibrate._tempering import temper_mean
from keras_bayesdrop.calibrate._tempering import temper_samples
from keras_bayesdrop.calibrate._tempering import to_logits
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import check_some
from keras_bayesdrop.metrics._inputs import finite_numbers
from keras_bayesdrop.metrics._inputs import probabilities
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.mixture import log_mean_exp
from keras_bayesdrop.predictive.observations import tasks_of

# The search runs from exp(-4) = 0.018 to exp(4) = 55.
_LOG_RANGE = 4.0


@dataclass(frozen=True)
class Temperature(Plain):
    """A fitted temperature, as `calibrate.temperature` returns it.

    `to_dict` and `from_dict` convert it for JSON, and it can be pickled.

    Attributes:
        temperature: Positive float. Above 1 the model was too sure.
        of: `"samples"` if each sample is tempered before averaging, `"mean"`
            if their mean is tempered.
    """

    temperature: float
    of: str

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_positive(self.temperature, "temperature")
        check_choice(self.of, "of", ("samples", "mean"))

    @overload
    def apply(
        self, prediction: Predictive, from_logits: bool = False
    ) -> Predictive: ...

    @overload
    def apply(
        self, prediction: npt.ArrayLike, from_logits: bool = False
    ) -> Array: ...

    def apply(
        self, prediction: Predictive | npt.ArrayLike, from_logits: bool = False
    ) -> Predictive | Array:
        """Returns the prediction at this temperature.

        All fields of a `Predictive` with samples are computed from the
        tempered samples. If only the mean is tempered, the variance is
        multiplied by the squared derivative of each new probability with
        respect to the old one, with the other classes of the row in fixed
        proportion. Votes stay. Samples, quantiles and the mean entropy do not
        follow from the mean, and are `None`.

        Args:
            prediction: `Predictive`, or an array of probabilities
                `[rows, classes]` or `[rows]`.
            from_logits: Bool. `True` if an array holds logits.

        Returns:
            A `Predictive` for a `Predictive`, probabilities for an array.
        """
        if isinstance(prediction, Predictive):
            p = check_predictive(prediction, tasks_of("class", "label"))
            if self.of == "mean":
                return temper_mean(p, self.temperature)
            return temper_samples(p, self.temperature)
        logits, kind = _array_logits(prediction, from_logits)
        return at_temperature(logits, kind, self.temperature)


@truth_first
def temperature(
    y: npt.ArrayLike,
    prediction: Predictive | npt.ArrayLike,
    from_logits: bool = False,
) -> Temperature:
    """Fits the temperature that makes the labels most likely.

    Logits are divided by a temperature `h`. Each sample `p[t]` of a
    `Predictive` is tempered before averaging, as if the softmax of the network
    had this temperature:

        q[t] = softmax(log(p[t]) / h)
        h    = argmax{ sum{ log(sum{ q[t, i, y[i]] : t } / T) : i } }

    So the samples stay a distribution over networks, and mean, entropies and
    mutual information of the result are consistent. Without samples (samples
    not kept, or an array), the mean is tempered:

        q = softmax(log(mean) / h)

    This calibrates the mean as well, but does not separate the parts of the
    uncertainty. The most likely class of a sample never changes; for binary
    the softmax is the sigmoid of the log odds. Use rows that the model was not
    trained on: on training rows the model never looks overconfident.

    Args:
        y: Class numbers `[rows]`, or one-hot `[rows, classes]`; zeros and
            ones for binary.
        prediction: `Predictive`, or an array of probabilities
            `[rows, classes]` or `[rows]`.
        from_logits: Bool. `True` if an array holds logits. Defaults to
            `False`.

    Returns:
        A `Temperature` in `(0.018, 55)`.

    Raises:
        BayesdropError: If the best temperature lies outside, as for labels
            that are all predicted right or all wrong.

    Example:
    ```python
    fit = keras_bayesdrop.calibrate.temperature(y_val, p_val)
    p_new = fit.apply(p_new)
    ```

    References:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
        - [Rahaman and Thiery, 2021](https://arxiv.org/abs/2007.08792), on
          tempering before or after averaging.
    """
    logits, kind, of = _all_logits(prediction, from_logits)
    known: Any = (
        binary_labels(logits[0], y)
        if kind == "label"
        else class_labels(logits[0], y)
    )

    def log_likelihood(log_temperature: float) -> float:
        h = math.exp(log_temperature)
        logs = [
            log_label_probabilities(sample, known, kind, h) for sample in logits
        ]
        return float(np.mean(log_mean_exp(np.stack(logs).astype(np.float64))))

    best = maximise(log_likelihood, -_LOG_RANGE, _LOG_RANGE)
    if abs(best) > _LOG_RANGE - 1e-4:
        wrong = "wrong" if best > 0 else "right"
        raise BayesdropError(
            "There is no best temperature in (0.018, 55). Expected labels of "
            "which some are predicted right and some wrong. Received: labels "
            f"that are (nearly) all predicted {wrong}, of shape {known.shape}"
        )
    return Temperature(math.exp(best), of)


def _all_logits(
    prediction: Predictive | npt.ArrayLike, from_logits: bool
) -> tuple[Array, str, str]:
    """Returns logits `[T, rows, ...]`, their kind, and the field `of`.

    The kind is that of an observation, `"class"` or `"label"`.
    """
    if not isinstance(prediction, Predictive):
        logits, kind = _array_logits(prediction, from_logits)
        return logits[None], kind, "mean"
    p = check_predictive(prediction, tasks_of("class", "label"))
    kind = p.head.observation
    if p.samples is None:
        return to_logits(p.mean, kind)[None], kind, "mean"
    return to_logits(p.samples, kind), kind, "samples"


def _array_logits(
    prediction: npt.ArrayLike, from_logits: bool
) -> tuple[Array, str]:
    """Returns the logits of an array `[rows, ...]`, and their kind."""
    if from_logits:
        logits = finite_numbers("prediction", prediction)
        check_some(logits)
        classes = logits.ndim > 1 and logits.shape[-1] > 1
        return logits, "class" if classes else "label"
    values, kind = probabilities(prediction)
    check_some(values)
    return to_logits(as_floating(values), kind), kind
