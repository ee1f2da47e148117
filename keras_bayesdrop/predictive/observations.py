# SPDX-License-Identifier: Apache-2.0
"""Judges predictions by the kind of an observation: number, class or label.

`Head.observation` names the kind. Metrics, decisions, plots and tables ask
here, and treat all heads with one kind of observation alike.
"""

from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop.predictive.heads import HEADS
from keras_bayesdrop.predictive.heads import Binary
from keras_bayesdrop.predictive.heads import Classification
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.labels import regression_targets

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class Observation:
    """One kind of observation.

    Attributes:
        plain_head: The head of outputs of which nothing else is known.
        total: Name of the quantity that measures all uncertainty.
        epistemic: Name of the quantity that measures the uncertainty about
            the network.
        spread: Name of the quantity whose histogram is drawn by default.
        loss_text: The loss in words.
    """

    plain_head: ClassVar[Head]
    total: ClassVar[str]
    epistemic: ClassVar[str]
    spread: ClassVar[str]
    loss_text: ClassVar[str]

    def labels(self, mean: Array, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Checks labels or targets; returns them, one per number of a row.

        Args:
            mean: Array with the shape of a prediction.
            y: The labels.
        """
        raise NotImplementedError

    def expected_loss(self, p: "Predictive") -> Array:
        """Returns the loss that a prediction expects, `[rows, ...]`."""
        raise NotImplementedError

    def losses(self, p: "Predictive", y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns the loss of each label or output, `[rows, ...]`."""
        raise NotImplementedError


class Numbers(Observation):
    """Real numbers; the loss is the squared error."""

    plain_head = Regression()
    total = "total"
    epistemic = "epistemic"
    spread = "std"
    loss_text = "mean squared error"

    def labels(self, mean: Array, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns targets, of the shape of `mean`."""
        return regression_targets(mean, y)

    def expected_loss(self, p: "Predictive") -> Array:
        """Returns the mean of the squared error, `epistemic + aleatoric`."""
        return p.total

    def losses(self, p: "Predictive", y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns the squared errors."""
        return np.asarray(np.square(p.mean - regression_targets(p.mean, y)))


class _Probabilities(Observation):
    """What labels share, of two classes or of many."""

    total = "predictive_entropy"
    epistemic = "mutual_information"
    spread = "predictive_entropy"
    loss_text = "share of errors"


class Classes(_Probabilities):
    """Class numbers; the loss is 1 for a wrong class."""

    plain_head = Classification()

    def labels(self, mean: Array, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns class numbers."""
        return class_labels(mean, y)

    def expected_loss(self, p: "Predictive") -> Array:
        """Returns the probability of an error, `1 - max{ mean[c] : c }`."""
        return np.asarray(1.0 - p.mean.max(axis=-1))

    def losses(self, p: "Predictive", y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns the flags of wrong classes."""
        wrong = np.argmax(p.mean, axis=-1) != class_labels(p.mean, y)
        return np.asarray(wrong)


class Labels(_Probabilities):
    """Labels 0 and 1; the loss is 1 for a wrong label."""

    plain_head = Binary()

    def labels(self, mean: Array, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns flags."""
        return binary_labels(mean, y)

    def expected_loss(self, p: "Predictive") -> Array:
        """Returns the probability of an error, `min(mean, 1 - mean)`."""
        return np.asarray(np.minimum(p.mean, 1.0 - p.mean))

    def losses(self, p: "Predictive", y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns the flags of wrong labels."""
        return np.asarray((p.mean >= 0.5) != binary_labels(p.mean, y))


OBSERVATIONS: dict[str, Observation] = {
    kind.plain_head.observation: kind
    for kind in (Numbers(), Classes(), Labels())
}


def observation_of(p: "Predictive") -> Observation:
    """Returns the kind of the observations of a prediction."""
    return OBSERVATIONS[p.head.observation]


def tasks_of(*observations: str) -> tuple[str, ...]:
    """Returns the tasks of predictions with one of the kinds of observation.

    A head may leave a prediction of another task: `NoisyLogits` leaves a
    classification.
    """
    tasks = (
        head().resolved().task
        for observation in observations
        for head in HEADS.values()
        if head.observation == observation
    )
    return tuple(dict.fromkeys(tasks))
