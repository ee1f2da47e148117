# SPDX-License-Identifier: Apache-2.0
"""Tells inputs apart by all but their numbers.

Inputs that are alike take the same way through a prediction. What was checked
of the first of them, but for the numbers, need not be checked again.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.input_data import Batch

_EAGER = type(tf.constant(0))


def likeness(x: Any) -> Any:
    """Returns something hashable, equal for inputs that are alike.

    Args:
        x: Whatever `keras.Model.predict` takes.

    Returns:
        `None` for what is not arrays or tensors, or lists, tuples and dicts of
        them.
    """
    kind = type(x)
    if kind is np.ndarray:
        return x.shape, x.dtype, keras.config.floatx()
    if kind is _EAGER:
        return kind, tuple(x.shape), x.dtype, keras.config.floatx()
    if kind is dict:
        parts = [(key, likeness(part)) for key, part in x.items()]
        known = all(part is not None for _, part in parts)
    elif kind in (list, tuple):
        parts = [likeness(part) for part in x]
        known = None not in parts
    else:
        return None
    return (kind, *parts) if known and parts else None


def tensors_of(x: Any) -> Any:
    """Returns inputs as tensors, like a batch of them that Keras hands out.

    Args:
        x: Inputs that have a likeness. Raises if they are not finite.
    """
    if isinstance(x, dict):
        return {key: tensors_of(part) for key, part in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(tensors_of, x))
    array = np.asarray(x)
    input_data.check_finite(array, "the inputs `x`", 0)
    if array.dtype.kind == "f":
        array = array.astype(keras.config.floatx(), copy=False)
    return tf.convert_to_tensor(array)


def is_batch(x: Any, batch: Batch) -> bool:
    """Returns whether `tensors_of` makes of inputs what Keras makes of them.

    Args:
        x: Inputs that have a likeness.
        batch: All rows of them, as Keras handed them out.
    """
    ours, theirs = tensors_of(x), batch.inputs
    try:
        keras.tree.assert_same_structure(ours, theirs)
    except ValueError:
        return False
    return all(
        one.dtype == other.dtype
        and one.shape == other.shape
        and bool(np.array_equal(one.numpy(), other.numpy()))
        for one, other in zip(
            keras.tree.flatten(ours), keras.tree.flatten(theirs), strict=True
        )
    )
