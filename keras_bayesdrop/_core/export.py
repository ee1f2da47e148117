# SPDX-License-Identifier: Apache-2.0
"""The decorator that registers a class with Keras, for saved models."""

from collections.abc import Callable
from typing import TypeVar

import keras

PACKAGE = "keras_bayesdrop"

_T = TypeVar("_T", bound=type)


def export(path: str) -> Callable[[_T], _T]:
    """Registers a class with Keras under its public name.

    A model that holds the class then loads in any process that has imported
    `keras_bayesdrop`, with no `custom_objects`.

    Args:
        path: Public dotted path, such as `"keras_bayesdrop.layers.MCDropout"`.

    Returns:
        A decorator that returns the class itself.
    """
    name = path.rsplit(".", 1)[1]

    def register(cls: _T) -> _T:
        keras.saving.register_keras_serializable(PACKAGE, name)(cls)
        return cls

    return register
