# SPDX-License-Identifier: Apache-2.0
"""Sets of classes with a guaranteed coverage."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._plain import Plain
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive

SET_METHODS = ("aps", "lac")

# Streams of one seed: the draws at calibration and those later must differ.
CALIBRATION, PREDICTION = 0, 1


@dataclass(frozen=True, eq=False)
class ConformalSets(Plain):
    """Sets of classes that were calibrated by `calibrate.conformal`.

    It holds nothing but the numbers below: `to_dict` and `from_dict` carry it
    through JSON, and it can be pickled.

    Attributes:
        level: Float in `(0, 1)`. Probability that the true class of a new row
            is in its set.
        method: `"aps"` or `"lac"`.
        threshold: Array of the shape of the labels of a row. Classes of a
            score up to it are in the set.
        num_rows: How many rows it was calibrated on.
        num_classes: How many classes there are; 2 for binary.
        randomize: Whether sets are drawn at random at their border.
        seed: Seed of these draws.
    """

    level: float
    method: str
    threshold: Float64Array
    num_rows: int
    num_classes: int
    randomize: bool
    seed: int

    def __post_init__(self) -> None:
        """Brings the threshold into form."""
        check_choice(self.method, "method", SET_METHODS)
        array = np.asarray(self.threshold, dtype=np.float64)
        object.__setattr__(self, "threshold", array)

    def sets(
        self,
        prediction: Predictive,
        allow_empty: bool = True,
        seed: int | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Returns which classes are in the set of each row.

        Args:
            prediction: `Predictive` of a classification or binary, made in
                the same way as the one that was calibrated on.
            allow_empty: Bool. Whether a set may be empty, as happens where
                the guarantee holds without any class. If not, the likeliest
                class is in every set; coverage can only grow by it. Defaults
                to `True`.
            seed: Int, of the draws if `randomize`. Defaults to the seed of
                the calibration, so that the same rows get the same sets.

        Returns:
            Bool array `[rows, classes]`; for binary `[rows, outputs, 2]`, or
            `[rows, 2]` if there is one output without an axis.
        """
        check_predictive(prediction, ("classification", "binary"))
        p = class_probabilities(prediction)
        expected = (*self.threshold.shape, self.num_classes)
        if p.shape[1:] != expected:
            raise BayesdropError(
                "The prediction does not fit the calibration. Expected "
                f"labels and classes of shape {expected}. Received: "
                f"{p.shape[1:]}"
            )
        shares = None
        if self.randomize:
            chosen = self.seed if seed is None else seed
            shares = random_shares(p, chosen, PREDICTION)
        result = (
            class_scores(p, self.method, shares) <= self.threshold[..., None]
        )
        if not allow_empty:
            top = np.argmax(p, axis=-1)[..., None]
            np.put_along_axis(result, top, True, axis=-1)
        return np.asarray(result)


def class_probabilities(prediction: Predictive) -> Float64Array:
    """Mean probabilities with a last axis of classes, two for binary."""
    p = np.clip(prediction.mean.astype(np.float64), 0.0, 1.0)
    return np.stack([1 - p, p], axis=-1) if prediction.task == "binary" else p


def random_shares(p: Float64Array, seed: int, stream: int) -> Float64Array:
    """A number in [0, 1) for each label, `[rows, ..., 1]`."""
    rng = np.random.default_rng([seed, stream])
    return rng.uniform(size=(*p.shape[:-1], 1))


def class_scores(
    p: Float64Array, method: str, shares: Float64Array | None
) -> Float64Array:
    """How badly each class would fit as the label, `[rows, ..., classes]`.

    Args:
        p: Probabilities `[rows, ..., classes]`.
        method: `"lac"` or `"aps"`.
        shares: For `"aps"`, which part of its own probability a class does
            without; `None` for no part.
    """
    if method == "lac":
        return 1.0 - p
    order = np.argsort(-p, axis=-1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=-1)
    up_to = np.cumsum(ordered, axis=-1)
    if shares is not None:
        up_to -= shares * ordered
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, up_to, axis=-1)
    return scores
