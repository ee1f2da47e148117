# SPDX-License-Identifier: Apache-2.0
"""Names the results of a model for the logs.

A head that takes two outputs, such as a mean and a log variance, has one result
in the place of the first.
"""

from typing import Any

import keras

from keras_bayesdrop.predictive.heads import LearnedNoise


def by_name(model: Any, prediction: Any, head: Any) -> dict[str, Any]:
    """Returns the results by the names of their outputs; one has none.

    Args:
        model: The Keras model.
        prediction: A `Predictive` or its labels, or a structure of them.
        head: The head, or the structure of heads, that was asked for.
    """
    if isinstance(prediction, dict):
        return dict(prediction)
    if not isinstance(prediction, (list, tuple)):
        return {"": prediction}
    return dict(zip(_names(model, prediction, head), prediction, strict=True))


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


def _pairs(head: Any) -> list[LearnedNoise]:
    """Returns the heads that take two outputs."""
    return [
        each
        for each in keras.tree.flatten(head)
        if isinstance(each, LearnedNoise) and each.takes_two
    ]
