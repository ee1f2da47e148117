# SPDX-License-Identifier: Apache-2.0
"""Names the inputs and outputs of a SavedModel."""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.reading import Readings

# Further inputs of the signature that takes a seed.
RESERVED = ("seed", "first_row")


@dataclasses.dataclass(frozen=True)
class SignatureInputs:
    """The inputs of a signature.

    Attributes:
        specs: Specs by name.
        pack: Packs tensors, in this order, into the inputs of the model.
    """

    specs: dict[str, tf.TensorSpec]
    pack: Callable[[Sequence[Any]], Any]

    def example(self) -> Any:
        """Returns specs in the structure of the model's inputs."""
        return self.pack(list(self.specs.values()))


def inputs_of(model: Any, input_signature: Any) -> SignatureInputs:
    """Names the inputs of a model.

    Args:
        model: The model.
        input_signature: Structure of arrays or specs like its inputs, or
            `None` to read them from its graph.

    Returns:
        The inputs, with any batch size.
    """
    structure = input_signature
    if structure is None:
        graph = private_keras.graph_of(model)
        if graph is None:
            raise BayesdropError(
                f"Model `{model.name}` has its own `call`, so its inputs are "
                "not known. Expected a Functional or Sequential "
                "model, or `input_signature`: a structure of `tf.TensorSpec` "
                f"or arrays like its inputs. Received: {type(model).__name__} "
                "with input_signature=None"
            )
        structure = private_keras.inputs_structure(graph)
    leaves = keras.tree.flatten(structure)
    for leaf in leaves:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise BayesdropError(
                "Invalid value for argument `input_signature`. Expected a "
                "structure of `tf.TensorSpec` or arrays [rows, ...]. "
                f"Received: {leaf!r}"
            )
    if isinstance(structure, dict) and len(structure) == len(leaves):
        names = sorted(structure)  # The order in which Keras flattens.
    else:
        names = [
            _name_of(leaf) or _numbered("inputs", number, len(leaves))
            for number, leaf in enumerate(leaves)
        ]
    names = [re.sub(r"\W", "_", str(name)) for name in names]
    _check_names(names)
    specs = [
        private_keras.spec([None, *leaf.shape[1:]], leaf.dtype)
        for leaf in leaves
    ]
    return SignatureInputs(
        {
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in zip(names, specs, strict=True)
        },
        lambda flat: keras.tree.pack_sequence_as(structure, list(flat)),
    )


def prefixes_of(model: Any, readings: Readings) -> list[str]:
    """Returns the prefix of the names of each result.

    It is empty for a single result, else the name of its output and an
    underscore.
    """
    count = len(readings.each)
    if count == 1:
        return [""]
    packed = readings.pack(list(range(count)))
    names = getattr(model, "output_names", None)
    if names:
        firsts = [reading.sources[0] for reading in readings.each]
        names = [names[n] for n in firsts if n < len(names)]
    if isinstance(packed, dict) and sorted(packed.values()) == [*range(count)]:
        by_number = {number: name for name, number in packed.items()}
        names = [by_number[number] for number in range(count)]
    if not names or len(names) != count or len(set(names)) != count:
        names = [_numbered("output", number, count) for number in range(count)]
    return [re.sub(r"\W", "_", str(name)) + "_" for name in names]


def _name_of(leaf: Any) -> str | None:
    """Returns the name of the `Input` layer, or of a spec."""
    if isinstance(leaf, private_keras.KerasTensor):
        return str(leaf._keras_history.operation.name)
    name = getattr(leaf, "name", None)
    return name if isinstance(name, str) else None


def _numbered(name: str, number: int, count: int) -> str:
    return name if count == 1 else f"{name}_{number}"


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise BayesdropError(
            "Two inputs of the model have the same name. Expected a name for "
            "each, by `keras.Input(..., name=...)` or in `input_signature`. "
            f"Received: {list(names)}"
        )
    taken = [name for name in names if name in RESERVED]
    if taken:
        raise BayesdropError(
            "An input of the model has a reserved name. Expected names other "
            f"than {RESERVED}. Received: {taken}"
        )
