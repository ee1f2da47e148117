# SPDX-License-Identifier: Apache-2.0
"""Detects the heads of a model.

The last activation decides where the model shows it, else the compiled loss;
else an output is a number.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import Head

AUTO = "auto"
_EXPECTED = (
    "'auto', 'regression', 'heteroscedastic', 'classification', 'binary', or "
    "an object such as "
    "Regression(noise_precision=4.0)"
)

_TASK_OF_ACTIVATION = {"softmax": "classification", "sigmoid": "binary"}
_TASK_OF_LOSS = {
    "categorical_crossentropy": "classification",
    "sparse_categorical_crossentropy": "classification",
    "categorical_focal_crossentropy": "classification",
    "binary_crossentropy": "binary",
    "binary_focal_crossentropy": "binary",
}


def check_heads(head: Any) -> None:
    """Raises if an argument `head` cannot be one, whatever the model."""
    if isinstance(head, str) and head == AUTO:
        return
    for leaf in _leaves(head):
        if leaf != AUTO:
            heads.get(_known(leaf))


def resolve_heads(
    model: Any, count: int, head: Any, pack: Callable[[list[Any]], Any]
) -> list[Head]:
    """Decides how each output of a model is read.

    Args:
        model: The Keras model.
        count: How many outputs it has.
        head: `"auto"`, a head, the name of one, or a structure of these like
            the outputs.
        pack: Packs one entry per output into the structure of the outputs.

    Returns:
        One head per output, with `from_logits` known.
    """
    losses = _losses(model, count, pack)
    activations = _activations(model)
    if len(activations) != count:
        activations = [None] * count
    return [
        _resolve(choice, loss, activation)
        for choice, loss, activation in zip(
            _per_output(head, count, pack), losses, activations, strict=True
        )
    ]


def _resolve(choice: Any, loss: Any, activation: str | None) -> Head:
    """Returns the head of an output.

    Args:
        choice: What the caller asked for.
        loss: The compiled loss of the output, or `None`.
        activation: Name of its last activation, `None` if that is not known.
    """
    shown = _TASK_OF_ACTIVATION.get(activation or "")
    logits = shown is None and bool(getattr(loss, "from_logits", False))
    if choice == AUTO:
        task = shown or _TASK_OF_LOSS.get(_loss_name(loss))
        # A loss on probabilities cannot make a linear output one.
        if shown is None and activation is not None and not logits:
            task = None
        if task is None and logits:
            raise BayesdropError(
                "The compiled loss takes logits, and does not say of which "
                "kind. Expected head=Classification(from_logits=True) or "
                f"head=Binary(from_logits=True). Received: head={choice!r}, "
                f"loss={_loss_name(loss)!r}"
            )
        choice = heads.get(task or "regression")
    head: Head = heads.get(_known(choice))
    if getattr(head, "from_logits", False) is None:
        return dataclasses.replace(head, from_logits=logits)  # type: ignore[call-arg]
    return head


def _known(choice: Any) -> Any:
    """Returns a choice, or raises with all choices there are."""
    if choice is None or not isinstance(choice, (str, Head, dict)):
        raise invalid("head", choice, _EXPECTED)
    if isinstance(choice, str) and choice not in heads.HEADS:
        raise invalid("head", choice, _EXPECTED)
    return choice


def _leaves(head: Any) -> list[Any]:
    """Returns the heads of a structure; a serialised head is one."""
    if isinstance(head, dict) and set(head) != {"class_name", "config"}:
        return [leaf for value in head.values() for leaf in _leaves(value)]
    if isinstance(head, (list, tuple)):
        return [leaf for value in head for leaf in _leaves(value)]
    return [head]


def _per_output(
    value: Any, count: int, pack: Callable[[list[Any]], Any]
) -> list[Any]:
    """Spreads a head, or a structure like the outputs, over the outputs."""
    if len(_leaves(value)) == 1 and _leaves(value)[0] is value:
        return [value] * count
    structure = pack(list(range(count)))
    pairs: dict[int, Any] = {}
    if not _pair(structure, value, pairs):
        raise BayesdropError(
            "`head` does not fit the outputs of the model. Expected one head, "
            f"or a structure like {structure}. Received: head={value!r}"
        )
    return [pairs[index] for index in range(count)]


def _pair(structure: Any, value: Any, pairs: dict[int, Any]) -> bool:
    """Pairs the numbers in a structure with the values in another like it."""
    if isinstance(structure, dict):
        return (
            isinstance(value, dict)
            and set(value) == set(structure)
            and all(_pair(structure[key], value[key], pairs) for key in value)
        )
    if isinstance(structure, (list, tuple)):
        return (
            isinstance(value, (list, tuple))
            and len(value) == len(structure)
            and all(map(lambda s, v: _pair(s, v, pairs), structure, value))
        )
    pairs[structure] = value
    return _leaves(value) == [value]


def _losses(
    model: Any, count: int, pack: Callable[[list[Any]], Any]
) -> list[Any]:
    """Returns the compiled loss of each output, where it can be told."""
    loss = getattr(model, "loss", None)
    pairs: dict[int, Any] = {}
    if _pair(pack(list(range(count))), loss, pairs):
        return [pairs[index] for index in range(count)]
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
    """Returns whether an operation keeps what its input means."""
    plain = isinstance(
        operation,
        (
            keras.layers.Reshape,
            keras.layers.Flatten,
            keras.layers.Identity,
        ),
    )
    return plain and len(operation._inbound_nodes) == 1
