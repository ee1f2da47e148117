# SPDX-License-Identifier: Apache-2.0
"""Blocks of samples of one output in, statistics of its rows out."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop import _accumulate
from keras_bayesdrop import _data
from keras_bayesdrop._sketch import QuantileSketch
from keras_bayesdrop._tasks import Head


@dataclasses.dataclass(frozen=True)
class Collected:
    """Statistics of one output for some rows.

    Attributes:
        moments: Arrays [rows, ...].
        num_samples: Samples of each row, [rows].
        samples: Array [samples, rows, ...], if kept.
        quantiles: Array [levels, rows, ...], if asked for.
    """

    moments: _accumulate.Moments
    num_samples: Any
    samples: Any = None
    quantiles: Any = None


def join(parts: Sequence[Collected], order: Any = None) -> Collected:
    """Puts the rows of several parts one after another.

    Args:
        parts: At least one.
        order: Index [rows] into the rows of the parts, if it is not theirs.

    Returns:
        All rows.
    """
    if len(parts) == 1 and order is None:
        return parts[0]

    def joined(arrays: Sequence[Any], axis: int = 0) -> Any:
        if arrays[0] is None:
            return None
        whole = np.concatenate(arrays, axis)
        return whole if order is None else np.take(whole, order, axis)

    return Collected(
        _accumulate.Moments(
            *(
                joined([getattr(part.moments, field.name) for part in parts])
                for field in dataclasses.fields(_accumulate.Moments)
            )
        ),
        joined([part.num_samples for part in parts]),
        joined([part.samples for part in parts], 1),
        joined([part.quantiles for part in parts], 1),
    )


class Collector:
    """Takes blocks of samples of one output and reduces them.

    Args:
        head: How the output is read.
        quantiles: Levels that were asked for, or `None`.
        keep_samples: Whether to keep the samples.
    """

    def __init__(
        self,
        head: Head,
        quantiles: tuple[float, ...] | None,
        keep_samples: bool,
    ) -> None:
        self.head = head
        self.quantiles = quantiles
        self.keep_samples = keep_samples
        self.state: _accumulate.State | None = None
        self.samples: list[Any] = []
        self.sketch = (
            QuantileSketch() if quantiles and not keep_samples else None
        )

    def add(self, outputs: tf.Tensor) -> None:
        """Takes a block [rows, samples, ...]."""
        values = self.head.probabilities(outputs)
        if self.state is None:
            self.state = _accumulate.start(values, self.head.task)
        else:
            self.state = _accumulate.advance(self.state, values, self.head.task)
        if self.keep_samples:
            self.samples.append(np.swapaxes(values.numpy(), 0, 1))
        if self.sketch is not None:
            self.sketch.update(np.swapaxes(values.numpy(), 0, 1))

    def moments(self) -> _accumulate.Moments:
        """Returns the moments of the samples so far."""
        assert self.state is not None
        return _accumulate.finish(self.state)

    def take(self, rows: Any) -> "Collector":
        """Returns a collector of some of the rows, by their indexes."""
        assert self.state is not None
        taken = copy.copy(self)
        taken.state = _accumulate.take(self.state, rows)
        taken.samples = [block[:, rows] for block in self.samples]
        if self.sketch is not None:
            taken.sketch = self.sketch.take(rows)
        return taken

    def finish(self, numbers: Any) -> Collected:
        """Returns the statistics, after checking that they are finite.

        Args:
            numbers: Index in `x` of each row, for the message.
        """
        assert self.state is not None
        moments = self.moments()
        _data.check_finite(moments.mean, "the outputs", numbers)
        _data.check_finite(moments.variance, _data.SPREAD, numbers)
        count = np.full(len(numbers), int(self.state[0]))
        samples = np.concatenate(self.samples) if self.samples else None
        quantiles = None
        if self.quantiles is not None and self.sketch is not None:
            quantiles = self.sketch.quantile(self.quantiles)
        elif self.quantiles is not None:
            quantiles = np.quantile(np.asarray(samples), self.quantiles, axis=0)
        return Collected(moments, count, samples, quantiles)
