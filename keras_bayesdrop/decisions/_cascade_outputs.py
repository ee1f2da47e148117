# SPDX-License-Identifier: Apache-2.0
"""Checks and merges the outputs of two models."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive


def check_output(output: Any, rows: int, who: str) -> Any:
    """Returns a structure of `Predictive` and arrays, all of `rows` rows.

    Args:
        output: Output of a model.
        rows: Number of rows of its input.
        who: Name of the model, for the error message.
    """

    def check(leaf: Any) -> Any:
        if not isinstance(leaf, Predictive):
            leaf = np.asarray(leaf)
            numeric = leaf.dtype.kind in "fiub"
            if leaf.ndim == 0 or not numeric:
                raise BayesdropError(
                    f"The output of the {who} model cannot be merged. "
                    "Expected a `Predictive` or an array of numbers "
                    f"[rows, ...]. Received: type {leaf.dtype}, shape "
                    f"{leaf.shape}"
                )
        if len(leaf) != rows:
            raise BayesdropError(
                f"The output of the {who} model has the wrong number of rows. "
                f"Expected {rows}. Received: {len(leaf)}"
            )
        return leaf

    return keras.tree.map_structure(check, output)


def merge(fast: Any, slow: Any, rows: npt.NDArray[np.intp]) -> tuple[Any, Any]:
    """Replaces rows of the fast output by those of the slow output.

    Args:
        fast: Structure of outputs for all rows.
        slow: The same for some rows, or `None`.
        rows: The rows of `slow`.

    Returns:
        Merged means, and merged standard deviations, or `None` unless all
        outputs have them.
    """
    flat_fast = keras.tree.flatten(fast)
    flat_slow = [None] * len(flat_fast)
    if slow is not None:
        _check_structure(fast, slow)
        flat_slow = keras.tree.flatten(slow)
    pairs = list(zip(flat_fast, flat_slow, strict=True))
    for below, above in pairs:
        if above is not None:
            _check_fit(below, above)
    known = [leaf for pair in pairs for leaf in pair if leaf is not None]
    mean = [_put(_mean(f), s, _mean, rows) for f, s in pairs]
    std = None
    if all(isinstance(leaf, Predictive) for leaf in known):
        std = keras.tree.pack_sequence_as(
            fast, [_put(_std(f), s, _std, rows) for f, s in pairs]
        )
    return keras.tree.pack_sequence_as(fast, mean), std


def _mean(leaf: Any) -> npt.NDArray[Any]:
    return leaf.mean if isinstance(leaf, Predictive) else leaf


def _std(leaf: Predictive) -> npt.NDArray[Any]:
    return leaf.std


def _put(
    values: npt.NDArray[Any],
    slow: Any,
    part: Any,
    rows: npt.NDArray[np.intp],
) -> npt.NDArray[Any]:
    """Returns a copy of `values` with the part of `slow` at `rows`."""
    if slow is None:
        return np.array(values)
    other = part(slow)
    merged: npt.NDArray[Any] = values.astype(np.result_type(values, other))
    merged[rows] = other
    return merged


def _check_structure(fast: Any, slow: Any) -> None:
    try:
        keras.tree.assert_same_structure(fast, slow)
    except (ValueError, TypeError) as error:
        raise BayesdropError(
            "The outputs of the two models differ in structure. Expected the "
            "same lists or dicts of outputs from both. Received: "
            f"{_outline(fast)} from the fast model, {_outline(slow)} from the "
            "slow one"
        ) from error


def _outline(output: Any) -> Any:
    return keras.tree.map_structure(lambda leaf: _mean(leaf).shape, output)


def _check_fit(fast: Any, slow: Any) -> None:
    """Raises if shapes or tasks of two outputs differ."""
    wanted, shape = _mean(fast).shape[1:], _mean(slow).shape[1:]
    if wanted != shape:
        raise BayesdropError(
            "The outputs of the two models differ in shape. Expected "
            f"[rows, {', '.join(map(str, wanted))}], as of the fast model. "
            f"Received: [rows, {', '.join(map(str, shape))}] from the slow one"
        )
    heads = [
        leaf.head if isinstance(leaf, Predictive) else None
        for leaf in (fast, slow)
    ]
    first, second = heads
    if first and second and first.observation != second.observation:
        raise BayesdropError(
            "The two models have different tasks. Expected the same from "
            f"both. Received: {first.task!r} from the fast model, "
            f"{second.task!r} from the slow one"
        )
    for leaf, other in ((fast, second), (slow, first)):
        if isinstance(leaf, Predictive) or other is None:
            continue
        if other.observation == "number":
            continue
        if np.any((leaf < 0) | (leaf > 1)):
            raise BayesdropError(
                "The output of one model is not a probability. Expected "
                "numbers in [0, 1], since the other has "
                f"task={other.task!r} (an output of logits needs its "
                f"softmax). Received: values from {leaf.min()} to {leaf.max()}"
            )
