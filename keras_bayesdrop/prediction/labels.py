# SPDX-License-Identifier: Apache-2.0
"""Labels of the rows of a prediction: matched to its results, and checked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.reading import Reading
from keras_bayesdrop.predictive.observations import OBSERVATIONS

if TYPE_CHECKING:
    from keras_bayesdrop.prediction.methods.base import Run


class Labels:
    """Takes labels from arrays, or from a stream while it is predicted.

    Labels have the structure of the results. A dict may name the outputs of a
    model that returns a list, as in `model.fit`.

    Args:
        model: The Keras model, for the names of its outputs.
        y: Arrays; `None` if the stream has the labels.
        ignore_weights: Whether sample weights of a stream are left out; else
            they are refused.
    """

    def __init__(
        self, model: Any, y: Any = None, ignore_weights: bool = False
    ) -> None:
        self._names = list(getattr(model, "output_names", None) or ())
        self._y = y
        self._ignore_weights = ignore_weights
        self._parts: list[list[npt.NDArray[Any]]] = []
        self._pack: Any = None

    def check_arrays(self, run: "Run", num_rows: int) -> None:
        """Checks the labels of arrays, before the first row is predicted."""
        self._add(run, self._y, num_rows)

    def take(self, run: "Run", batch: Batch) -> None:
        """Checks and keeps the labels of a batch of a stream."""
        if batch.targets is None:
            raise BayesdropError(
                "The stream has no labels. Expected batches `(x, y)`. "
                "Received: a batch of inputs alone"
            )
        if batch.weights is not None and not self._ignore_weights:
            raise BayesdropError(
                "The stream has sample weights, and the metrics take none. "
                "Expected batches `(x, y)`, as by `dataset.map(lambda x, y, "
                "w: (x, y))`. Received: batches `(x, y, sample_weight)`"
            )
        self._add(run, batch.targets, batch.num_rows)

    def result(self, num_rows: int) -> Any:
        """Returns the labels of the first rows, in the results' structure.

        Class numbers are `[rows, ...]`, flags and targets like the mean.
        """
        joined = [np.concatenate(parts)[:num_rows] for parts in self._parts]
        return self._pack(joined)

    def _add(self, run: "Run", y: Any, num_rows: int) -> None:
        readings = run.readings.each
        self._pack = run.readings.pack
        structure = self._pack(list(range(len(readings))))
        names = _result_names(self._names, readings, len(run.plan.outputs))
        matched = _match(structure, y, names)
        checked = []
        for number, reading in enumerate(readings):
            shape = reading.row_shape(run.plan)
            where = f" of output `{names[number]}`" if len(readings) > 1 else ""
            checked.append(
                _check(reading, shape, matched[number], num_rows, where)
            )
        if not self._parts:
            self._parts = [[] for _ in readings]
        for parts, labels in zip(self._parts, checked, strict=True):
            parts.append(labels)


def _result_names(
    names: Sequence[str], readings: Sequence[Reading], num_outputs: int
) -> list[str]:
    """Returns the name of each result: that of its output, or its number."""
    if len(names) != num_outputs:
        return [str(number) for number in range(len(readings))]
    return [names[reading.sources[0]] for reading in readings]


def _check(
    reading: Reading,
    shape: tuple[int | None, ...],
    y: Any,
    num_rows: int,
    where: str,
) -> npt.NDArray[Any]:
    """Returns the labels of one result, in one form."""
    labels = np.asarray(y)
    if not labels.ndim or len(labels) != num_rows:
        received = f"{len(labels)} labels" if labels.ndim else f"y={y!r:.40}"
        raise BayesdropError(
            f"Inputs `x` and labels `y`{where} differ in length. Expected "
            f"{num_rows} labels, one for each row. Received: {received}"
        )
    # An axis of a length that only the prediction will show fits any length.
    whole = [
        size or (labels.shape[axis] if axis < labels.ndim else 1)
        for axis, size in enumerate(shape, 1)
    ]
    mean = np.broadcast_to(np.float32(0), (num_rows, *whole))
    try:
        return OBSERVATIONS[reading.head.observation].labels(mean, labels)
    except BayesdropError as error:
        if not where:
            raise
        raise type(error)(f"Labels `y`{where}: {error}") from error


def _match(structure: Any, y: Any, names: Sequence[str]) -> dict[int, Any]:
    """Returns the labels of each result, by its number.

    Args:
        structure: The numbers of the results, in their structure.
        y: Labels in the same structure, or by name.
        names: The names of the results.
    """
    if isinstance(y, dict) and set(y) == set(names):
        return {number: y[name] for number, name in enumerate(names)}
    pairs: dict[int, Any] = {}
    if len(names) == 1:
        alone = isinstance(y, (dict, list, tuple)) and len(y) == 1
        entry = (
            next(iter(y.values() if isinstance(y, dict) else y), None)
            if alone
            else y
        )
        if alone and np.ndim(entry) == 0:
            entry = y
        if not isinstance(entry, dict):
            return {0: entry}
    elif _pair(structure, y, pairs):
        return pairs
    raise BayesdropError(
        "Labels `y` do not fit the outputs of the model. Expected arrays in "
        f"the structure {_shown(structure, names)}. Received: {_describe(y)}"
    )


def _pair(structure: Any, y: Any, pairs: dict[int, Any]) -> bool:
    """Pairs the numbers in a structure with the leaves of one like it."""
    if isinstance(structure, int):
        pairs[structure] = y
        return not isinstance(y, dict)
    if isinstance(structure, dict):
        return (
            isinstance(y, dict)
            and set(y) == set(structure)
            and all(_pair(structure[key], y[key], pairs) for key in structure)
        )
    return (
        isinstance(y, (list, tuple))
        and len(y) == len(structure)
        and all(map(lambda s, v: _pair(s, v, pairs), structure, y))
    )


def _shown(structure: Any, names: Sequence[str]) -> Any:
    """Returns a structure with names in the place of numbers."""
    if isinstance(structure, dict):
        return {key: _shown(each, names) for key, each in structure.items()}
    if isinstance(structure, (list, tuple)):
        return [_shown(each, names) for each in structure]
    return names[structure]


def _describe(y: Any) -> str:
    if isinstance(y, dict):
        return f"a dict with keys {sorted(map(str, y))[:8]}"
    if isinstance(y, (list, tuple)):
        return f"a {type(y).__name__} of {len(y)}"
    return f"{type(y).__name__} of shape {np.shape(y)}"
