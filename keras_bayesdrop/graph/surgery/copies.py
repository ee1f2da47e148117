# SPDX-License-Identifier: Apache-2.0
"""Copies layers: first the config, then the weights.

A copy can take weights only once it is built, so it comes with a function that
loads them.
"""

import dataclasses
import inspect
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.export import PACKAGE
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.surgery.kernels import KernelMasks
from keras_bayesdrop.graph.surgery.kernels import as_array
from keras_bayesdrop.regularizers import DropoutL2

# Objects that the config of a layer may hold, except layers.
_OBJECTS = (
    keras.constraints.Constraint,
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
)

# Masks of kernels, by the `id` of the layer.


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A new layer or operation that replaces an old one.

    Attributes:
        layer: The new layer, not built yet.
        load: Loads its weights, once it is built.
        alone: Whether the call takes only the input and the mask, without the
            other arguments of the old layer's call, such as `training=True`.
    """

    layer: Any
    load: Callable[[], None] = lambda: None
    alone: bool = False


def copy_layer(operation: Any, name: str, masks: KernelMasks) -> Replacement:
    """Returns a copy of a layer or operation.

    Args:
        operation: Keras layer or operation.
        name: Name of the copy.
        masks: Weights to keep; the others become zero in the copy. Layers
            inside `operation` may have masks as well.

    Returns:
        The copy, and the function that loads its weights.
    """
    new = new_layer(operation, {"name": name})
    return Replacement(new, lambda: _load(operation, new, masks))


def new_layer(operation: Any, changes: Mapping[str, Any]) -> Any:
    """Returns a layer or operation of the same class.

    Args:
        operation: Keras layer or operation.
        changes: Changes to its config.

    Returns:
        The new layer, without weights. It loads without this package.
    """
    try:
        if type(operation) is keras.layers.Lambda:
            return _new_lambda(operation, changes)
        if not isinstance(operation, keras.Layer):
            return _new_operation(operation, changes)
        config = {**_config(operation), **changes}
        if "dtype" in config:
            # Some layers store only the dtype of their variables.
            policy = operation.dtype_policy
            config["dtype"] = keras.dtype_policies.serialize(policy)
        return type(operation).from_config(_without_ours(config, operation))
    except BayesdropError:
        raise
    except Exception as error:
        raise BayesdropError(
            f"Layer `{operation.name}` cannot be copied. Expected a layer that "
            "`from_config` restores from `get_config`, with custom objects "
            "registered by `keras.saving.register_keras_serializable`. "
            "Received: "
            f"{type(operation).__name__}, which raised {type(error).__name__}: "
            f"{error}"
        ) from error


def _config(layer: Any) -> dict[str, Any]:
    """Returns a config that holds users' functions themselves.

    Keras stores their names, and restores only registered ones.
    """
    with warnings.catch_warnings():
        # Keras warns that files with a lambda are unsafe. There is no file.
        warnings.filterwarnings("ignore", "The object being serialized incl")
        config: dict[str, Any] = layer.get_config()
    for key, value in config.items():
        own = getattr(layer, key, None)
        if isinstance(value, dict) and is_user_defined(own):
            config[key] = own
    return config


def is_user_defined(value: Any) -> bool:
    """Returns True for functions, initializers and the like of users."""
    if isinstance(value, _OBJECTS):
        return not private_keras.is_ours(type(value))
    return inspect.isfunction(value)


def user_defined_objects(layer: Any) -> dict[str, Any]:
    """Returns the user-defined objects of a layer, by name."""
    objects = {}
    for value in vars(layer).values():
        if is_user_defined(value):
            named = value if inspect.isfunction(value) else type(value)
            objects[named.__name__] = named
    return objects


def _new_lambda(layer: Any, changes: Mapping[str, Any]) -> Any:
    """Copies a `Lambda` with its function, which a config stores as bytes."""
    shape = _config(layer).get("output_shape")
    settings = {
        "name": layer.name,
        "trainable": layer.trainable,
        "dtype": layer.dtype_policy,
        # Without a function for the shape, Keras infers the shape.
        "output_shape": shape if isinstance(shape, (list, tuple)) else None,
    }
    return keras.layers.Lambda(
        layer.function,
        mask=layer.mask,
        arguments=layer.arguments,
        **{**settings, **changes},
    )


def _new_operation(operation: Any, changes: Mapping[str, Any]) -> Any:
    config = {**operation.get_config(), **changes}
    name = config.pop("name")
    parameters = inspect.signature(type(operation).__init__).parameters
    if "name" in parameters:
        return type(operation).from_config({**config, "name": name})
    new = type(operation).from_config(config)
    new.name = name
    return new


def _without_ours(value: Any, layer: Any) -> Any:
    """Replaces regularizers of this package in a config by Keras' own."""
    if isinstance(value, (list, tuple)):
        return type(value)(_without_ours(each, layer) for each in value)
    if not isinstance(value, dict):
        return value
    registered = value.get("registered_name")
    if not str(registered).startswith(f"{PACKAGE}>"):
        return {key: _without_ours(each, layer) for key, each in value.items()}
    ours = keras.saving.deserialize_keras_object(value)
    if isinstance(ours, DropoutL2):
        plain = keras.regularizers.L2(ours.weight_decay)
        return keras.saving.serialize_keras_object(plain)
    if isinstance(ours, keras.regularizers.Regularizer):
        return None  # It regularizes noise, which a plain layer lacks.
    raise BayesdropError(
        f"Layer `{layer.name}` has no plain form. Expected a config that loads "
        "without this package. Received: "
        f"{type(layer).__name__} with {type(ours).__name__} inside"
    )


def _load(old: Any, new: Any, masks: KernelMasks) -> None:
    """Copies all weights below `old` to `new`, and applies masks."""
    if not isinstance(old, keras.Layer):
        return
    store: dict[str, Any] = {}
    old.save_own_variables(store)
    if store:
        new.load_own_variables(
            {key: keras.ops.convert_to_numpy(v) for key, v in store.items()}
        )
    if hasattr(old, "save_assets") and hasattr(old, "load_assets"):
        _load_assets(old, new)
    if id(old) in masks:
        kernel = as_array(new.kernel)
        new.kernel.assign(np.where(masks[id(old)], kernel, 0))
    pairs = private_keras.sublayers(old), private_keras.sublayers(new)
    if len(pairs[0]) != len(pairs[1]):
        raise BayesdropError(
            f"Layer `{old.name}` cannot be copied. Expected its copy to have "
            f"the same layers inside. Received: {type(old).__name__} with "
            f"{len(pairs[0])} layers, its copy with {len(pairs[1])}"
        )
    for inside, copy in zip(*pairs, strict=True):
        _load(inside, copy, masks)


def _load_assets(old: Any, new: Any) -> None:
    """Copies the assets of a layer, such as a vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        old.save_assets(folder)
        if any(pathlib.Path(folder).iterdir()):
            new.load_assets(folder)
