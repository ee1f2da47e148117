# SPDX-License-Identifier: Apache-2.0
"""Split conformal prediction: intervals and sets with guaranteed coverage."""

from typing import Any

import numpy.typing as npt

from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.calibrate._checks import check_observation
from keras_bayesdrop.calibrate._conformal_cells import check_level
from keras_bayesdrop.calibrate._conformal_groups import check_groups
from keras_bayesdrop.calibrate._conformal_intervals import INTERVAL_METHODS
from keras_bayesdrop.calibrate._conformal_intervals import ConformalIntervals
from keras_bayesdrop.calibrate._conformal_intervals import calibrate_intervals
from keras_bayesdrop.calibrate._conformal_scores import SET_METHODS
from keras_bayesdrop.calibrate._conformal_scores import ClassScore
from keras_bayesdrop.calibrate._conformal_scores import usual_penalty
from keras_bayesdrop.calibrate._conformal_sets import ConformalSets
from keras_bayesdrop.calibrate._conformal_sets import calibrate_sets
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.metrics._inputs import truth_first
from keras_bayesdrop.predictive import Predictive


@truth_first
def conformal(
    y: npt.ArrayLike,
    prediction: Predictive,
    level: float = 0.9,
    method: str | None = None,
    randomize: bool = False,
    seed: int = 0,
    allow_empty: bool = False,
    per_class: bool = False,
    groups: npt.ArrayLike | None = None,
    penalty: float | None = None,
    k_reg: int | None = None,
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

    Scores for numbers (a regression, also one with learned noise):

        "normalized"   |y - mean| / sqrt(total)
        "absolute"     |y - mean|
        "quantile"     max(lower - y, y - upper),
                       with `Predictive.interval(level)`

    `"normalized"` gives wider intervals where the model is uncertain,
    `"absolute"` the same width everywhere. `"quantile"` moves both ends of the
    model's intervals by the same amount. Outputs are calibrated one by one:
    the level holds for each output, not for all outputs together.

    Scores for classes, with `p` the mean probabilities; binary labels are two
    classes:

        "aps"    above(y) = sum{ p[c] : p[c] > p[y] }
        "raps"   above(y) + penalty * max(rank(y) - k_reg, 0),
                 rank(y) = 1 + number of c with p[c] > p[y]
        "lac"    1 - p[y], but 0 for the most likely class

    `"aps"` (adaptive prediction sets) adds classes, most likely first, until
    the mass of the set exceeds the threshold: harder rows get larger sets.
    `"raps"` (regularised) makes classes of high rank pay: sets shrink where
    the model spreads its doubt over many unlikely classes. `"lac"` (least
    ambiguous) gives the smallest sets on average, but covers hard rows less
    often than easy ones. With two classes all three are the same. Classes of
    equal probability have the same score: a set contains all of them or none,
    whatever their order.

    The most likely class scores 0, so **no set is empty**. If the model is
    right more often than `level`, the threshold is 0, each set is the most
    likely class, and the coverage is the accuracy, above the upper bound.
    Otherwise the bounds hold. Two options lead to exact coverage in both
    cases, at the price of empty sets for some rows of a model that is right
    too often:

        randomize=True, allow_empty=True    "aps", "raps": a class counts a
                                            random share of its own p[y] too
        allow_empty=True                    "lac": 1 - p[y] for every class

    Exact means within the bounds above, over the draws too: the shares of one
    `seed` move the coverage of one calibration as the choice of its rows does.
    Labels with a probability of exactly 0 still tie. `randomize` alone keeps
    the 0 of the most likely class; it breaks the ties between scores of
    predictions that repeat. `allow_empty` alone has no meaning for `"aps"` and
    `"raps"`, and is refused.

    The level holds on average over all rows. `per_class` and `groups` compute
    a threshold for each class or group from its own rows (Mondrian conformal
    prediction), so that the level holds for the rows of each class or group.
    They go with every score, and with each other: a threshold then belongs to
    a class in a group. A class or group with fewer than `level / (1 - level)`
    rows gets an infinite threshold, which is the only one with the coverage:
    its sets hold the class always, its intervals are infinite. A warning names
    these.

    Args:
        y: Labels or targets, as in `Predictive.log_likelihood`.
        prediction: `Predictive` of the same rows, which the model was not
            trained on.
        level: Float in `(0, 1)`. Probability to cover. It takes at least
            `level / (1 - level)` rows: 9 for 0.9, 99 for 0.99. With fewer rows
            only infinite intervals would have the coverage, which is an error.
            Defaults to `0.9`.
        method: One of the scores above. Defaults to `"normalized"` for
            numbers, to `"aps"` for a classification or with `randomize`, and
            to `"lac"` for task `"binary"`.
        randomize: Bool, for `"aps"` and `"raps"`. Defaults to `False`.
        seed: Int, at least 0. Seed of the random shares.
        allow_empty: Bool. `True` keeps empty sets, for `"lac"` or with
            `randomize`. Defaults to `False`.
        per_class: Bool, for classes. `True` calibrates each class on the rows
            that have it as label. Defaults to `False`.
        groups: Group of each row, `[rows]`, integers or strings: a known
            property of the rows, such as a region or a device. The intervals
            or sets of new rows then ask for their groups. `None` for one
            threshold for all rows.
        penalty: Float, at least 0, for `"raps"`: `lambda` of the paper.
            `None` stands for 0.05. Choose it, if at all, on other rows.
        k_reg: Int, at least 0, for `"raps"`: number of classes without
            penalty, below the number of classes. `None` stands for 2.

    Returns:
        `ConformalIntervals` for numbers, else `ConformalSets`.

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
        - [Angelopoulos et al., 2021](https://arxiv.org/abs/2009.14193): raps.
        - [Vovk, 2012](https://arxiv.org/abs/1209.2673): per class and group.
    """
    p = check_observation(prediction, ("number", "class", "label"))
    level = check_level(level)
    seed = check_int(seed, "seed", at_least=0)
    check_bool(randomize, "randomize")
    check_bool(allow_empty, "allow_empty")
    check_bool(per_class, "per_class")
    names = None if groups is None else check_groups(groups, len(p))
    if p.head.observation == "number":
        chosen = INTERVAL_METHODS[0] if method is None else method
        check_choice(chosen, "method", INTERVAL_METHODS)
        _refuse_for_numbers(
            randomize=randomize,
            allow_empty=allow_empty,
            per_class=per_class,
            penalty=penalty,
            k_reg=k_reg,
        )
        return calibrate_intervals(p, y, level, chosen, names)
    if method is None:
        label = p.head.observation == "label"
        method = "lac" if label and not randomize else "aps"
    check_choice(method, "method", SET_METHODS)
    _check_k_reg(p, k_reg)
    penalty, k_reg = usual_penalty(method, penalty, k_reg)
    score = ClassScore(method, randomize, allow_empty, penalty, k_reg)
    return calibrate_sets(p, y, level, score, seed, per_class, names)


def _refuse_for_numbers(**options: Any) -> None:
    """Raises for options that only sets of classes have."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise BayesdropError(
                f"Invalid value for argument `{name}`. Expected the default: "
                "it is an option of sets of classes, not of intervals. "
                f"Received: {name}={value!r}"
            )


def _check_k_reg(p: Predictive, k_reg: int | None) -> None:
    """Raises if no class could pay a penalty."""
    if k_reg is None:
        return
    classes = 2 if p.head.observation == "label" else p.mean.shape[-1]
    check_int(k_reg, "k_reg", at_least=0, at_most=classes - 1)
