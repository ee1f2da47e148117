# SPDX-License-Identifier: Apache-2.0
"""Finds the activation that an output of a model ends with.

The search walks back from the output. It passes layers that keep the meaning
of values (dropout, reshaping, pooling by means) and enters nested models and
wrappers. Code that is not Keras' or this package's cannot be read: where a
result relies on it, the result says so.
"""

import dataclasses
import functools
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.read import read_graph
from keras_bayesdrop.noise import NoiseSource
from keras_bayesdrop.noise import NoiseThenLayer
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.prediction import kept_axis

SOFTMAX = "softmax"
SIGMOID = "sigmoid"
# An activation whose values are no probabilities.
NUMBER = "number"
UNKNOWN = "unknown"

# Names of functions; TensorFlow's softmax is called `softmax_v2`.
_KINDS = {"softmax": SOFTMAX, "softmax_v2": SOFTMAX, "sigmoid": SIGMOID}
# Activations of Keras that can end in probabilities of any kind.
_MAYBE = {"exponential", "hard_sigmoid", "sparse_sigmoid", "sparsemax"}
_NOISE_LAYERS = (
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.AlphaDropout,
    keras.layers.GaussianNoise,
)
_NUMBER_LAYERS = (
    keras.layers.ReLU,
    keras.layers.LeakyReLU,
    keras.layers.PReLU,
    keras.layers.ELU,
)
# Their outputs are products or mixtures of activations with other values.
_GATED = (
    keras.layers.LSTM,
    keras.layers.GRU,
    keras.layers.ConvLSTM1D,
    keras.layers.ConvLSTM2D,
    keras.layers.ConvLSTM3D,
)


@dataclasses.dataclass(frozen=True)
class LastActivation:
    """The activation that an output ends with.

    Attributes:
        kind: `"softmax"` over the last axis of the output, `"sigmoid"`,
            `"number"` or `"unknown"`.
        text: Says where the activation is, for messages.
        certain: `False` if code that cannot be read had a part in it.
        noise_behind: Path of noise that comes after it, if there is some.
    """

    kind: str
    text: str
    certain: bool = True
    noise_behind: str = ""

    @property
    def task(self) -> str | None:
        """The task that the activation stands for, if it does."""
        return {SOFTMAX: "classification", SIGMOID: "binary"}.get(self.kind)


def last_activations(model: Any, count: int) -> list[LastActivation]:
    """Returns the last activation of each output of a model.

    Args:
        model: A built Keras model.
        count: Number of its outputs.
    """
    graph = read_graph(model)
    if graph is None:
        text = f"`{type(model).__name__}` has its own `call`"
        return [LastActivation(UNKNOWN, text)] * count
    return [_of_value(graph, value, -1) for value in graph.outputs]


def _of_value(
    graph: Graph, value: int, axis: int | None, prefix: str = ""
) -> LastActivation:
    """Returns the last activation of a value of a graph.

    Args:
        graph: The graph.
        value: Number of the value.
        axis: The axis of the value, negative, that is the last axis of the
            output; `None` if none is.
        prefix: Comes before the paths of the graph's nodes.
    """
    node = next((n for n in graph.nodes if value in n.outputs), None)
    if node is None:
        return LastActivation(UNKNOWN, "an input of the model")
    operation = node.operation
    if _is_noise(operation):
        inside = _of_value(graph, node.inputs[0], axis, prefix)
        return dataclasses.replace(inside, noise_behind=prefix + node.path)
    passed = kept_axis.before(
        operation,
        [graph.specs[number].shape for number in node.inputs],
        graph.specs[value].shape,
        axis,
    )
    if passed is not None:
        return _common(
            [
                _of_value(graph, number, passed.axis, prefix)
                for number in node.inputs
            ],
            node,
        )
    return _of_layer(
        operation,
        axis,
        len(graph.specs[value].shape),
        prefix + node.path,
        node.outputs.index(value),
    )


def _is_noise(operation: Any) -> bool:
    """Returns whether an operation does nothing but perturb its input."""
    if isinstance(operation, NoiseSource):
        return not isinstance(operation, WeightNoiseSource)
    return isinstance(operation, _NOISE_LAYERS)


