# SPDX-License-Identifier: Apache-2.0
"""Shares the rows and samples of a prediction among replicas.

rows of a batch      -> workers (processes), a range each
rows of a step       -> devices of the worker, a range each
few rows             -> their samples, in blocks of 16, instead
"""

import dataclasses
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines.spread import SpreadRows
from keras_bayesdrop.engines.spread import SpreadSamples
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK

_STRATEGIES = (
    tf.distribute.MirroredStrategy,
    tf.distribute.MultiWorkerMirroredStrategy,
)


@dataclasses.dataclass(frozen=True)
class Replicas:
    """The devices and workers of a prediction.

    Attributes:
        strategy: The strategy.
        devices: Names of the devices of this process.
        num_workers: Number of processes.
        worker: Number of this one.
    """

    strategy: Any
    devices: tuple[str, ...]
    num_workers: int
    worker: int

    @property
    def number(self) -> int:
        """Number of replicas, of all workers."""
        return self.num_workers * len(self.devices)

    def spread(self, engine: Engine, num_rows: int, num_samples: int) -> Engine:
        """Returns an engine that uses the devices of this process.

        Args:
            engine: Runs a part.
            num_rows: Rows of the step.
            num_samples: Samples of each; 1 if it is about no samples.

        Returns:
            The engine itself, if there is nothing to share out.
        """
        blocks = -(-num_samples // SAMPLES_PER_BLOCK)
        number = min(len(self.devices), max(num_rows, blocks))
        if number == 1:
            return engine
        kind = SpreadRows if num_rows >= number else SpreadSamples
        return kind(engine, self.strategy, self.devices[:number])

    def share_rows(self, batch: input_data.Batch) -> input_data.Batch:
        """Returns the rows of a batch that this worker predicts."""
        begin, end = self._share(batch.num_rows)
        inputs = tf.nest.map_structure(lambda x: x[begin:end], batch.inputs)
        return input_data.Batch(batch.first_row + begin, inputs, end - begin)

    def share_samples(self, first: int, count: int) -> tuple[int, int]:
        """Returns the samples of a step that this worker draws.

        Args:
            first: Number of the first one of the step.
            count: How many there are.

        Returns:
            The first one and how many; there may be none.
        """
        begin, end = (
            min(count, at * SAMPLES_PER_BLOCK)
            for at in self._share(-(-count // SAMPLES_PER_BLOCK))
        )
        return first + begin, end - begin

    def _share(self, total: int) -> tuple[int, int]:
        number, index = self.num_workers, self.worker
        return total * index // number, total * (index + 1) // number


def replicas_of(model: Any) -> Replicas | None:
    """Returns the replicas to predict on; `None` if there is only one."""
    strategy = private_keras.strategy_of(model)
    number = strategy.num_replicas_in_sync
    if number == 1 or not isinstance(strategy, _STRATEGIES):
        return None
    devices = tuple(strategy.extended.worker_devices)
    with strategy.scope():
        numbers = strategy.experimental_distribute_values_from_function(
            lambda context: int(context.replica_id_in_sync_group)
        )
    first = int(strategy.experimental_local_results(numbers)[0])
    return Replicas(
        strategy, devices, number // len(devices), first // len(devices)
    )
