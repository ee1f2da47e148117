# SPDX-License-Identifier: Apache-2.0
"""What a prediction was asked for."""

import pathlib
from dataclasses import dataclass

from keras_bayesdrop.prediction.distribute.replicas import Replicas
from keras_bayesdrop.prediction.sampling.tolerance import Tolerance
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK


@dataclass(frozen=True)
class Request:
    """What was asked for, checked."""

    num_samples: int
    batch_size: int | None
    shared: bool
    seed: int
    quantiles: tuple[float, ...] | None
    return_samples: bool | pathlib.Path
    noise_precision: float | None
    tolerance: Tolerance | None = None
    first_row: int = 0
    replicas: Replicas | None = None

    @property
    def num_replicas(self) -> int:
        """Devices of all workers."""
        return 1 if self.replicas is None else self.replicas.number

    @property
    def num_devices(self) -> int:
        """Devices of this process that share a step."""
        return 1 if self.replicas is None else len(self.replicas.devices)

    @property
    def workers(self) -> Replicas | None:
        """The replicas, if they are of several processes."""
        several = self.replicas is not None and self.replicas.num_workers > 1
        return self.replicas if several else None

    @property
    def samples_path(self) -> pathlib.Path | None:
        """The file for samples, if they are not to be kept in memory."""
        kept = self.return_samples
        return None if isinstance(kept, bool) else kept

    @property
    def samples_at_once(self) -> int:
        """Samples after which rows may stop, so most that a step needs."""
        if self.tolerance is None:
            return self.num_samples
        return min(self.num_samples, SAMPLES_PER_BLOCK)
