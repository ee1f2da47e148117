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
from keras_bayesdrop.prediction.structures import pair_leaves
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

    def result(self, num_rows: int | None = None) -> Any:
        """Returns the labels of the first rows, in the results' structure.

        Class numbers are `[rows, ...]`, flags and targets like the mean.
        """
        joined = [np.concatenate(parts)[:num_rows] for parts in self._parts]
        return self._pack(joined)

    def _add(self, run: "Run", y: Any, num_rows: int) -> None:
        readings = run.readings.each
        self._pack = run.readings.pack
        matched, names = _match(run, y, self._names)
        checked = []
        for reading, name, labels in zip(readings, names, matched, strict=True):
            shape = reading.row_shape(run.plan)
            where = f" of output `{name}`" if len(readings) > 1 else ""
            checked.append(_check(reading, shape, labels, num_rows, where))
        if not self._parts:
            self._parts = [[] for _ in readings]
        for parts, labels in zip(self._parts, checked, strict=True):
            parts.append(labels)


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


def _match(
    run: "Run", y: Any, names: Sequence[str]
) -> tuple[list[Any], list[str]]:
    """Returns the labels and the name of each result.

    Args:
        run: The prediction under way.
        y: Labels in the structure of the results, or of all outputs of the
            model, or by the names of either.
        names: The names of the outputs of the model, if it has any.
    """
    readings = run.readings.each
    sources = [reading.sources[0] for reading in readings]
    count = len(run.plan.outputs)
    if len(names) != count or len(set(names)) != count:
        names = [str(number) for number in range(count)]
    own = [names[number] for number in sources]
    if isinstance(y, dict) and set(own) <= set(y) <= set(names):
        return [y[name] for name in own], own
    pairs: dict[int, Any] = {}
    structure = run.readings.pack(list(range(len(readings))))
    if pair_leaves(structure, y, pairs, _is_array):
        return [pairs[number] for number in range(len(readings))], own
    whole = run.plan.pack(list(range(count)))
    if count > 1 and pair_leaves(whole, y, pairs, _is_array):
        return [pairs[number] for number in sources], own
    single = len(readings) == 1
    if single and _is_array(y):
        return [y], own
    if single and isinstance(y, (list, tuple)) and len(y) == 1:
        return [y[0]], own
    raise BayesdropError(
        "Labels `y` do not fit the outputs of the model. Expected arrays in "
        f"the structure {_shown(structure, own)}. Received: {_describe(y)}"
    )


def _is_array(y: Any) -> bool:
    """Returns whether labels are one array, or numbers in nested lists."""
    if isinstance(y, (list, tuple)):
        return not any(getattr(entry, "ndim", 0) for entry in y)
    return not isinstance(y, dict)


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
