# SPDX-License-Identifier: Apache-2.0
"""A network whose one output of two parts becomes two outputs."""

import keras
from keras import layers


def split_outputs(model, names, outputs):
    """Returns the same network with two outputs.

    Args:
        model: Ends with a Dense layer, whose last axis has both parts.
        names: Of the layers of the parts.
        outputs: Makes the structure of the outputs of the two parts.
    """
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    hidden = twin.layers[-1].input
    kernel, bias = twin.layers[-1].get_weights()
    half = len(bias) // 2
    parts = [layers.Dense(half, name=name) for name in names]
    values = [part(hidden) for part in parts]
    for number, part in enumerate(parts):
        columns = slice(number * half, (number + 1) * half)
        part.set_weights([kernel[:, columns], bias[columns]])
    return keras.Model(twin.inputs, outputs(*values))
