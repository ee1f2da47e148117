# SPDX-License-Identifier: Apache-2.0
"""Forgets compiled programs on request."""

import keras

from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.graph import cache
from keras_bayesdrop.graph.source import source_of


def clear_cache(model: keras.Model | None = None) -> None:
    """Forgets the programs that were compiled for a model, or for all models.

    The next prediction compiles them again. That is needed only after a change
    that cannot be noticed. Noticed are weights, public attributes of layers
    (numbers, strings, functions, containers of them, NumPy arrays of up to
    4 kB), layers that are added or replaced, and a call of `compile`. Not
    noticed are changes of

    - private attributes, whose names begin with an underscore;
    - global variables that a function reads;
    - larger arrays, or containers of over 1,000 entries, in place;
    - what lies deeper than three objects or containers inside each other;
    - attributes that the layer itself sets whenever it is called.

    Args:
        model: A Keras model, or a view of one. All models by default.

    Example:
    ```python
    model.layers[0]._own_setting = 3.0
    keras_bayesdrop.clear_cache(model)
    p = keras_bayesdrop.predict_with_uncertainty(model, x)
    ```
    """
    if model is not None:
        check_model(model)
        model, _ = source_of(model, None)
    cache.clear(model)
