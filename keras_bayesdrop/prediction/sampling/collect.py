# SPDX-License-Identifier: Apache-2.0
"""Reduces blocks of samples of one output to statistics of its rows."""

import copy
import dataclasses
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.prediction.sampling import accumulate
from keras_bayesdrop.prediction.sampling.sketch import CAPACITY
from keras_bayesdrop.prediction.sampling.sketch import QuantileSketch
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.quantiles import quantiles_of

# Memory for the sketches of a step. When the largest level is halved, a sketch
# takes half as much again for a moment.
SKETCH_BYTES = 128 << 20
_VALUE_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Collected:
    """Statistics of one output for some rows.

    Attributes:
        moments: Arrays [rows, ...].
        num_samples: Samples of each row, [rows].
        samples: Array [samples, rows, ...], if kept here.
        noise_samples: Likewise, the variances of learned noise.
        quantiles: Array [levels, rows, ...], if asked for; of a pass over
            some of the outputs, [levels, rows, some of the outputs].
        passes: Passes over the samples that quantiles of all outputs take.
    """

    moments: accumulate.SampleMoments
    num_samples: Any
    samples: Any = None
    quantiles: Any = None
    passes: int = 1
    noise_samples: Any = None


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
        accumulate.SampleMoments(
            *(
                joined([getattr(part.moments, field.name) for part in parts])
                for field in dataclasses.fields(accumulate.SampleMoments)
            )
        ),
        joined([part.num_samples for part in parts]),
        joined([part.samples for part in parts], 1),
        joined([part.quantiles for part in parts], 1),
        max(part.passes for part in parts),
        joined([part.noise_samples for part in parts], 1),
    )


def join_passes(passes: Sequence[Collected]) -> Collected:
    """Puts the quantiles of passes over some of the outputs together."""
    first = passes[0]
    parts = [each.quantiles for each in passes if each.quantiles is not None]
    if len(parts) < 2:
        return first
    quantiles = np.concatenate(parts, axis=2)
    shape = (len(quantiles), *first.moments.mean.shape)
    return dataclasses.replace(first, quantiles=quantiles.reshape(shape))


def sketch_elements(num_samples: int, budget: int, num_outputs: int) -> int:
    """Returns how many elements of an output may have a sketch at once.

    Args:
        num_samples: Samples of each row.
        budget: Bytes for the values of all sketches.
        num_outputs: Outputs of the model, which have sketches at once.
    """
    values = min(num_samples, CAPACITY)
    return max(1, budget // (values * _VALUE_BYTES * num_outputs))


def count_passes(num_rows: int, outputs: int, most_elements: int) -> int:
    """Returns how many passes the quantiles of some rows take."""
    return math.ceil(outputs / _outputs_at_once(num_rows, most_elements))


def _outputs_at_once(num_rows: int, most_elements: int) -> int:
    return max(1, most_elements // max(1, num_rows))


class Collector:
    """Takes blocks of samples of one output and reduces them.

    Args:
        head: How the output is read.
        quantiles: Levels that were asked for, or `None`.
        keep_samples: Whether to keep the samples.
        most_elements: Most elements that have a sketch at once. If there are
            more, the samples are drawn again, in passes.
        number: Of the pass.
        write: Takes samples to be kept elsewhere, who makes their quantiles:
            the number of the first, and arrays [samples, rows, ...] of values
            and, if it is learned, of the variances of their noise.
        balanced: Whether the draws are balanced in blocks of 16 samples.
    """

    def __init__(
        self,
        head: Head,
        quantiles: tuple[float, ...] | None,
        keep_samples: bool,
        most_elements: int | None = None,
        number: int = 0,
        write: Callable[[int, Sequence[Any]], None] | None = None,
        balanced: bool = False,
    ) -> None:
        self.head = head
        self.balanced = balanced
        self.quantiles = quantiles if write is None else None
        self.keep_samples = keep_samples and write is None
        self.write = write
        self.most_elements = most_elements
        self.number = number
        self.passes = 1
        self.outputs: slice | None = None  # Those of the pass; `None`: all.
        self.state: accumulate.State | None = None
        # Blocks of values, and of the variances of their noise.
        self.kept: list[Sequence[Any]] = []
        self.sketch = (
            QuantileSketch()
            if self.quantiles and not self.keep_samples
            else None
        )

    def add(self, values: tf.Tensor, *noise: tf.Tensor) -> None:
        """Takes a block [rows, samples, ...].

        Args:
            values: Numbers or probabilities.
            *noise: The variances of learned noise, if it is.
        """
        task, drawn = self.head.task, 0
        if self.state is None:
            self.state = accumulate.start(
                values, task, *noise, balanced=self.balanced
            )
            self._choose_outputs(values.shape)
        else:
            drawn = int(self.state[0])
            self.state = accumulate.advance(
                self.state, values, task, *noise, balanced=self.balanced
            )
        if self.keep_samples or self.write is not None:
            blocks = [np.swapaxes(x.numpy(), 0, 1) for x in (values, *noise)]
            if self.write is None:
                self.kept.append(blocks)
            else:
                self.write(drawn, blocks)
        if self.sketch is not None:
            block = np.swapaxes(values.numpy(), 0, 1)
            if self.outputs is not None:
                block = _flat_outputs(block)[:, :, self.outputs]
            self.sketch.update(block)

    def _choose_outputs(self, shape: Sequence[int]) -> None:
        """Chooses the outputs of this pass, when it is known how many are."""
        if self.sketch is None or self.most_elements is None:
            return
        num_rows, _, *dims = shape
        outputs = math.prod(dims)
        self.passes = count_passes(num_rows, outputs, self.most_elements)
        if self.number >= self.passes:
            self.sketch = self.quantiles = None
        elif self.passes > 1:
            width = _outputs_at_once(num_rows, self.most_elements)
            begin = self.number * width
            self.outputs = slice(begin, min(begin + width, outputs))

    def moments(self) -> accumulate.SampleMoments:
        """Returns the moments of the samples so far."""
        assert self.state is not None
        return accumulate.finish(self.state, self.balanced)

    def take(self, rows: Any) -> "Collector":
        """Returns a collector of some of the rows, by their indexes."""
        assert self.state is not None
        taken = copy.copy(self)
        taken.state = accumulate.take(self.state, rows)
        taken.kept = [[x[:, rows] for x in blocks] for blocks in self.kept]
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
        accumulate.check(moments, numbers)
        count = np.full(len(numbers), int(self.state[0]))
        samples, *noise = (
            (np.concatenate(blocks) for blocks in zip(*self.kept, strict=True))
            if self.kept
            else (None,)
        )
        quantiles = None
        if self.quantiles is not None and self.sketch is not None:
            quantiles = self.sketch.quantile(self.quantiles)
        elif self.quantiles is not None:
            quantiles = quantiles_of(np.asarray(samples), self.quantiles)
        return Collected(
            moments, count, samples, quantiles, self.passes, *noise
        )


def _flat_outputs(block: Any) -> Any:
    """Returns [samples, rows, outputs] of [samples, rows, ...]."""
    outputs = math.prod(block.shape[2:])
    # Made of [rows, samples, ...]: that order, so that nothing is copied.
    rows_first = np.swapaxes(block, 0, 1)
    flat = rows_first.reshape(*rows_first.shape[:2], outputs)
    return np.swapaxes(flat, 0, 1)
