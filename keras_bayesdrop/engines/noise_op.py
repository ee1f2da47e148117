# SPDX-License-Identifier: Apache-2.0
"""Puts the noise of a site on a tensor by the compiled op.

The op makes words, masks and products in one pass. Neither words nor masks nor
a repeated input are written to memory.
"""

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise.base import as_scalar
from keras_bayesdrop.noise.draws import Draws

# Axes that the op takes.
_MOST_AXES = 8


class NoiseOp:
    """The op of a library.

    Args:
        ops: The module of the compiled op library.
        dtypes: Names of the dtypes that it has kernels for.
    """

    def __init__(self, ops: Any, dtypes: Collection[str]) -> None:
        self._ops = ops
        self._dtypes = dtypes

    def has_kernel(self, noise: Noise, dtype: str) -> bool:
        """Returns whether the op puts such noise on tensors of a dtype."""
        return noise.has_op_effect and dtype in self._dtypes

    def __call__(
        self,
        draws: Draws,
        x: tf.Tensor,
        noise: Noise,
        varies: Sequence[bool],
        site: int,
        per_sample: bool,
    ) -> tf.Tensor | None:
        """Returns [rows, samples, ...], or `None` if there is no kernel.

        Args:
            draws: Samples and rows.
            x: Tensor [rows, ...].
            noise: The distribution.
            varies: Per axis behind rows (and samples), whether the noise
                differs along it.
            site: Number of the site.
            per_sample: Whether `x` has an axis of samples behind the rows.
        """
        if not self.has_kernel(noise, x.dtype.name) or len(varies) > _MOST_AXES:
            return None
        effect = noise.op_effect()
        if effect is None:
            return None
        return self._ops.keras_bayesdrop_noise(
            x=x,
            seed=draws.seed,
            threshold=as_scalar(effect.threshold, tf.uint32),
            parameters=tf.stack(
                [as_scalar(each, tf.float64) for each in effect.parameters]
            ),
            first_sample=tf.cast(draws.first_sample, tf.int64),
            num_samples=tf.cast(draws.num_samples, tf.int64),
            first_row=tf.cast(draws.first_row, tf.int64),
            site=site,
            varies=list(varies),
            effect=effect.effect,
            masks="shared" if draws.shared else "independent",
            draws="balanced" if draws.balanced else "independent",
            x_per_sample=per_sample,
        )
