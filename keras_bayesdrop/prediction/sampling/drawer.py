# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of a plan, alone or together with devices and workers."""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop.engines import Engine
from keras_bayesdrop.noise.draws import MaskRule
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.distribute.workers import gather_samples
from keras_bayesdrop.prediction.logit_noise import LogitNoise
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.sampling.programs import Block
from keras_bayesdrop.prediction.sampling.programs import Sampler
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.prediction.sampling.tiles import Tile
from keras_bayesdrop.predictive import ChainWork

# Sets of steps of which the work is kept.
_MOST_WORKS = 32


@dataclasses.dataclass
class Tally:
    """Counts what was run.

    Attributes:
        prefix_runs: How often the prefix ran, if there is any.
        blocks: How often so many rows and samples of the suffix ran at once.
    """

    prefix_runs: int = 0
    blocks: collections.Counter[tuple[int, int]] = dataclasses.field(
        default_factory=collections.Counter
    )


@dataclasses.dataclass(frozen=True)
class Drawer:
    """Draws samples of the outputs of a plan.

    Attributes:
        model: Its programs are kept with it.
        plan: The plan.
        engine: Runs the plan on one device.
        key: The seed, a scalar uint64.
        masks: Which masks are related to each other.
        request: Has the replicas, and the number of the first row.
        logit_noise: The noise of outputs that are logits.
        tally: Counts what is run.
        works: The work of compiled chains, by the steps that were run. Runs of
            one plan share it.
    """

    model: Any
    plan: Plan
    engine: Engine
    key: tf.Tensor
    masks: MaskRule
    request: Request
    logit_noise: tuple[LogitNoise, ...] = ()
    tally: Tally = dataclasses.field(default_factory=Tally)
    works: dict[Any, tuple[ChainWork, ...]] = dataclasses.field(
        default_factory=dict
    )

    def prefix(
        self, inputs: Sequence[tf.Tensor], num_rows: int
    ) -> list[tf.Tensor | None]:
        """Runs the part of the plan that no noise reaches."""
        sampler, engine = self._programs(num_rows, 1)
        self.tally.prefix_runs += bool(self.plan.prefix)
        return sampler.prefix(self.plan, engine, inputs)

    def draw(
        self,
        tiles: Sequence[Tile],
        places: Any,
        counter_blocks: int,
        samples: tuple[int, int],
        share_samples: bool,
    ) -> list[tf.Tensor]:
        """Draws some samples of some rows.

        Args:
            tiles: The rows, and perhaps some in between.
            places: Index of each row in the tiles put end to end; `None` if
                there is one tile of exactly these rows.
            counter_blocks: Blocks of counters that cover the samples.
            samples: The first one, and how many.
            share_samples: Whether workers draw some of the samples each.

        Returns:
            Tensors [rows, samples, ...], one per output of the plan.
        """
        parts = [
            self._draw_tile(tile, counter_blocks, samples, share_samples)
            for tile in tiles
        ]
        if places is None:
            return parts[0]
        return [
            tf.gather(tf.concat(outputs, axis=0), places)
            for outputs in zip(*parts, strict=True)
        ]

    def _draw_tile(
        self,
        tile: Tile,
        counter_blocks: int,
        samples: tuple[int, int],
        share_samples: bool,
    ) -> list[tf.Tensor]:
        """Draws samples of a tile, alone or together with other workers."""
        workers = self.request.workers
        if workers is None or not share_samples:
            return self._suffix(tile, counter_blocks, *samples)
        first, count = workers.share_samples(*samples)

        def draw() -> list[tf.Tensor]:
            if not count:
                return []
            return self._suffix(tile, counter_blocks, first, count)

        return gather_samples(workers, draw)

    def _suffix(
        self, tile: Tile, counter_blocks: int, first: int, count: int
    ) -> list[tf.Tensor]:
        """Draws samples of a tile on the devices of this process."""
        sampler, engine = self._programs(tile.num_rows, count)
        self.tally.blocks[tile.num_rows, count] += 1
        row = self.row_number(tile.first_row)
        return sampler.suffix(
            self.plan,
            engine,
            tile.cut,
            counter_blocks,
            self.key,
            Block(first, count, row, tile.num_rows),
        )

    def row_number(self, row: int) -> int:
        """Returns the number of a row of `x` in the whole of which it is part.

        Shared masks have no rows: all rows are row 0.
        """
        return 0 if self.masks.shared else self.request.first_row + row

    def _programs(
        self, num_rows: int, num_samples: int
    ) -> tuple[Sampler, Engine]:
        """Returns the programs for so many rows and samples."""
        engine, replicas = self.engine, self.request.replicas
        if replicas is not None:
            engine = replicas.spread(engine, num_rows, num_samples)
        sampler = sampler_for(
            self.model, self.plan, engine, self.masks, self.logit_noise
        )
        return sampler, engine

    def chain_work(self) -> tuple[ChainWork, ...]:
        """Returns the work of compiled chains so far, on one device."""
        if self.request.replicas is not None:
            return ()
        key = (self.plan.one_at_a_time, *sorted(self.tally.blocks.items()))
        known = self.works.get(key)
        if known is None:
            if len(self.works) >= _MOST_WORKS:
                self.works.clear()
            known = self.works[key] = self.engine.chain_work(
                self.plan, self.tally.blocks, self.masks.shared
            )
        return known
