# SPDX-License-Identifier: Apache-2.0
"""The shape of noise, against that of the tensor it is put on."""

from collections.abc import Sequence
from typing import Any

# With its batch axis, `None` for an axis that follows the tensor; or `None` for
# the shape of the tensor.
NoiseShape = tuple[int | None, ...] | None


def noise_dims(noise_shape: NoiseShape, dims: Sequence[Any]) -> list[Any]:
    """Returns the dimensions of the noise on a tensor, the first included.

    A tensor with several entries per row has one dimension more than
    `noise_shape`. The noise differs between the entries, unless it is one for
    the whole batch.
    """
    if noise_shape is None:
        return list(dims)
    extra = len(dims) - len(noise_shape)
    entries = 1 if noise_shape[0] == 1 else None
    asked = [noise_shape[0], *[entries] * extra, *noise_shape[1:]]
    return [
        dim if want is None else want
        for want, dim in zip(asked, dims, strict=True)
    ]


def axes_with_noise(
    of_noise: Sequence[Any], dims: Sequence[Any]
) -> list[bool] | None:
    """Returns along which axes noise differs; `None` if that is not known."""
    varies = []
    for noise_dim, dim in zip(of_noise, dims, strict=True):
        static = isinstance(noise_dim, int)
        # An open dimension is a tensor, and equal to nothing but itself.
        same = noise_dim is dim or (
            static and isinstance(dim, int) and noise_dim == dim
        )
        if not same and not (static and noise_dim == 1):
            return None
        varies.append(same)
    return varies


def permuted(noise_shape: NoiseShape, order: Sequence[int]) -> NoiseShape:
    """Returns the shape of noise on a tensor whose axes are permuted."""
    if noise_shape is None:
        return None
    return tuple(noise_shape[axis] for axis in order)
