# SPDX-License-Identifier: Apache-2.0
"""Split conformal prediction: intervals and sets with guaranteed coverage."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._conformal_intervals import INTERVAL_METHODS
from keras_bayesdrop.calibrate._conformal_intervals import ConformalIntervals
from keras_bayesdrop.calibrate._conformal_intervals import interval_scores
from keras_bayesdrop.calibrate._conformal_sets import CALIBRATION
from keras_bayesdrop.calibrate._conformal_sets import SET_METHODS
from keras_bayesdrop.calibrate._conformal_sets import ConformalSets
from keras_bayesdrop.calibrate._conformal_sets import class_probabilities
from keras_bayesdrop.calibrate._conformal_sets import class_scores
from keras_bayesdrop.calibrate._conformal_sets import random_shares
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.heads import HEADS
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.labels import regression_targets

# Absorbs the rounding of (n + 1) * level: 0.7 * 10 must count as 7.
_ROUNDING = 1e-9


@truth_first
def conformal(
    y: npt.ArrayLike,
    prediction: Predictive,
    level: float = 0.9,
    method: str | None = None,
    randomize: bool = False,
    seed: int = 0,
) -> ConformalIntervals | ConformalSets:
    """Calibrates prediction intervals or sets (split conformal prediction).

    With a score `s(x, y)` that is large where `y` fits the prediction badly,
    and `n` rows that the model was not trained on:

        threshold = score of rank ceil((n + 1) * level) among the n rows
        set(x)    = { y : s(x, y) <= threshold }

    If a new row and these rows are exchangeable (drawn from one population,
    for example),

        level <= P(y in set(x)) <= level + 1 / (n + 1)

    for every model and every `n`. The upper bound requires scores without
    ties. The probability is over the calibration rows too: for one calibration
    the standard deviation of the coverage is about
    `sqrt(level * (1 - level) / n)`. The coverage is an average over rows, and
    says nothing about a single row.

    Scores for a regression:

        "normalized"   |y - mean| / sqrt(total)
        "absolute"     |y - mean|
        "quantile"     max(lower - y, y - upper),
                       with `Predictive.interval(level)`

    `"normalized"` gives wider intervals where the model is uncertain,
    `"absolute"` the same width everywhere. `"quantile"` moves both ends of the
    model's intervals by the same amount. Outputs are calibrated one by one:
    the level holds for each output, not for all outputs together.

    Scores for classes, with `p` the mean probabilities:

        "aps"   sum{ p[c] : p[c] >= p[y] }
        "lac"   1 - p[y]

    `"aps"` (adaptive prediction sets) gives larger sets to harder rows.
    `"lac"` gives the smallest sets on average, but the sets of hard rows may
    be empty. Classes of equal probability rank by their number. With `"aps"`
    the least likely class always scores 1, so scores tie and the upper bound
    need not hold: with two classes, where more than `1 - level` of the rows
    are wrong, every set contains both. With `randomize` a class counts a
    random share of its own probability, scores do not tie, and both bounds
    hold.

    Args:
        y: Labels or targets, as in `Predictive.log_likelihood`.
        prediction: `Predictive` of the same rows, which the model was not
            trained on.
        level: Float in `(0, 1)`. Probability to cover. It takes at least
            `level / (1 - level)` rows: 9 for 0.9, 99 for 0.99. With fewer rows
            only infinite intervals would have the coverage, which is an error.
            Defaults to `0.9`.
        method: One of the scores above. Defaults to `"normalized"` for a
            regression, to `"aps"` for a classification or with `randomize`,
            and to `"lac"` for task `"binary"`.
        randomize: Bool, for `"aps"`. Defaults to `False`.
        seed: Int, at least 0. Seed of the random shares.

    Returns:
        `ConformalIntervals` for a regression, else `ConformalSets`.

    Example:
    ```python
    c = keras_bayesdrop.calibrate.conformal(y_val, p_val, level=0.9)
    lower, upper = c.intervals(p_new)
    ```

    References:
        - [Lei et al., 2018](https://arxiv.org/abs/1604.04173).
        - [Romano et al., 2019](https://arxiv.org/abs/1905.03222): quantile.
        - [Sadinle et al., 2019](https://arxiv.org/abs/1609.00451): lac.
        - [Romano et al., 2020](https://arxiv.org/abs/2006.02544): aps.
    """
    p = check_predictive(prediction, tuple(HEADS))
    regression = p.task == "regression"
    methods = INTERVAL_METHODS if regression else SET_METHODS
    default = methods[0]
    if p.task == "binary" and not randomize:
        default = "lac"
    chosen = check_choice(
        default if method is None else method, "method", methods
    )
    seed = check_int(seed, "seed", at_least=0)
    if randomize and chosen != "aps":
        raise BayesdropError(
            "Invalid value for argument `randomize`. Expected False unless "
            f"method='aps'. Received: randomize=True, method={chosen!r}"
        )
    rank = _check_rank(len(p), level)
    if regression:
        target = regression_targets(p.mean, y)
        scores = interval_scores(p, target, level, chosen)
        return ConformalIntervals(
            level=float(level),
            method=chosen,
            threshold=_score_of_rank(scores, rank),
            num_rows=len(p),
        )
    probabilities = class_probabilities(p)
    labels = _labels(p, y)
    shares = (
        random_shares(probabilities, seed, CALIBRATION) if randomize else None
    )
    scores = class_scores(probabilities, chosen, shares)
    scores = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    return ConformalSets(
        level=float(level),
        method=chosen,
        threshold=_score_of_rank(scores, rank),
        num_rows=len(p),
        num_classes=probabilities.shape[-1],
        randomize=bool(randomize),
        seed=seed,
    )


def _check_rank(rows: int, level: Any) -> int:
    """Returns the rank `ceil((rows + 1) * level)`, if there are enough rows.

    All ranks of a new row among the `rows + 1` are equally likely. So its
    score is at most the score of this rank with a probability of at least
    `level`.
    """
    number = isinstance(level, int | float | np.number)
    if not number or not 0 < level < 1:
        raise invalid("level", level, "a float in (0, 1)")
    rank = math.ceil((rows + 1) * float(level) - _ROUNDING)
    if rank > rows:
        needed = math.ceil(float(level) / (1 - level) - _ROUNDING)
        raise BayesdropError(
            f"Too few rows for level={level}. Expected at least {needed} "
            "rows to calibrate on; with fewer, only infinite intervals or "
            f"sets of all classes have the coverage. Received: {rows} rows"
        )
    return rank


def _score_of_rank(scores: Float64Array, rank: int) -> Float64Array:
    """Returns the score of that rank, counted from below on the first axis."""
    return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])


def _labels(p: Predictive, y: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Returns class numbers; 0 and 1 for binary."""
    if p.task == "binary":
        return binary_labels(p.mean, y).astype(np.intp)
    return class_labels(p.mean, y)
