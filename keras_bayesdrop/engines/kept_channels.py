# SPDX-License-Identifier: Apache-2.0
"""The channels that the samples of a block keep, as lists of numbers.

The list of a sample has its kept channels in order, then some that are dropped,
up to a multiple of 16. What those hold has the factor 0 behind the noise.
"""

from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise.base import as_scalar
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan.cuts.channels import Channels
from keras_bayesdrop.plan.cuts.channels import Joined
from keras_bayesdrop.plan.cuts.channels import Kept
from keras_bayesdrop.plan.cuts.channels import Part
from keras_bayesdrop.plan.cuts.channels import Tiled
from keras_bayesdrop.plan.cuts.channels import Whole
from keras_bayesdrop.plan.cuts.cut_step import MULTIPLE
from keras_bayesdrop.plan.cuts.cut_step import CutStep


class KeptChannels:
    """The kept channels of every value of a part, in a block of samples.

    Args:
        part: The part.
        draws: Which samples.
    """

    def __init__(self, part: CutStep, draws: Draws) -> None:
        self._masks: dict[int, tf.Tensor] = {}
        self._scales: dict[int, Any] = {}
        self._orders: dict[Channels, tuple[tf.Tensor, tf.Tensor]] = {}
        for site, step in part.noise.items():
            dims = list(part.specs[step.inputs[0]].shape)[1:]
            words = draws.words(site, step.noise_shape, dims)
            settings = step.noise.op_settings()
            assert settings is not None
            threshold, self._scales[site] = settings
            kept = words >= as_scalar(threshold, tf.uint32)
            self._masks[site] = tf.reshape(kept, [draws.num_samples, dims[-1]])
        # Sorting is done for all samples at once.
        for channels in part.kept.values():
            self._sort(channels)

    def numbers(self, channels: Channels, sample: tf.Tensor) -> tf.Tensor:
        """Returns the numbers of the channels that a sample has."""
        if isinstance(channels, Whole):
            return tf.range(channels.size)
        if isinstance(channels, Joined):
            lists, first = [], 0
            for part in channels.parts:
                lists.append(self.numbers(part, sample) + first)
                first += part.size
            return tf.concat(lists, axis=0)
        if isinstance(channels, Tiled):
            of = self.numbers(channels.of, sample)
            first = tf.range(channels.places) * channels.of.size
            return tf.reshape(first[:, tf.newaxis] + of, [-1])
        order, count = self._orders[channels]
        return order[sample, : count[sample]]

    def factors(
        self, site: int, numbers: tf.Tensor, sample: tf.Tensor, dtype: tf.DType
    ) -> tf.Tensor:
        """Returns what the noise of a site multiplies channels by."""
        kept = tf.gather(self._masks[site][sample], numbers)
        return tf.cast(kept, dtype) * as_scalar(self._scales[site], dtype)

    def _sort(self, channels: Channels) -> None:
        """Puts the kept channels of every sample first."""
        if isinstance(channels, Joined):
            for part in channels.parts:
                self._sort(part)
        elif isinstance(channels, Tiled):
            self._sort(channels.of)
        elif not isinstance(channels, Whole) and channels not in self._orders:
            kept = self._kept(channels)
            count = tf.reduce_sum(tf.cast(kept, tf.int32), axis=-1)
            multiples = tf.maximum((count + MULTIPLE - 1) // MULTIPLE, 1)
            places = tf.range(channels.size)
            order = tf.argsort(
                tf.where(kept, places, places + channels.size), axis=-1
            )
            self._orders[channels] = (
                order,
                tf.minimum(multiples * MULTIPLE, channels.size),
            )

    def _kept(self, channels: Channels) -> tf.Tensor:
        """Returns masks [samples, channels]."""
        if isinstance(channels, Kept):
            first, *others = sorted(channels.sites)
            kept = self._masks[first]
            for site in others:
                kept = kept & self._masks[site]
            return kept
        assert isinstance(channels, Part)
        end = channels.begin + channels.size
        return self._kept(channels.of)[:, channels.begin : end]
