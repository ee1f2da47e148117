# SPDX-License-Identifier: Apache-2.0
"""All uses of Keras' private API.

`tests/upstream` checks each assumption of this module, so that a new Keras
release that breaks one fails there first, by name.
"""

import collections
import contextlib
import functools
import inspect
import itertools
import threading
import types
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend as _backend
from keras.src.backend import KerasTensor
from keras.src.models.functional import Functional
from keras.src.trainers.data_adapters import get_data_adapter

from keras_bayesdrop.errors import BackendError

__all__ = ["Functional", "KerasTensor"]


def require_tensorflow() -> None:
    """Raises unless Keras runs on TensorFlow."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise BackendError(
            "keras_bayesdrop predicts with TensorFlow. Expected the Keras "
            "backend to be 'tensorflow' (set KERAS_BACKEND=tensorflow before "
            f"`import keras`). Received: backend='{backend}'"
        )


def graph_of(operation: Any) -> Functional | None:
    """Returns the graph that a call of `operation` runs, if there is one.

    A Functional model is its own graph, and a built Sequential holds one. For
    anything with its own `call` the result is `None`.
    """
    if isinstance(operation, keras.Sequential):
        if type(operation).call is not keras.Sequential.call:
            return None
        return getattr(operation, "_functional", None)
    if isinstance(operation, Functional):
        return operation if type(operation).call is Functional.call else None
    return None


def nodes_in_order(graph: Functional) -> list[Any]:
    """Returns the nodes of a graph in the order Keras runs them."""
    by_depth = graph._nodes_by_depth
    return [
        node
        for depth in sorted(by_depth, reverse=True)
        for node in by_depth[depth]
        if node.operation and not node.is_input
    ]


def inputs_structure(graph: Functional) -> Any:
    """Returns the structure of symbolic inputs that a graph was built from."""
    return graph._inputs_struct


def outputs_structure(graph: Functional) -> Any:
    """Returns the structure of symbolic outputs, a lone output unwrapped."""
    structure = graph._outputs_struct
    if isinstance(structure, (list, tuple)) and len(structure) == 1:
        return structure[0]
    return structure


def standardize_inputs(graph: Functional, inputs: Any) -> list[Any]:
    """Brings inputs into the order, dtype and rank that a graph expects.

    Entries of a dict that are not inputs of the model are left out: Keras
    would pair entries and inputs by order, and take the wrong ones.
    """
    structure = inputs_structure(graph)
    if isinstance(inputs, tf.Tensor) and not isinstance(structure, dict):
        # One tensor as the graph wants it: Keras would return it as it is.
        wanted = graph.inputs
        if (
            len(wanted) == 1
            and wanted[0].dtype == inputs.dtype.name
            and len(wanted[0].shape) == inputs.shape.rank
            and not wanted[0].sparse
        ):
            return [inputs]
    if isinstance(structure, dict) and isinstance(inputs, dict):
        if set(inputs) > set(structure):
            inputs = {key: inputs[key] for key in structure}
    return list(graph._standardize_inputs(inputs))


def sublayers(layer: Any) -> list[Any]:
    """Returns the layers that `layer` owns directly."""
    return list(getattr(layer, "_layers", ()))


def all_layers(model: Any) -> list[Any]:
    """Returns a model and every layer below it, each once."""
    layers: dict[int, Any] = {}
    stack = [model]
    while stack:
        layer = stack.pop()
        if id(layer) not in layers:
            layers[id(layer)] = layer
            stack.extend(sublayers(layer))
    return list(layers.values())


def all_built(model: Any) -> bool:
    """Returns whether a model and every layer below it have been built.

    Where Keras defers building, it happens in the first batch of `fit`, after
    `on_train_begin` of callbacks.
    """
    return all(getattr(layer, "built", True) for layer in all_layers(model))


def strategy_of(model: Any) -> Any:
    """Returns the `tf.distribute` strategy of a model's call.

    That is the strategy of the current scope, else of the scope in which the
    model was created, else the default strategy.
    """
    if tf.distribute.has_strategy():
        return tf.distribute.get_strategy()
    return model.distribute_strategy


def own_variables(layer: Any) -> list[Any]:
    """Returns the variables that a layer holds itself."""
    return [
        *getattr(layer, "_trainable_variables", ()),
        *getattr(layer, "_non_trainable_variables", ()),
    ]


# Public attributes that Keras sets by itself, and that no prediction reads.
_STATE_OF_A_LAYER = frozenset(
    {
        "activity_regularizer",
        "build",
        "built",
        "call_signature_parameters",
        "quantize",
        "supports_jit",
    }
)
_STATE_OF_A_TRAINER = _STATE_OF_A_LAYER | {
    "compiled",
    "history",
    "jit_compile",
    "loss",
    "optimizer",
    "predict_function",
    "run_eagerly",
    "steps_per_execution",
    "stop_evaluating",
    "stop_predicting",
    "stop_training",
    "test_function",
    "train_function",
    "unrolled_steps_per_execution",
}


def own_state(layer: Any) -> frozenset[str]:
    """Returns the public attributes of a layer that Keras sets by itself."""
    if isinstance(layer, keras.Model):
        return _STATE_OF_A_TRAINER
    return _STATE_OF_A_LAYER


def call_settings(layer: Any) -> tuple[Any, Any]:
    """Returns the private settings that a call of a layer depends on."""
    attributes = vars(layer)
    policy = attributes.get("_dtype_policy")
    return attributes.get("_trainable"), getattr(policy, "name", None)


def compiled_by(model: Any) -> Any:
    """Returns an object that every call of `compile` creates again."""
    return vars(model).get("_loss_tracker")


# Private attributes that the three functions above read, and the lists among
# them, whose entries count.
_LISTS = ("_trainable_variables", "_non_trainable_variables", "_layers")
_CALL_ATTRIBUTES = ("_trainable", "_dtype_policy", "_loss_tracker", *_LISTS)


def call_attributes(layer: Any) -> list[str]:
    """Returns the private attributes that a call of a layer depends on."""
    return [name for name in _CALL_ATTRIBUTES if name in vars(layer)]


def held_lists(layer: Any) -> list[Any]:
    """Returns the lists of variables and layers that a layer holds."""
    return [vars(layer)[name] for name in _LISTS if name in vars(layer)]


def function_of_loss(loss: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the function that a loss of Keras calls, and its arguments."""
    return getattr(loss, "fn", None), getattr(loss, "_fn_kwargs", {})


