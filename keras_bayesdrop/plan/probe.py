# SPDX-License-Identifier: Apache-2.0
"""Where the batch axis of a value is, found by asking with two batch sizes.

Samples are folded into the batch axis, so a value's first axis must be the
batch, or the value must not depend on it at all. Keras' own layers keep the
batch first; other code may move it, fold axes into it, or make values without.
"""

import enum
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop import _keras
from keras_bayesdrop.plan.graph import Graph

# Two primes that no layer is likely to have as a size of its own, and one for
# axes that a model leaves open.
BATCHES = (7, 11)
_OPEN = 13

Shape = tuple[int | None, ...]


class Role(enum.Enum):
    """What the first axis of a value holds."""

    ROWS = "one entry per row"
    ENTRIES = "several entries per row"
    CONSTANT = "nothing that depends on the batch"
    ELSEWHERE = "another axis than the batch"
    UNKNOWN = "an axis of unknown size"


def role_of(shapes: tuple[Shape, Shape]) -> Role:
    """Returns the role of a value from its shapes at two batch sizes."""
    first, second = shapes
    if len(first) != len(second):
        return Role.ELSEWHERE
    if first == second:
        return Role.UNKNOWN if None in first[:1] else Role.CONSTANT
    if first[1:] != second[1:]:
        return Role.ELSEWHERE
    if (first[0], second[0]) == BATCHES:
        return Role.ROWS
    per_row = [
        (size or 0) / batch
        for size, batch in zip((first[0], second[0]), BATCHES, strict=True)
    ]
    return Role.ENTRIES if per_row[0] == per_row[1] else Role.ELSEWHERE


def value_shapes(graph: Graph) -> list[tuple[Shape, Shape]]:
    """Returns the shape of every value at both batch sizes."""
    if all(_keeps_rows(node.operation) for node in graph.nodes):
        return _assume_batch_first(graph)
    try:
        one, other = (_infer(graph, batch) for batch in BATCHES)
    except Exception:
        # A layer that cannot say its shape, or a batch size fixed for good:
        # what the model itself was built with has to do.
        return _assume_batch_first(graph)
    return list(zip(one, other, strict=True))


def _assume_batch_first(graph: Graph) -> list[tuple[Shape, Shape]]:
    """Reads the shapes off a graph that leaves the batch where it is."""
    fixed = {graph.specs[number].shape[0] for number in graph.inputs} - {None}

    def at(shape: Shape, batch: int) -> Shape:
        if shape and (shape[0] is None or shape[0] in fixed):
            return (batch, *shape[1:])
        return shape

    shapes = [tuple(spec.shape) for spec in graph.specs]
    one, other = BATCHES
    return [(at(shape, one), at(shape, other)) for shape in shapes]


def _infer(graph: Graph, batch: int) -> list[Shape]:
    """Asks every operation for the shapes it would make."""
    values: dict[int, Any] = {}
    for number in graph.inputs:
        spec = graph.specs[number]
        dims = [_OPEN if dim is None else dim for dim in spec.shape[1:]]
        values[number] = keras.KerasTensor((batch, *dims), spec.dtype)
    for node in graph.nodes:
        args, kwargs = node.fill([values[number] for number in node.inputs])
        made = node.operation.compute_output_spec(*args, **kwargs)
        values.update(zip(node.outputs, keras.tree.flatten(made), strict=True))
    return [tuple(values[number].shape) for number in range(len(graph.specs))]


def _keeps_rows(operation: Any) -> bool:
    return (
        isinstance(operation, keras.Layer)
        and not isinstance(operation, keras.layers.Lambda)
        and _keras.is_ours(type(operation))
    )


def misplaced(path: str, shapes: tuple[Shape, Shape]) -> str:
    """Returns why noise on a value of these shapes cannot be sampled."""
    shape = tuple(
        "batch" if one != other else one
        for one, other in zip(*shapes, strict=False)
    )
    text = ", ".join(str(dim) for dim in shape)
    return (
        f"Layer `{path}` meets noise on a value whose first axis is not the "
        "batch, so several samples cannot go through it at once. Expected "
        "shape [batch, ...] (move the batch axis, or leave the layer out by "
        f"`layers=`). Received: [{text}]"
    )


def specs_at(
    shapes: Sequence[tuple[Shape, Shape]], dtypes: Sequence[Any]
) -> list[list[Any]]:
    """Returns `tf.TensorSpec` lists, one per batch size."""
    return [
        [
            _keras.spec(shape[which], dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        for which in range(len(BATCHES))
    ]
