# SPDX-License-Identifier: Apache-2.0
"""The request: what every method is asked for, checked."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_return_samples
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.distribute.replicas import Replicas
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.methods import Sampled
from keras_bayesdrop.prediction.model_checks import check_num_samples


@dataclasses.dataclass(frozen=True)
class Request:
    """A request, the same for all methods."""

    num_samples: int
    batch_size: int | None
    seed: int
    quantiles: tuple[float, ...] | None = None
    return_samples: bool | pathlib.Path = False
    first_row: int = 0
    replicas: Replicas | None = None
    # Whether kept samples go with the statistics of each part of the rows.
    samples_in_parts: bool = False

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


def can_keep_samples(method: Method) -> bool:
    """Returns whether a method has as many samples for every row."""
    early = isinstance(method, Sampled) and method.stops_early
    return method.has_samples and not early


def check_request(
    method: Method,
    num_samples: Any,
    batch_size: int | None,
    seed: int | None,
    quantiles: Sequence[float] | None,
    return_samples: Any,
    first_row: int,
) -> Request:
    """Checks the arguments of a prediction, alone and against its method."""
    request = Request(
        num_samples=check_num_samples(num_samples),
        batch_size=None
        if batch_size is None
        else check_positive_int(batch_size, "batch_size"),
        seed=check_seed(seed),
        quantiles=check_levels(quantiles, "quantiles"),
        return_samples=check_return_samples(return_samples),
        first_row=check_int(first_row, "first_row", 0, 2**63 - 1),
    )
    if not method.has_samples:
        for name, value, none in (
            ("return_samples", return_samples, False),
            ("quantiles", quantiles, None),
        ):
            if value != none:
                raise BayesdropError(
                    f"`{name}` needs samples, and moments have none. Expected "
                    f"{name}={none!r} or method='sampling'. Received: "
                    f"{name}={value!r}, method={method.name!r}"
                )
    if (
        isinstance(method, Sampled)
        and method.stops_early
        and request.return_samples
    ):
        path = request.samples_path
        kept = True if path is None else repr(str(path))
        raise BayesdropError(
            "`return_samples` needs as many samples for every row, and with a "
            "tolerance rows differ. Expected return_samples=False, or a method "
            "without tolerance (`quantiles` works with both). Received: "
            f"return_samples={kept}, tolerance={method.tolerance}, "
            f"absolute_tolerance={method.absolute_tolerance}"
        )
    return request