# Losses to be put back, per layer, as they were before the first of the calls
# under way; and the number of these calls.
_losses_before: dict[int, tuple[list[Any], set[int]]] = {}
_calls_under_way: collections.Counter[int] = collections.Counter()
_losses_lock = threading.RLock()


@contextlib.contextmanager
def losses_kept(layer: Any) -> Iterator[None]:
    """Restores a layer's list of losses after calls inside the context.

    A call begins by clearing the losses of the previous call, which the user
    may not have read yet. If calls in several threads overlap, the last one
    to end restores the list; meanwhile it holds losses of the other calls.
    """
    layers = [
        each for each in all_layers(layer) if isinstance(each, keras.Layer)
    ]
    with _losses_lock:
        for each in layers:
            if not _calls_under_way[id(each)]:
                before = (list(each._losses), set(each._loss_ids))
                _losses_before[id(each)] = before
            _calls_under_way[id(each)] += 1
    try:
        yield
    finally:
        with _losses_lock:
            for each in layers:
                _calls_under_way[id(each)] -= 1
                if not _calls_under_way[id(each)]:
                    del _calls_under_way[id(each)]
                    losses, ids = _losses_before.pop(id(each))
                    each._losses[:] = losses
                    each._loss_ids.clear()
                    each._loss_ids.update(ids)


def accepts(operation: Any, argument: str) -> bool:
    """Returns whether the `call` of a layer has an argument of that name."""
    if not isinstance(operation, keras.Layer):
        return False
    if "call" in vars(operation):
        return argument in _parameters(operation.call)
    return argument in _parameters_of_call(type(operation).call)