def _common(inputs: list[LastActivation], node: Node) -> LastActivation:
    """Returns the last activation of values that are put together."""
    first = inputs[0]
    if any(each.kind != first.kind for each in inputs):
        return LastActivation(UNKNOWN, f"`{node.path}` joins different outputs")
    return dataclasses.replace(
        first,
        certain=all(each.certain for each in inputs),
        noise_behind=max(each.noise_behind for each in inputs),
    )


def _of_layer(
    layer: Any, axis: int | None, rank: int, path: str, index: int = 0
) -> LastActivation:
    """Returns the last activation inside a layer or operation.

    Args:
        layer: The layer or operation.
        axis: As in `_of_value`.
        rank: Rank of its output.
        path: Names from the model down to the layer.
        index: Number of the output, of several.
    """
    inner = read_graph(layer)
    if inner is not None:
        number = index if index < len(inner.outputs) else 0
        return _of_value(inner, inner.outputs[number], axis, f"{path}/")
    if isinstance(layer, keras.layers.Bidirectional):
        return _of_both_directions(layer, axis, rank, path)
    if type(layer).__name__ == "Softmax":
        # The layer and the operation have the same name.
        return _softmax(layer.axis, axis, rank, path)
    if type(layer).__name__ == "Sigmoid":
        return LastActivation(SIGMOID, f"sigmoid of `{path}`")
    if isinstance(layer, _NUMBER_LAYERS):
        return LastActivation(NUMBER, f"{type(layer).__name__} of `{path}`")
    certain = private_keras.is_ours(type(layer))
    wrapped = _wrapped(layer)
    if getattr(layer, "activation", None) is not None:
        inside = _of_function(layer.activation, axis, rank, path)
        if isinstance(layer, _GATED) and inside.kind == SOFTMAX:
            return LastActivation(UNKNOWN, f"gates of `{path}`")
    elif wrapped is not None:
        inside = _of_layer(wrapped, axis, rank, f"{path}/{wrapped.name}")
    else:
        text = f"`{path}` ({type(layer).__name__})"
        return LastActivation(UNKNOWN, text)
    return dataclasses.replace(inside, certain=certain and inside.certain)


def _wrapped(layer: Any) -> Any:
    """Returns the layer whose output a wrapper returns, or `None`."""
    if isinstance(layer, NoiseThenLayer):
        return layer.noise_then_layer()[1]
    inner = getattr(layer, "layer", None)
    return inner if isinstance(inner, keras.Layer) else None


def _of_both_directions(
    layer: Any, axis: int | None, rank: int, path: str
) -> LastActivation:
    """Returns the last activation of two directions, merged."""
    if layer.merge_mode == "concat":
        axis = None  # The last axis holds two distributions.
    elif layer.merge_mode not in ("ave", None):
        text = f"the {layer.merge_mode!r} of two directions of `{path}`"
        return LastActivation(UNKNOWN, text)
    inner = layer.forward_layer
    return _of_layer(inner, axis, rank, f"{path}/{inner.name}")


def _of_function(
    function: Any, axis: int | None, rank: int, path: str
) -> LastActivation:
    """Returns what a function says that a layer has as its activation."""
    own_axis = -1
    if isinstance(function, functools.partial):
        own_axis = function.keywords.get("axis", -1)
        function = function.func
    if isinstance(function, keras.Layer):
        return _of_layer(function, axis, rank, path)
    name = getattr(function, "__name__", "")
    kind = _KINDS.get(name)
    if kind == SOFTMAX:
        return _softmax(own_axis, axis, rank, path)
    if kind is None:
        known = getattr(keras.activations, name or "?", None) is function
        kind = NUMBER if known and name not in _MAYBE else UNKNOWN
    return LastActivation(kind, f"{name or 'the activation'} of `{path}`")


def _softmax(
    own_axis: Any, axis: int | None, rank: int, path: str
) -> LastActivation:
    """Returns a softmax over an axis, seen from the output."""
    text = f"softmax of `{path}`"
    if axis is None:
        return LastActivation(UNKNOWN, f"{text}, with its last axis reshaped")
    if own_axis in (axis, axis + rank):
        return LastActivation(SOFTMAX, text)
    return LastActivation(NUMBER, f"{text} over another axis than the last")
