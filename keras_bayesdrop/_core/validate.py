# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments, before anything is built or computed.

Each check returns its argument in the plain Python type that a config can
hold, or raises a `BayesdropError` in three beats: what is wrong, what was
expected, what was received.
"""

import math
import os
import pathlib
import random
from collections.abc import Collection
from collections.abc import Iterable
from numbers import Integral
from numbers import Real
from typing import Any

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import UnbuiltModelError


def invalid(name: str, value: Any, expected: str) -> BayesdropError:
    """Returns the error for an argument that is not what was expected.

    Args:
        name: Name of the argument, as the caller wrote it.
        value: The value that was received.
        expected: The expected value, such as `"a float in [0, 1]"`.

    Returns:
        The error, to be raised by the caller.
    """
    return BayesdropError(
        f"Invalid value for argument `{name}`. Expected {expected}. "
        f"Received: {name}={value!r}"
    )


def check_rate(rate: Any, name: str = "rate", below_one: bool = False) -> float:
    """Returns `rate` as a float if it is a probability of dropping.

    Args:
        rate: The argument. Bools are refused: `rate=True` is a mistake.
        name: Name of the argument, for the message.
        below_one: Whether a rate of one is refused too, for noise whose
            variance is infinite there.

    Returns:
        The rate as a Python float.
    """
    interval = "[0, 1)" if below_one else "[0, 1]"
    # Comparisons with NaN are false, so NaN is refused too.
    if not _is_real(rate) or not 0 <= rate <= 1 or (below_one and rate == 1):
        raise invalid(name, rate, f"a float in {interval}")
    return float(rate)


def check_positive(value: Any, name: str) -> float:
    """Returns `value` as a float if it is positive and finite."""
    if not _is_real(value) or not (value > 0 and math.isfinite(value)):
        raise invalid(name, value, "a positive, finite float")
    return float(value)


def check_not_negative(value: Any, name: str) -> float:
    """Returns `value` as a float if it is finite and at least zero."""
    if not _is_real(value) or not (value >= 0 and math.isfinite(value)):
        raise invalid(name, value, "a finite float of at least 0")
    return float(value)


def check_positive_int(value: Any, name: str) -> int:
    """Returns `value` as an int if it is a whole number of at least one."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise invalid(name, value, "an integer of at least 1")
    return int(value)


def check_int(
    value: Any,
    name: str,
    at_least: int | None = None,
    at_most: int | None = None,
) -> int:
    """Returns `value` as an int if it is whole, and within the bounds."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if (
        not whole
        or (at_least is not None and value < at_least)
        or (at_most is not None and value > at_most)
    ):
        bound = "" if at_least is None else f" of at least {at_least}"
        if at_most is not None:
            bound += f" and at most {at_most}"
        raise invalid(name, value, f"an integer{bound}")
    return int(value)


def check_return_samples(value: Any) -> bool | pathlib.Path:
    """Returns whether to keep samples, or the file to keep them in."""
    # `np.bool_` is not a `bool`. An int is refused.
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    expected = "a bool, or the path of a `.npy` file in a folder that exists"
    if not isinstance(value, (str, os.PathLike)):
        raise invalid("return_samples", value, expected)
    path = pathlib.Path(os.fsdecode(value))
    if path.suffix != ".npy" or path.is_dir() or not path.parent.is_dir():
        raise invalid("return_samples", os.fspath(value), expected)
    return path


def check_model(model: Any) -> None:
    """Raises unless `model` is a Keras model that has been built."""
    # Imported here, so that checks of plain values need no Keras.
    import keras

    if not isinstance(model, keras.Model):
        raise BayesdropError(
            "Invalid value for argument `model`. Expected a `keras.Model`. "
            f"Received: model={model!r} (of type {type(model).__name__})"
        )
    if not model.built:
        raise UnbuiltModelError(
            f"Model `{model.name}` has not been built, so it has no weights. "
            "Expected a model with an `Input`, or one that was built by "
            "`model.build(...)`, `model(x)` or `fit`. Received: "
            f"{type(model).__name__} with built=False"
        )


def check_choice(value: Any, name: str, choices: Collection[str]) -> str:
    """Returns `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        raise invalid(name, value, f"one of {options}")
    return value


def check_levels(levels: Any, name: str) -> tuple[float, ...] | None:
    """Returns quantile levels as a tuple of floats in [0, 1], or `None`."""
    if levels is None:
        return None
    expected = "`None`, or a sequence of floats in [0, 1]"
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise invalid(name, levels, expected)
    values = tuple(levels)
    if not values or not all(_is_real(q) and 0 <= q <= 1 for q in values):
        raise invalid(name, levels, expected)
    return tuple(float(q) for q in values)


def check_noise_shape(noise_shape: Any) -> tuple[int | None, ...] | None:
    """Returns `noise_shape` as a tuple of ints and `None`, or `None`."""
    if noise_shape is None:
        return None
    expected = "`None`, or a tuple of positive integers and `None`"
    if isinstance(noise_shape, str) or not isinstance(noise_shape, Iterable):
        raise invalid("noise_shape", noise_shape, expected)
    sizes = tuple(noise_shape)
    for size in sizes:
        if size is None:
            continue
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
            raise invalid("noise_shape", noise_shape, expected)
    return tuple(None if size is None else int(size) for size in sizes)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_threshold(threshold: Any) -> float:
    """Returns `threshold` as a float if it is a finite number."""
    number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not number or not math.isfinite(threshold):
        raise invalid("threshold", threshold, "a finite float")
    return float(threshold)


def check_bool(value: Any, name: str) -> bool:
    """Returns `value` if it is `True` or `False`."""
    if not isinstance(value, bool):
        raise invalid(name, value, "`True` or `False`")
    return value


def check_seed(seed: Any) -> int:
    """Returns `seed` if it is an integer; for `None` one drawn at random.

    Python's generator draws it, so that `keras.utils.set_random_seed` governs
    the seeds that nobody chose.
    """
    return random.getrandbits(63) if seed is None else check_int(seed, "seed")
