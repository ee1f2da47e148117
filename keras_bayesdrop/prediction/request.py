# SPDX-License-Identifier: Apache-2.0
"""The arguments of a prediction, checked, and what every method is asked."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_return_samples
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.prediction import methods
from keras_bayesdrop.prediction.detection import check_heads
from keras_bayesdrop.prediction.distribute.replicas import Replicas
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.methods import Sampled
from keras_bayesdrop.prediction.model_checks import check_num_samples

# Arguments that moved into `method` and `head`.
OLD_KEYWORDS = {
    "masks": "method=Sampling(masks=...)",
    "engine": "method=Sampling(engine=...)",
    "tolerance": "method=Sampling(tolerance=...)",
    "absolute_tolerance": "method=Sampling(absolute_tolerance=...)",
    "covariance": "method=Moments(covariance=...) or RaoBlackwell(...)",
    "fallback": "method=Moments(fallback=...) or RaoBlackwell(...)",
    "task": "head='regression', 'classification' or 'binary'",
    "from_logits": "head=Classification(from_logits=...) or Binary(...)",
    "noise_precision": "head=Regression(noise_precision=...)",
}


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of a prediction, which check themselves.

    `predict_with_uncertainty` documents them. All that predict make one of
    these out of their own arguments.
    """

    num_samples: int = 50
    batch_size: int | None = None
    seed: int | None = None
    method: str | Method = "sampling"
    head: Any = "auto"
    layers: LayerSelection = None
    quantiles: Sequence[float] | None = None
    return_samples: bool | str | os.PathLike[str] = False
    first_row: int = 0
    allow_hidden_noise: bool = False

    def __post_init__(self) -> None:
        """Checks the arguments, alone and against each other."""
        private_keras.require_tensorflow()
        method = self.chosen_method
        request = Request(
            num_samples=check_num_samples(self.num_samples),
            batch_size=None
            if self.batch_size is None
            else check_positive_int(self.batch_size, "batch_size"),
            seed=0 if self.seed is None else check_seed(self.seed),
            quantiles=check_levels(self.quantiles, "quantiles"),
            return_samples=check_return_samples(self.return_samples),
            first_row=_check_first_row(self.first_row),
        )
        _check_samples(method, request, self)
        check_heads(self.head)
        object.__setattr__(self, "_request", request)

    @functools.cached_property
    def chosen_method(self) -> Method:
        """The method itself, where its name was passed."""
        return methods.get(self.method)

    def request(
        self, seed: int | None = None, first_row: int | None = None
    ) -> Request:
        """Returns what the method is asked for.

        Args:
            seed: In place of the own one. Without either it is drawn.
            first_row: In place of the own one.
        """
        request: Request = self._request  # type: ignore[attr-defined]
        if seed is None and first_row is None and self.seed is not None:
            return request
        return dataclasses.replace(
            request,
            seed=check_seed(self.seed if seed is None else seed),
            first_row=request.first_row
            if first_row is None
            else _check_first_row(first_row),
        )


def _check_first_row(first_row: Any) -> int:
    return check_int(first_row, "first_row", 0, 2**63 - 1)


def _check_samples(
    method: Method, request: Request, arguments: Arguments
) -> None:
    """Raises if samples are asked for, and the method has none to keep."""
    if not method.has_samples:
        for name, value, none in (
            ("return_samples", arguments.return_samples, False),
            ("quantiles", arguments.quantiles, None),
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
