# SPDX-License-Identifier: Apache-2.0
"""What an output means: a number, a distribution over classes, a probability.

Read off the last activation where the model shows it, else off the compiled
loss, else a number.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.errors import BayesdropError

TASKS = ("auto", "regression", "classification", "binary")

_TASK_OF_ACTIVATION = {"softmax": "classification", "sigmoid": "binary"}
_TASK_OF_LOSS = {
    "categorical_crossentropy": "classification",
    "sparse_categorical_crossentropy": "classification",
    "categorical_focal_crossentropy": "classification",
    "binary_crossentropy": "binary",
    "binary_focal_crossentropy": "binary",
}


@dataclasses.dataclass(frozen=True)
class Head:
    """How one output of the model is read.

    Attributes:
        task: `"regression"`, `"classification"` or `"binary"`.
        from_logits: Whether the output still lacks its softmax or sigmoid.
    """

    task: str
    from_logits: bool = False

    def probabilities(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns what is accumulated: float32 or float64, logits resolved."""
        if outputs.dtype not in (tf.float32, tf.float64):
            outputs = tf.cast(outputs, tf.float32)
        if not self.from_logits:
            return outputs
        if self.task == "classification":
            return tf.nn.softmax(outputs)
        return tf.sigmoid(outputs)


def resolve_heads(
    model: Any,
    count: int,
    task: Any,
    from_logits: bool | None,
    pack: Callable[[list[Any]], Any],
) -> list[Head]:
    """Decides how each output of a model is read.

    Args:
        model: The Keras model.
        count: How many outputs it has.
        task: `"auto"`, a task, or a structure of these like the outputs.
        from_logits: Whether outputs lack their softmax or sigmoid. `None`
            takes it from the compiled loss.
        pack: Packs one entry per output into the structure of the outputs.

    Returns:
        One head per output.
    """
    asked = _per_output(task, count, pack)
    losses = _losses(model, count, pack)
    activations = _activations(model)
    if len(activations) != count:
        activations = [None] * count
    heads = []
    for choice, loss, activation in zip(
        asked, losses, activations, strict=True
    ):
        check_choice(choice, "task", TASKS)
        found = _TASK_OF_ACTIVATION.get(activation or "")
        loss_task = _TASK_OF_LOSS.get(_loss_name(loss))
        logits = from_logits
        if logits is None:
            logits = found is None and bool(getattr(loss, "from_logits", False))
        if choice == "auto":
            # A loss on probabilities cannot make a linear output one.
            if activation is not None and not logits:
                loss_task = None
            choice = found or loss_task or "regression"
        if logits and choice == "regression":
            raise BayesdropError(
                "`from_logits` needs a task with classes. Expected "
                "task='classification' or task='binary'. Received: "
                f"task={task!r}, from_logits={from_logits!r}"
            )
        heads.append(Head(choice, bool(logits)))
    return heads


def _per_output(
    value: Any, count: int, pack: Callable[[list[Any]], Any]
) -> list[Any]:
    """Spreads a task, or a structure like the outputs, over the outputs."""
    if isinstance(value, str):
        return [value] * count
    structure = pack(list(range(count)))
    found: dict[int, Any] = {}
    if not _pair(structure, value, found):
        raise BayesdropError(
            "`task` does not fit the outputs of the model. Expected a string, "
            f"or a structure like {structure}. Received: task={value!r}"
        )
    return [found[index] for index in range(count)]


def _pair(structure: Any, value: Any, found: dict[int, Any]) -> bool:
    """Pairs the numbers in a structure with the values in another like it."""
    if isinstance(structure, dict):
        return (
            isinstance(value, dict)
            and set(value) == set(structure)
            and all(_pair(structure[key], value[key], found) for key in value)
        )
    if isinstance(structure, (list, tuple)):
        return (
            isinstance(value, (list, tuple))
            and len(value) == len(structure)
            and all(map(lambda s, v: _pair(s, v, found), structure, value))
        )
    found[structure] = value
    return not isinstance(value, (dict, list, tuple))


def _losses(
    model: Any, count: int, pack: Callable[[list[Any]], Any]
) -> list[Any]:
    """Returns the compiled loss of each output, where it can be told."""
    loss = getattr(model, "loss", None)
    found: dict[int, Any] = {}
    if _pair(pack(list(range(count))), loss, found):
        return [found[index] for index in range(count)]
    names = getattr(model, "output_names", None) or []
    if isinstance(loss, dict) and len(names) == count:
        return [loss.get(name) for name in names]
    return [None] * count


def _loss_name(loss: Any) -> str:
    """Returns a loss by its snake-case name: `sparse_...` of `Sparse...`."""
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    if isinstance(name, str) and name in _TASK_OF_LOSS:
        return name
    name = getattr(loss, "__name__", None) or type(loss).__name__
    text = "".join(f"_{c.lower()}" if c.isupper() else c for c in str(name))
    return text.lstrip("_")


def _activations(model: Any) -> list[str | None]:
    """Returns the name of the last activation of each output, if shown."""
    graph = private_keras.graph_of(model)
    if graph is None:
        return []
    return [_last_activation(tensor) for tensor in graph.outputs]


def _last_activation(tensor: Any) -> str | None:
    operation = tensor._keras_history.operation
    inner = private_keras.graph_of(operation)
    if inner is not None:
        index = tensor._keras_history.tensor_index
        return _last_activation(inner.outputs[index])
    if type(operation).__name__ == "Softmax":
        # The layer or the operation: classes must be on the last axis.
        last = operation.axis in (-1, len(tensor.shape) - 1)
        return "softmax" if last else "other"
    activation = getattr(operation, "activation", None)
    if activation is not None:
        return getattr(activation, "__name__", None)
    if _passes_on(operation):
        return _last_activation(operation.input)
    return type(operation).__name__.lower()


def _passes_on(operation: Any) -> bool:
    """Whether an operation keeps what its input means."""
    plain = isinstance(
        operation,
        (
            keras.layers.Reshape,
            keras.layers.Flatten,
            keras.layers.Identity,
        ),
    )
    return plain and len(operation._inbound_nodes) == 1
