# SPDX-License-Identifier: Apache-2.0
"""The registry of the zoo, its inputs, and layers that members share."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

layers = keras.layers

ROWS = 5


@dataclasses.dataclass(frozen=True)
class Member:
    """A kind of model.

    Attributes:
        name: Name of the kind.
        make: Returns the model and its inputs.
        draws: How many tensors of noise one prediction draws.
        linear: Whether the mean over masks is the prediction without noise.
        like_training: Whether `model(x, training=True)` draws from the same
            distribution: the model has nothing but noise that trains.
        always_on: Whether noise is on in `model(x, training=False)` as well.
        rtol: Precision of its arithmetic.
        slow: Whether it is long to trace, and much like another member.
    """

    name: str
    make: Callable[[], tuple[Any, Any]]
    draws: int
    linear: bool = False
    like_training: bool = True
    always_on: bool = False
    rtol: float = 1e-5
    slow: bool = False

    def build(self) -> tuple[Any, Any]:
        """Returns the model and its inputs, the same ones every time."""
        keras.utils.set_random_seed(1)
        try:
            return self.make()
        finally:
            keras.config.set_dtype_policy("float32")


ZOO: dict[str, Member] = {}


def member(draws: int, **kwargs: Any) -> Callable[..., Any]:
    """Enters a function into the zoo."""

    def enter(make: Any) -> Any:
        ZOO[make.__name__] = Member(make.__name__, make, draws, **kwargs)
        return make

    return enter


def numbers(*shape: int, rows: int = ROWS, seed: int = 0) -> Any:
    """Returns float32 inputs of about unit size, none of them near zero."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.5, (rows, *shape)) * rng.choice(
        [-1, 1], (rows, *shape)
    )
    return x.astype("float32")


def tokens(length: int, rows: int = ROWS) -> Any:
    """Returns int32 tokens; 0 is padding, at the end of some rows."""
    x = np.random.default_rng(0).integers(1, 9, (rows, length), "int32")
    for row in range(1, rows):
        x[row, length - row % length :] = 0
    return x


def linear_dense(units: int, **kwargs: Any) -> Any:
    """Returns a Dense layer without activation, of clearly non-zero weights."""
    return layers.Dense(
        units,
        kernel_initializer=keras.initializers.RandomUniform(0.3, 0.9, seed=3),
        **kwargs,
    )


def move_statistics(model: Any) -> None:
    """Gives every BatchNormalization statistics worth keeping."""
    rng = np.random.default_rng(5)
    for layer in model._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            shape = layer.moving_mean.shape
            layer.moving_mean.assign(rng.normal(size=shape))
            layer.moving_variance.assign(rng.uniform(0.5, 2, shape))
