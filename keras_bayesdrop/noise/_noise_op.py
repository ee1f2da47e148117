# SPDX-License-Identifier: Apache-2.0
"""Puts noise on a tensor by the compiled op of an engine, where it can."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core.dims import dims_from
from keras_bayesdrop.noise.base import Noise
from keras_bayesdrop.noise.noise_shape import NoiseShape
from keras_bayesdrop.noise.noise_shape import axes_with_noise
from keras_bayesdrop.noise.noise_shape import noise_dims

if TYPE_CHECKING:
    from keras_bayesdrop.noise.draws import Draws

# Takes draws, a tensor [rows, ...] (or [rows, samples, ...], if the last
# argument says so), the noise, the axes along which it differs, and the number
# of the site. Returns [rows, samples, ...], or `None` if there is no kernel.
PutNoise = Callable[
    [Any, tf.Tensor, Noise, Sequence[bool], int, bool], tf.Tensor | None
]


def put_by_op(
    draws: "Draws",
    grouped: tf.Tensor,
    noise: Noise,
    noise_shape: NoiseShape,
    site: int,
    folded: bool,
) -> tf.Tensor | None:
    """Returns [rows, samples, ...], or `None` if the op cannot make it.

    Args:
        draws: Samples and rows, and the op.
        grouped: Tensor [rows, samples or 1, ...].
        noise: The distribution.
        noise_shape: Shape of the noise with its batch axis.
        site: Number of the site.
        folded: Whether `grouped` has an axis of samples.
    """
    assert draws.noise_op is not None
    dims = dims_from(grouped, 2)
    of_noise = noise_dims(noise_shape, [None, *dims])[1:]
    varies = axes_with_noise(of_noise, dims)
    if varies is None:
        return None
    one_mask_a_batch = noise_shape is not None and noise_shape[0] == 1
    shared = draws.shared or one_mask_a_batch
    return draws.noise_op(
        dataclasses.replace(draws, shared=shared),
        grouped if folded else tf.squeeze(grouped, 1),
        noise,
        varies,
        site,
        folded,
    )
