# SPDX-License-Identifier: Apache-2.0
"""Names the results of a model, and finds the targets of each.

A head that takes two outputs, a mean and a log variance, has one result in the
place of the mean. Its targets are those of the mean.
"""

from typing import Any

import keras

from keras_bayesdrop.predictive import Heteroscedastic
from keras_bayesdrop.predictive import Predictive


def by_name(model: Any, prediction: Any, head: Any) -> dict[str, Predictive]:
    """Returns the results by the names of their outputs; one has none.

    Args:
        model: The Keras model.
        prediction: A `Predictive`, or a structure of them.
        head: The head, or the structure of heads, that was asked for.
    """
    if isinstance(prediction, Predictive):
        return {"": prediction}
    if isinstance(prediction, dict):
        return dict(prediction)
    return dict(zip(_names(model, prediction, head), prediction, strict=True))


def targets_of(
    y: Any, name: str, model: Any, prediction: Any, head: Any
) -> Any:
    """Returns the targets of one result.

    Args:
        y: Targets like the results, or like the outputs of the model.
        name: Name of the result, as in `by_name`.
        model: The Keras model.
        prediction: As in `by_name`.
        head: As in `by_name`.
    """
    if not name:
        return _of_mean(y, model, head)
    if isinstance(y, dict):
        return y[name]
    if isinstance(prediction, dict):
        return y[list(prediction).index(name)]
    index = _names(model, prediction, head).index(name)
    if len(y) == len(prediction):
        return y[index]
    return y[_positions(model, len(y), head)[index]]


def _of_mean(y: Any, model: Any, head: Any) -> Any:
    """Returns the targets of the only result."""
    pairs = _pairs(head)
    if not pairs or not isinstance(y, (dict, list, tuple)):
        return y
    if isinstance(y, dict):
        return y[pairs[0].mean]
    if len(y) == 1:
        return y[0]
    return y[_positions(model, len(y), head)[0]]


def _names(model: Any, prediction: Any, head: Any) -> list[str]:
    names = list(getattr(model, "output_names", None) or [])
    kept = _positions(model, len(names), head)
    if len(kept) != len(prediction):
        return [f"output_{index}" for index in range(len(prediction))]
    return [names[position] for position in kept]


def _positions(model: Any, count: int, head: Any) -> list[int]:
    """Returns the positions of outputs that have a result of their own."""
    names = list(getattr(model, "output_names", None) or [])
    names += [str(position) for position in range(len(names), count)]
    gone = {pair.log_variance for pair in _pairs(head)}
    return [
        position
        for position in range(count)
        if position not in gone and names[position] not in gone
    ]


def _pairs(head: Any) -> list[Heteroscedastic]:
    """Returns the heads that take two outputs."""
    return [
        each
        for each in keras.tree.flatten(head)
        if isinstance(each, Heteroscedastic) and each.takes_two
    ]
