# SPDX-License-Identifier: Apache-2.0
"""Draws all samples of a tile of rows, in one or several passes over them."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.collect import join
from keras_bayesdrop.prediction.sampling.collect import join_passes
from keras_bayesdrop.prediction.sampling.drawer import Drawer
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.readout import Readout
from keras_bayesdrop.prediction.sampling.tiles import Tile
from keras_bayesdrop.prediction.sampling.tiles import tiles_of
from keras_bayesdrop.prediction.sampling.tolerance import Tolerance
from keras_bayesdrop.prediction.sampling.tolerance import checkpoints


@dataclasses.dataclass(frozen=True)
class Passes:
    """Draws samples, and stops rows that have enough.

    Attributes:
        drawer: Draws the samples.
        readout: Collects them.
        geometry: Chooses rows and samples of a step for so many rows.
        num_outputs: Outputs of the model.
        rule: Says when a row has enough samples, if they may stop early.
        share_samples: Whether workers draw some of the samples each.
        balanced: Whether samples are balanced in blocks of 16.
    """

    drawer: Drawer
    readout: Readout
    geometry: Callable[[int], Geometry]
    num_outputs: int
    rule: Tolerance | None
    share_samples: bool
    balanced: bool

    def sample(
        self, tile: Tile, geometry: Geometry, step: Callable[[], None]
    ) -> list[Collected]:
        """Draws the samples of a tile.

        Quantiles of more outputs than there is memory for are made in passes
        over the same samples: masks are counters.
        """
        stops: list[Any] = []
        passes = [self._pass(tile, geometry, step, 0, stops)]
        count = max(each.passes for each in passes[0])
        if count > 1:
            self.readout.warn_of_passes(count)
        for number in range(1, count):
            passes.append(self._pass(tile, geometry, step, number, stops))
        return [join_passes(each) for each in zip(*passes, strict=True)]

    def _pass(
        self,
        tile: Tile,
        geometry: Geometry,
        step: Callable[[], None],
        number: int,
        stops: list[Any],
    ) -> list[Collected]:
        """Draws the samples of a tile once.

        Args:
            tile: The rows.
            geometry: Rows and samples of a step.
            step: Is called after each step.
            number: Number of the pass. The first one decides when rows stop.
            stops: Which rows stop at each checkpoint, added by the first pass
                and read by the others.
        """
        collectors = [
            self.readout.collector(
                output, tile.first_row, number, self.balanced
            )
            for output in range(self.num_outputs)
        ]
        parts: list[list[Collected]] = [[] for _ in collectors]
        rows = np.arange(tile.num_rows)
        stopped = []
        drawn = 0
        for index, until in enumerate(
            checkpoints(self.drawer.request.num_samples, self.rule is not None)
        ):
            tiles, places = tiles_of(
                self.drawer.plan, tile, rows, self.drawer.masks.shared
            )
            if len(rows) < tile.num_rows:
                # Fewer rows: more samples of each fit.
                geometry = self.geometry(max(t.num_rows for t in tiles))
            for samples in _sample_ranges(drawn, until, geometry.samples):
                outputs = self.drawer.draw(
                    tiles,
                    places,
                    geometry.num_blocks,
                    samples,
                    self.share_samples,
                )
                readings = self.readout.read(outputs)
                for collector, reading in zip(
                    collectors, readings, strict=True
                ):
                    collector.add(*reading)
                step()
            drawn = until
            if not number:
                stops.append(self._stopping(collectors, drawn, len(rows)))
            done = stops[index]
            if not done.any():
                continue
            leave, stay = np.flatnonzero(done), np.flatnonzero(~done)
            stopped.append(rows[leave])
            numbers = tile.first_row + rows[leave]
            for part, collector in zip(parts, collectors, strict=True):
                leaving = collector.take(leave) if len(stay) else collector
                part.append(leaving.finish(_output_rows(numbers, leaving)))
            if not len(stay):
                break
            collectors = [collector.take(stay) for collector in collectors]
            rows = rows[stay]
        order = None
        if len(stopped) > 1:
            order = np.argsort(np.concatenate(stopped))
        return [join(part, order) for part in parts]

    def _stopping(
        self, collectors: Sequence[Any], drawn: int, num_rows: int
    ) -> Any:
        """Returns, per row, whether it has samples enough in all outputs."""
        done = np.ones(num_rows, bool)
        if self.rule is None or drawn == self.drawer.request.num_samples:
            return done
        for collector in collectors:
            done &= self.rule.met(collector.moments(), drawn, collector.head)
        return done


def _output_rows(rows: Any, collector: Any) -> Any:
    """Returns the row in `x` of each row of an output.

    An output may have several rows for one of `x`, or some for all of them.
    """
    count = int(collector.state[1].shape[0])
    if count == len(rows):
        return rows
    return rows[np.arange(count) * len(rows) // count]


def _sample_ranges(first: int, until: int, size: int) -> list[tuple[int, int]]:
    """Returns the first sample and the number of samples of each step."""
    return [
        (begin, min(size, until - begin)) for begin in range(first, until, size)
    ]
