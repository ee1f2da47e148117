# SPDX-License-Identifier: Apache-2.0
"""Conformal sets of classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.calibrate._checks import check_observation
from keras_bayesdrop.calibrate._conformal_cells import calibrate_threshold
from keras_bayesdrop.calibrate._conformal_cells import read_threshold
from keras_bayesdrop.calibrate._conformal_cells import row_thresholds
from keras_bayesdrop.calibrate._conformal_groups import Groups
from keras_bayesdrop.calibrate._conformal_groups import read_groups
from keras_bayesdrop.calibrate._conformal_scores import CALIBRATION
from keras_bayesdrop.calibrate._conformal_scores import PREDICTION
from keras_bayesdrop.calibrate._conformal_scores import ClassScore
from keras_bayesdrop.calibrate._conformal_scores import random_shares
from keras_bayesdrop.calibrate._plain import Plain
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.quantities import unit_interval


@dataclass(frozen=True, eq=False)
class ConformalSets(Plain):
    """Calibrated sets of classes, as `calibrate.conformal` returns them.

    The object holds only the values below. `to_dict` and `from_dict` convert
    it for JSON, and it can be pickled.

    Attributes:
        level: Float in `(0, 1)`. Probability that the true class of a new row
            is in its set.
        method: `"aps"`, `"raps"` or `"lac"`.
        threshold: Array of the shape of the labels of a row. The set contains
            the classes whose score is at most the threshold. With `groups` a
            first axis runs over groups, with `per_class` a last one over
            classes. Infinite where there were too few rows.
        num_rows: Number of calibration rows.
        num_classes: Number of classes; 2 for binary.
        randomize: `True` if the class at the border of a set is drawn.
        seed: Seed of the draws.
        allow_empty: `True` if sets may be empty.
        per_class: `True` if each class has a threshold.
        groups: Tuple of the groups that have a threshold each, or `None`.
        penalty: Penalty of `"raps"`, else `None`.
        k_reg: Number of classes without penalty of `"raps"`, else `None`.
    """

    level: float
    method: str
    threshold: Float64Array
    num_rows: int
    num_classes: int
    randomize: bool
    seed: int
    allow_empty: bool = False
    per_class: bool = False
    groups: Groups | None = None
    penalty: float | None = None
    k_reg: int | None = None

    def __post_init__(self) -> None:
        """Checks the fields and converts the threshold to an array."""
        self._score()
        check_bool(self.per_class, "per_class")
        groups = read_groups(self.groups)
        classes = self.num_classes if self.per_class else None
        threshold = read_threshold(self.threshold, groups, classes)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "threshold", threshold)

    def sets(
        self,
        prediction: Predictive,
        seed: int | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Returns the set of classes of each row.

        Args:
            prediction: `Predictive` of a classification or binary, computed in
                the same way as the one used for calibration.
            seed: Int. Seed of the draws, with `randomize`. Defaults to the
                seed of the calibration: the same rows get the same sets.
            groups: Group of each row, `[rows]`, if the calibration has groups.
                A group that the calibration has not seen is an error.

        Returns:
            Bool array `[rows, classes]`; for binary `[rows, outputs, 2]`, or
            `[rows, 2]` if there is one output without an axis.
        """
        check_observation(prediction, ("class", "label"))
        p = class_probabilities(prediction)
        first = 0 if self.groups is None else 1
        last = self.threshold.ndim - int(self.per_class)
        expected = (*self.threshold.shape[first:last], self.num_classes)
        if p.shape[1:] != expected:
            raise BayesdropError(
                "The prediction does not fit the calibration. Expected "
                f"labels and classes of shape {expected}. Received: "
                f"{p.shape[1:]}"
            )
        threshold = row_thresholds(self.threshold, self.groups, groups, len(p))
        if not self.per_class:
            threshold = threshold[..., None]
        shares = None
        if self.randomize:
            chosen = self.seed if seed is None else seed
            chosen = check_int(chosen, "seed", at_least=0)
            shares = random_shares(p, chosen, PREDICTION)
        return np.asarray(self._score()(p, shares) <= threshold)

    def _score(self) -> ClassScore:
        return ClassScore(
            method=self.method,
            randomize=self.randomize,
            allow_empty=self.allow_empty,
            penalty=self.penalty,
            k_reg=self.k_reg,
        )


def calibrate_sets(
    p: Predictive,
    y: npt.ArrayLike,
    level: float,
    score: ClassScore,
    seed: int,
    per_class: bool,
    groups: npt.NDArray[Any] | None,
) -> ConformalSets:
    """Returns sets whose thresholds are calibrated on labels.

    Args:
        p: Prediction of classes or binary labels.
        y: Labels.
        level: Level in (0, 1).
        score: Score of a class.
        seed: Seed of the random shares.
        per_class: Bool. `True` for a threshold for each class.
        groups: Group of each row, or `None`.
    """
    probabilities = class_probabilities(p)
    labels = (
        class_labels(p.mean, y)
        if p.head.observation == "class"
        else binary_labels(p.mean, y).astype(np.intp)
    )
    shares = None
    if score.randomize:
        shares = random_shares(probabilities, seed, CALIBRATION)
    scores = score(probabilities, shares)
    scores = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    num_classes = probabilities.shape[-1]
    threshold, names = calibrate_threshold(
        scores,
        level,
        groups,
        labels if per_class else None,
        num_classes,
        "every set contains these classes."
        if per_class
        else "sets of these groups contain all classes.",
    )
    return ConformalSets(
        level=level,
        method=score.method,
        threshold=threshold,
        num_rows=len(p),
        num_classes=num_classes,
        randomize=score.randomize,
        seed=seed,
        allow_empty=score.allow_empty,
        per_class=per_class,
        groups=names,
        penalty=score.penalty,
        k_reg=score.k_reg,
    )


def class_probabilities(prediction: Predictive) -> Float64Array:
    """Returns mean probabilities `[..., classes]`, two classes for binary."""
    p: Float64Array = unit_interval(prediction.mean)
    if prediction.head.observation == "label":
        return np.stack([1 - p, p], axis=-1)
    return p
