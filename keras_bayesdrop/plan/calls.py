# SPDX-License-Identifier: Apache-2.0
"""Calling a Keras operation for several samples without changing it."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop import _keras
from keras_bayesdrop._draws import Draws
from keras_bayesdrop.sites import Site
from keras_bayesdrop.sites import redirected


def inference_call(
    operation: Any, fill: Callable[..., Any]
) -> Callable[[Sequence[tf.Tensor], Draws | None], list[tf.Tensor]]:
    """Makes a step's `call` of an operation that keeps no noise inside."""
    training = {"training": False} if _keras.accepts_training(operation) else {}

    def call(
        values: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        args, kwargs = fill(values)
        outputs = operation(*args, **{**kwargs, **training})
        return list(keras.tree.flatten(outputs))

    return call


def noisy_call(
    operation: Any,
    fill: Callable[..., Any],
    path: str,
    first_site: int,
    chosen: Collection[str],
) -> Callable[[Sequence[tf.Tensor], Draws | None], list[tf.Tensor]]:
    """Makes a step's `call` of an operation with noise inside.

    The sites inside are numbered from `first_site` in the order in which they
    draw; those not `chosen`, or all of them without draws, are the identity.
    """
    plain = inference_call(operation, fill)

    def call(
        values: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        number = first_site

        def perturb(site: Site, x: tf.Tensor) -> tf.Tensor:
            nonlocal number
            mine, number = number, number + 1
            if draws is None or site.path not in chosen:
                return x
            return draws.perturb(
                x,
                site.noise,
                site.noise_shape,
                mine,
                folded=True,
                whole_rows=False,
            )

        with redirected(operation, path, perturb):
            return plain(values, draws)

    return call


def count_draws(
    operation: Any,
    fill: Callable[..., Any],
    path: str,
    specs: Sequence[Any],
) -> tuple[int, Any]:
    """Traces an operation once to see how often its noise sites draw.

    Args:
        operation: Keras layer or model.
        fill: Maps tensors to the arguments of the call.
        path: Names from the model down to the operation.
        specs: `tf.TensorSpec` of each tensor.

    Returns:
        The number of draws, and the structure of outputs as `tf.TensorSpec`.
    """
    count = 0

    def perturb(site: Site, x: tf.Tensor) -> tf.Tensor:
        nonlocal count
        count += 1
        return x

    training = {"training": False} if _keras.accepts_training(operation) else {}
    structure: Any = None

    def run(*values: tf.Tensor) -> list[tf.Tensor]:
        nonlocal count, structure
        count = 0
        args, kwargs = fill(values)
        with keras.StatelessScope(), redirected(operation, path, perturb):
            outputs = operation(*args, **{**kwargs, **training})
        structure = keras.tree.map_structure(_keras.value_spec, outputs)
        return list(keras.tree.flatten(outputs))

    tf.function(run, autograph=False).get_concrete_function(*specs)
    return count, structure