def position_of(layer: Any, argument: str) -> int | None:
    """Returns the position of an argument of a layer's `call`, if it has it.

    The layer itself does not count.
    """
    names = list(inspect.signature(type(layer).call).parameters)[1:]
    return names.index(argument) if argument in names else None


@functools.lru_cache(maxsize=1024)
def _parameters_of_call(call: Callable[..., Any]) -> frozenset[str]:
    return _parameters(call)


def _parameters(function: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def random_backend() -> Any:
    """Returns the module whose functions `keras.random` calls."""
    return _backend.random


def loop_backend() -> Any:
    """Returns the module whose `rnn` recurrent layers call."""
    return _backend


@contextlib.contextmanager
def training_mode(layer: Any, training: bool) -> Iterator[None]:
    """Sets the `training` that layers called inside inherit, and restores it.

    Args:
        layer: The layer whose `call` is under way.
        training: The value for layers that are called without the argument.

    Yields:
        Nothing.
    """
    context = layer._get_call_context()
    before = getattr(context, "training", None)
    context.training = training
    try:
        yield
    finally:
        context.training = before


def set_training(layer: Any, training: bool) -> None:
    """Sets the `training` that layers called after `layer` inherit."""
    layer._get_call_context().training = training


def seed_variables(layer: Any) -> list[Any]:
    """Returns the states of the seed generators that a layer holds."""
    return [
        generator.state for generator in getattr(layer, "_seed_generators", ())
    ]


def get_mask(x: Any) -> Any:
    """Returns the Keras mask of a tensor, or `None`."""
    return getattr(x, "_keras_mask", None)


def set_mask(x: Any, mask: Any) -> None:
    """Attaches a Keras mask to a tensor."""
    x._keras_mask = mask


def batches(
    x: Any, batch_size: int | None, steps: int | None
) -> Iterator[tuple[Any, Any, Any]]:
    """Iterates over what `keras.Model.predict` would accept as `x`.

    Args:
        x: Arrays, a structure of arrays, a `tf.data.Dataset`, a `PyDataset`,
            a generator, or a torch `DataLoader`.
        batch_size: Rows per batch, where `x` has none of its own.
        steps: Batches after which to stop, or `None` for all.

    Yields:
        Inputs, targets and sample weights: structures of arrays or tensors;
        `None` for targets and weights that `x` does not have.
    """
    if isinstance(x, types.GeneratorType):
        first = list(itertools.islice(x, 1))
        if not first:
            return  # Keras' adapter reads the first batch by itself.
        # It accepts tuples only, and prints the batch otherwise.
        rest = itertools.chain(first, x)
        x = (item if isinstance(item, tuple) else (item,) for item in rest)
    adapter = get_data_adapter(x, batch_size=batch_size, steps_per_epoch=steps)
    adapter.on_epoch_begin()
    try:
        data = (
            adapter.get_numpy_iterator()
            if is_random_access(x)
            else adapter.get_tf_dataset()
        )
        for index, batch in enumerate(data):
            if steps is not None and index >= steps:
                return
            yield keras.utils.unpack_x_y_sample_weight(batch)
    finally:
        adapter.on_epoch_end()


def is_random_access(x: Any) -> bool:
    """Returns whether `x` is arrays, as opposed to a stream of batches."""
    leaves = keras.tree.flatten(x)
    return bool(leaves) and all(
        hasattr(leaf, "shape") and hasattr(leaf, "__getitem__")
        for leaf in leaves
    )


def spec(shape: Any, dtype: Any) -> tf.TensorSpec:
    """Returns a `tf.TensorSpec` of a shape and any name of a dtype."""
    return tf.TensorSpec(shape, keras.backend.standardize_dtype(dtype))


def is_ours(cls: type) -> bool:
    """Returns whether a class was written by Keras or by this package."""
    return cls.__module__.split(".")[0] in ("keras", "keras_bayesdrop")
