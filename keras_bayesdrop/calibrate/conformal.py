# SPDX-License-Identifier: Apache-2.0
"""Intervals and sets that cover as often as they say, for any model."""

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._rank import check_rank
from keras_bayesdrop.calibrate._rank import score_of_rank
from keras_bayesdrop.calibrate.conformal_intervals import INTERVAL_METHODS
from keras_bayesdrop.calibrate.conformal_intervals import ConformalIntervals
from keras_bayesdrop.calibrate.conformal_intervals import interval_scores
from keras_bayesdrop.calibrate.conformal_sets import CALIBRATION
from keras_bayesdrop.calibrate.conformal_sets import SET_METHODS
from keras_bayesdrop.calibrate.conformal_sets import ConformalSets
from keras_bayesdrop.calibrate.conformal_sets import class_probabilities
from keras_bayesdrop.calibrate.conformal_sets import class_scores
from keras_bayesdrop.calibrate.conformal_sets import random_shares
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.heads import HEADS
from keras_bayesdrop.predictive.labels import binary_labels
from keras_bayesdrop.predictive.labels import class_labels
from keras_bayesdrop.predictive.labels import regression_targets


def conformal(
    prediction: Predictive,
    y: npt.ArrayLike,
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

    If a new row and these are exchangeable (drawn from one population, say),

        level <= P(y in set(x)) <= level + 1 / (n + 1)

    for every model and every `n`; the upper bound where scores do not tie.
    The probability is over the calibration rows too: for one calibration the
    coverage scatters by about `sqrt(level * (1 - level) / n)`. It is an
    average over rows, and promises nothing for a single one.

    Scores for a regression:

        "normalized"   |y - mean| / sqrt(total)
        "absolute"     |y - mean|
        "quantile"     max(lower - y, y - upper),
                       with `Predictive.interval(level)`

    The first gives wider intervals where the model is unsure, the second the
    same width everywhere, the third moves both ends of the model's intervals
    by the same amount. Outputs are calibrated one by one: the level holds for
    each, not for all at once.

    Scores for classes, with `p` the mean probabilities:

        "aps"   sum{ p[c] : p[c] >= p[y] }
        "lac"   1 - p[y]

    The first (adaptive prediction sets) gives larger sets to harder rows. The
    second gives the smallest sets on average, but may do so by leaving hard
    rows empty. Classes of equal probability rank by their number. The last
    class always scores 1 in the first, so that scores tie and the upper bound
    need not hold: of two classes, where more than `1 - level` of the rows are
    wrong, every set has both. With `randomize` a class counts a random share
    of its own probability, nothing ties, and both bounds hold.

    Args:
        prediction: `Predictive` of rows that the model was not trained on.
        y: Their labels or targets, as in `Predictive.log_likelihood`.
        level: Float in `(0, 1)`. Probability to cover. It takes at least
            `level / (1 - level)` rows: 9 for 0.9, 99 for 0.99. Fewer are an
            error, since only infinite intervals would hold it. Defaults to
            `0.9`.
        method: One of the scores above. Defaults to `"normalized"` for a
            regression, to `"aps"` for a classification or with `randomize`,
            and to `"lac"` for task `"binary"`.
        randomize: Bool, for `"aps"`. Defaults to `False`.
        seed: Int, at least 0, of the random shares.

    Returns:
        `ConformalIntervals` for a regression, else `ConformalSets`.

    Example:
    ```python
    c = keras_bayesdrop.calibrate.conformal(p_val, y_val, level=0.9)
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
    two = p.task == "binary" and not randomize
    usual = "lac" if two else methods[0]
    chosen = check_choice(
        usual if method is None else method, "method", methods
    )
    seed = check_int(seed, "seed", at_least=0)
    if randomize and chosen != "aps":
        raise BayesdropError(
            "Invalid value for argument `randomize`. Expected False unless "
            f"method='aps'. Received: randomize=True, method={chosen!r}"
        )
    rank = check_rank(len(p), level)
    if regression:
        target = regression_targets(p.mean, y)
        scores = interval_scores(p, target, level, chosen)
        return ConformalIntervals(
            level=float(level),
            method=chosen,
            threshold=score_of_rank(scores, rank),
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
        threshold=score_of_rank(scores, rank),
        num_rows=len(p),
        num_classes=probabilities.shape[-1],
        randomize=bool(randomize),
        seed=seed,
    )


def _labels(p: Predictive, y: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Class numbers, 0 and 1 for binary."""
    if p.task == "binary":
        return binary_labels(p.mean, y).astype(np.intp)
    return class_labels(p.mean, y)
