# SPDX-License-Identifier: Apache-2.0
"""Makes noise loadable from the config of a layer."""

from typing import TypeVar

import keras

_T = TypeVar("_T", bound=type)


def register(cls: _T) -> _T:
    """Registers a class with Keras, apart from priors of the same name."""
    keras.saving.register_keras_serializable("keras_bayesdrop.noise")(cls)
    return cls
