# SPDX-License-Identifier: Apache-2.0
"""Walks over a graph to find the shapes of its values and what its nodes draw.

Both come from one walk, at two batch sizes. Keras' own layers are asked for
their shapes. Any other code is traced: what it declares about itself may be
wrong.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import facts
from keras_bayesdrop.graph.observe import Observation
from keras_bayesdrop.graph.observe import needs_look
from keras_bayesdrop.graph.observe import observed
from keras_bayesdrop.graph.probe import BATCHES
from keras_bayesdrop.graph.probe import OPEN
from keras_bayesdrop.graph.probe import Shape
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import inner_sites
from keras_bayesdrop.graph.sites import is_augmentation
from keras_bayesdrop.graph.sites import is_stateful
from keras_bayesdrop.graph.sites import layer_tree
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.graph.traces import first_line

# The batch size of `keras.Model.predict`, where the caller names none.
KERAS_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Walk:
    """Shapes of all values, and what was seen in the nodes.

    It holds no layer, so that it can be kept with the model.
    """

    shapes: list[tuple[Shape, Shape]]
    observations: list[Observation | None]
    requestable: list[tuple[str, ...]]
    fixed_batch: str = ""


def walk_over(
    model: Any,
    graph: Graph,
    example: Any,
    asked: Collection[str],
    version: int,
) -> "Walk":
    """Walks over a graph, once for models and examples like these."""
    key = (
        "walk",
        version,
        frozenset(asked),
        tuple(tuple(graph.specs[number].shape) for number in graph.inputs),
        tuple(tuple(x.shape)[1:] for x in keras.tree.flatten(example))
        if example is not None
        else None,
    )
    return facts.get(model, key, lambda: _walk(graph, example, asked))


def augmentations(operation: Any, path: str) -> tuple[str, ...]:
    """Returns the paths of layers that draw on request."""
    return tuple(
        where
        for layer, where in layer_tree(operation, path)
        if is_augmentation(layer)
    )


def _walk(graph: Graph, example: Any, asked: Collection[str]) -> Walk:
    """Walks over a graph with sizes that the model leaves open, if it can."""
    looks = [_is_looked_at(node, asked) for node in graph.nodes]
    if all(_keeps_rows(node.operation) for node in graph.nodes):
        return _walk_assuming(graph, looks, asked)
    fixed = {graph.specs[number].shape[0] for number in graph.inputs} - {None}
    only = next(iter(fixed), None) or _example_rows(example)
    sizes = _example_sizes(graph, example)
    attempts = [(BATCHES, None), (BATCHES, sizes), ((only, only), sizes)]
    failure: _Untraceable | None = None
    for batches, dims in attempts:
        try:
            walk = _propagate(graph, looks, dims, batches, asked)
        except _Untraceable as failed:
            # A size that the model does not take.
            failure = failure or failed
            continue
        if batches == BATCHES:
            return walk
        why = "it does not take any number of rows"
        return dataclasses.replace(
            walk, shapes=_assume_batch_first(graph), fixed_batch=why
        )
    if failure is not None and any(looks):
        raise _cannot_trace(failure, only) from failure.error
    return _walk_assuming(graph, looks, asked)


class _Untraceable(Exception):
    """An operation failed when it was traced or asked for its shapes.

    Attributes:
        path: Of the operation.
        error: What it raised.
    """

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(path)
        self.path = path
        self.error = error


def _cannot_trace(failure: _Untraceable, rows: int) -> Exception:
    """Returns the error for a model whose shapes do not fit.

    An error that the code of a layer raises by itself is left as it is.
    """
    error = failure.error
    shapes = (AttributeError, TypeError, ValueError, tf.errors.OpError)
    if not isinstance(error, shapes):
        return error
    return PlanError(
        f"`{failure.path}` cannot be traced for batches of {BATCHES[0]}, "
        f"{BATCHES[1]} and {rows} rows. Expected code that `tf.function` can "
        "trace for any number of rows. Received: "
        f"{type(error).__name__}: {first_line(error)}"
    )


def _example_rows(example: Any) -> int:
    """Returns the number of rows of an example, if it has one."""
    leaves = [] if example is None else keras.tree.flatten(example)
    return next((int(x.shape[0]) for x in leaves if x.shape[0]), KERAS_BATCH)


def _walk_assuming(
    graph: Graph, looks: Sequence[bool], asked: Collection[str]
) -> Walk:
    """Walks over a graph of layers that leave the batch where it is."""
    shapes = _assume_batch_first(graph)
    observations: list[Observation | None] = []
    for node, look in zip(graph.nodes, looks, strict=True):
        seen = None
        if look and not is_stateful(node.operation):
            seen = observed(
                node.operation,
                node.fill,
                node.path,
                [_closed(shapes[value]) for value in node.inputs],
                [graph.specs[value].dtype for value in node.inputs],
                BATCHES,
                asked,
            )
            for value, pair in zip(node.outputs, seen.shapes, strict=True):
                if len(pair[0]) != len(shapes[value][0]):
                    shapes[value] = pair
        observations.append(seen)
    return Walk(shapes, observations, _requestable(graph))


def _propagate(
    graph: Graph,
    looks: Sequence[bool],
    sizes: Sequence[Sequence[int]] | None,
    batches: tuple[int, int],
    asked: Collection[str],
) -> Walk:
    """Asks or traces every node for the shapes that it makes."""
    shapes: dict[int, tuple[Shape, Shape]] = {}
    dtypes: dict[int, Any] = {}
    for position, number in enumerate(graph.inputs):
        spec = graph.specs[number]
        dims = [OPEN if dim is None else dim for dim in spec.shape[1:]]
        if sizes is not None:
            dims = list(sizes[position])
        shapes[number] = ((batches[0], *dims), (batches[1], *dims))
        dtypes[number] = spec.dtype
    observations: list[Observation | None] = []
    for node, look in zip(graph.nodes, looks, strict=True):
        taken = [shapes[value] for value in node.inputs]
        kinds = [dtypes[value] for value in node.inputs]
        try:
            seen, output_shapes, output_dtypes = _outputs(
                node, look, taken, kinds, batches, asked
            )
        except PlanError:
            raise
        except Exception as error:
            raise _Untraceable(node.path, error) from error
        observations.append(seen)
        shapes.update(zip(node.outputs, output_shapes, strict=True))
        dtypes.update(zip(node.outputs, output_dtypes, strict=True))
    return Walk(
        [shapes[number] for number in range(len(graph.specs))],
        observations,
        _requestable(graph),
    )


def _requestable(graph: Graph) -> list[tuple[str, ...]]:
    return [augmentations(node.operation, node.path) for node in graph.nodes]


def _outputs(
    node: Node,
    look: bool,
    taken: Sequence[tuple[Shape, Shape]],
    dtypes: Sequence[Any],
    batches: tuple[int, int],
    asked: Collection[str],
) -> tuple[Observation | None, list[tuple[Shape, Shape]], list[Any]]:
    """Returns what was seen in a node, and shapes and dtypes it makes."""
    if not look or is_stateful(node.operation):
        return None, *_declared_outputs(node, taken, dtypes)
    seen = observed(
        node.operation, node.fill, node.path, taken, dtypes, batches, asked
    )
    specs = keras.tree.flatten(seen.structure)
    return seen, list(seen.shapes), [spec.dtype.name for spec in specs]


def _declared_outputs(
    node: Node, taken: Sequence[tuple[Shape, Shape]], dtypes: Sequence[Any]
) -> tuple[list[tuple[Shape, Shape]], list[Any]]:
    """Asks an operation for the shapes that it makes, at both batch sizes."""
    specs = []
    for which in range(2):
        values = [
            keras.KerasTensor(shape[which], dtype)
            for shape, dtype in zip(taken, dtypes, strict=True)
        ]
        args, kwargs = node.fill(values)
        outputs = node.operation.compute_output_spec(*args, **kwargs)
        specs.append(keras.tree.flatten(outputs))
    shapes = [
        (tuple(one.shape), tuple(other.shape))
        for one, other in zip(*specs, strict=True)
    ]
    return shapes, [spec.dtype for spec in specs[0]]


def walk_of_one(
    model: Any, example: Any, asked: Collection[str], version: int
) -> tuple[Graph, Walk]:
    """Returns the graph of a model whose `call` is its own code."""
    leaves = keras.tree.flatten(example)
    specs = [private_keras.spec([None, *x.shape[1:]], x.dtype) for x in leaves]
    fill = _packer(example)
    inputs = tuple(range(len(specs)))
    structure: Any = []
    observation = None
    fixed = ""
    pairs = _pairs(specs, BATCHES)
    if not is_stateful(model):
        dtypes = [spec.dtype.name for spec in specs]
        try:
            observation = observed(
                model, fill, "", pairs, dtypes, BATCHES, asked, version
            )
        except PlanError:
            raise
        except Exception as error:
            fixed = "it does not take any number of rows"
            rows = _example_rows(example)
            only = (rows, rows)
            try:
                pairs = _pairs(specs, only)
                observation = observed(
                    model, fill, "", pairs, dtypes, only, asked, version
                )
            except Exception:
                failure = _Untraceable(model.name, error)
                raise _cannot_trace(failure, rows) from error
        structure = observation.structure
    outputs = keras.tree.flatten(structure)
    numbers = tuple(range(len(specs), len(specs) + len(outputs)))
    graph = Graph(
        (Node("", model, inputs, numbers, fill),),
        inputs,
        numbers,
        (*specs, *outputs),
        lambda x: list(keras.tree.flatten(x)),
        lambda flat: keras.tree.pack_sequence_as(structure, list(flat)),
    )
    shapes = [*pairs, *(observation.shapes if observation else ())]
    if fixed:
        shapes = _assume_batch_first(graph)
    return graph, Walk(shapes, [observation], _requestable(graph), fixed)


def _pairs(
    specs: Sequence[Any], batches: tuple[int, int]
) -> list[tuple[Shape, Shape]]:
    dims = [[dim or OPEN for dim in spec.shape[1:]] for spec in specs]
    return [((batches[0], *each), (batches[1], *each)) for each in dims]


def _packer(example: Any) -> Callable[..., Any]:
    structure = keras.tree.map_structure(lambda leaf: None, example)

    def fill(values: Sequence[Any]) -> Any:
        packed = keras.tree.pack_sequence_as(structure, list(values))
        return (packed,), {}

    return fill


def _example_sizes(graph: Graph, example: Any) -> list[list[int]] | None:
    """Returns the sizes that an example has where a model leaves them open."""
    leaves = [] if example is None else keras.tree.flatten(example)
    wanted = [tuple(graph.specs[number].shape) for number in graph.inputs]
    if len(leaves) != len(wanted):
        return None
    sizes = []
    for leaf, shape in zip(leaves, wanted, strict=True):
        leaf_shape = tuple(leaf.shape)
        if len(leaf_shape) != len(shape):
            return None
        sizes.append(
            [
                (size or OPEN) if dim is None else dim
                for dim, size in zip(shape[1:], leaf_shape[1:], strict=True)
            ]
        )
    return sizes


def _is_looked_at(node: Node, asked: Collection[str]) -> bool:
    """Returns whether a node has to be traced to see what it draws."""
    operation = node.operation
    if noise_of(operation) is not None:
        return False
    if needs_look(operation) or inner_sites(operation, node.path):
        return True
    return any(where in asked for _, where in layer_tree(operation, node.path))


def _keeps_rows(operation: Any) -> bool:
    """Returns whether an operation is a layer of known code and shapes."""
    return isinstance(operation, keras.Layer) and not needs_look(operation)


def _closed(shapes: tuple[Shape, Shape]) -> tuple[Shape, Shape]:
    """Gives the axes that a model leaves open some size."""
    one, other = (tuple(dim or OPEN for dim in shape) for shape in shapes)
    return one, other


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
