# SPDX-License-Identifier: Apache-2.0
"""Conformal sets of classes."""

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

# Streams of one seed: draws for calibration and for prediction differ.
CALIBRATION, PREDICTION = 0, 1


@dataclass(frozen=True, eq=False)
class ConformalSets(Plain):
    """Calibrated sets of classes, as `calibrate.conformal` returns them.

    The object holds only the values below. `to_dict` and `from_dict` convert
    it for JSON, and it can be pickled.

    Attributes:
        level: Float in `(0, 1)`. Probability that the true class of a new row
            is in its set.
        method: `"aps"` or `"lac"`.
        threshold: Array of the shape of the labels of a row. The set contains
            the classes whose score is at most the threshold.
        num_rows: Number of calibration rows.
        num_classes: Number of classes; 2 for binary.
        randomize: `True` if the class at the border of a set is drawn.
        seed: Seed of the draws.
    """

    level: float
    method: str
    threshold: Float64Array
    num_rows: int
    num_classes: int
    randomize: bool
    seed: int

    def __post_init__(self) -> None:
        """Checks the method and converts the threshold to an array."""
        check_choice(self.method, "method", SET_METHODS)
        array = np.asarray(self.threshold, dtype=np.float64)
        object.__setattr__(self, "threshold", array)

    def sets(
        self,
        prediction: Predictive,
        allow_empty: bool = True,
        seed: int | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Returns the set of classes of each row.

        Args:
            prediction: `Predictive` of a classification or binary, computed in
                the same way as the one used for calibration.
            allow_empty: Bool. `True` keeps the empty sets that the method may
                give. `False` adds the most likely class to every set, which
                can only raise the coverage. Defaults to `True`.
            seed: Int. Seed of the draws, with `randomize`. Defaults to the
                seed of the calibration: the same rows get the same sets.

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
    """Returns mean probabilities `[..., classes]`, two classes for binary."""
    p = np.clip(prediction.mean.astype(np.float64), 0.0, 1.0)
    return np.stack([1 - p, p], axis=-1) if prediction.task == "binary" else p


def random_shares(p: Float64Array, seed: int, stream: int) -> Float64Array:
    """Draws a number in [0, 1) for each label, `[rows, ..., 1]`."""
    rng = np.random.default_rng([seed, stream])
    return rng.uniform(size=(*p.shape[:-1], 1))


def class_scores(
    p: Float64Array, method: str, shares: Float64Array | None
) -> Float64Array:
    """Returns the score of each class, `[rows, ..., classes]`.

    A large score means that the class fits the prediction badly.

    Args:
        p: Probabilities `[rows, ..., classes]`.
        method: `"lac"` or `"aps"`.
        shares: For `"aps"`, the part of its own probability that a class
            leaves out; `None` for no part.
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
