# SPDX-License-Identifier: Apache-2.0
"""Calling a Keras operation for several samples without changing it."""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop import _keras
from keras_bayesdrop._draws import Draws
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.plan.probe import Role
from keras_bayesdrop.plan.probe import Shape
from keras_bayesdrop.plan.probe import misplaced
from keras_bayesdrop.plan.probe import role_of
from keras_bayesdrop.sites import Site
from keras_bayesdrop.sites import redirected


def inference_call(
    operation: Any, fill: Callable[..., Any]
) -> Callable[[Sequence[tf.Tensor], Draws | None], list[tf.Tensor]]:
    """Makes a step's `call` of an operation that keeps no noise inside."""
    training = _training_off(operation)

    def call(
        values: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        args, kwargs = fill(values)
        with _keras.losses_kept(operation):
            outputs = operation(*args, **{**kwargs, **training})
        return list(keras.tree.flatten(outputs))

    return call


def _training_off(operation: Any) -> dict[str, bool]:
    """Returns the argument that keeps a call in inference mode."""
    return {"training": False} if _keras.accepts(operation, "training") else {}


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
                return site.noise.expected(x)
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


@dataclasses.dataclass(frozen=True)
class Traced:
    """What a trace of an operation showed.

    Attributes:
        draws: How often the noise sites inside draw.
        outputs: Structure of `tf.TensorSpec`, any batch size.
        problem: Why its noise cannot be sampled, or an empty string.
    """

    draws: int
    outputs: Any
    problem: str


def trace_noise(
    operation: Any,
    fill: Callable[..., Any],
    path: str,
    specs: Sequence[Sequence[tf.TensorSpec]],
) -> Traced:
    """Traces an operation at two batch sizes to see its noise draw.

    Args:
        operation: Keras layer or model.
        fill: Maps tensors to the arguments of the call.
        path: Names from the model down to the operation.
        specs: Specs of the tensors, per batch size.

    Returns:
        What the traces showed.
    """
    (shapes, structure), (other_shapes, _) = (
        _trace(operation, fill, path, each) for each in specs
    )
    problem = ""
    for (site, one), (_, other) in zip(shapes, other_shapes, strict=False):
        if role_of((one, other)) in (Role.CONSTANT, Role.ELSEWHERE):
            problem = problem or misplaced(site, (one, other))
    return Traced(len(shapes), structure, problem)


def _trace(
    operation: Any,
    fill: Callable[..., Any],
    path: str,
    specs: Sequence[tf.TensorSpec],
) -> tuple[list[tuple[str, Shape]], Any]:
    """Returns path and input shape of every draw, and the outputs' specs."""
    draws: list[tuple[str, Shape]] = []
    structure: Any = None

    def perturb(site: Site, x: tf.Tensor) -> tf.Tensor:
        draws.append((site.path, tuple(x.shape)))
        return site.noise.expected(x)

    training = _training_off(operation)

    def run(*values: tf.Tensor) -> list[tf.Tensor]:
        nonlocal structure
        draws.clear()
        args, kwargs = fill(values)
        with (
            keras.StatelessScope(),
            _keras.losses_kept(operation),
            redirected(operation, path, perturb),
        ):
            outputs = operation(*args, **{**kwargs, **training})
        structure = keras.tree.map_structure(
            lambda x: _keras.spec([None, *x.shape[1:]], x.dtype), outputs
        )
        return list(keras.tree.flatten(outputs))

    try:
        tf.function(run, autograph=False).get_concrete_function(*specs)
    except (
        NotImplementedError,
        tf.errors.OperatorNotAllowedInGraphError,
    ) as error:
        raise PlanError(
            f"`{operation.name}` cannot be compiled: its `call` looks at the "
            "values of tensors. Expected code that `tf.function` can trace. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    return draws, structure
