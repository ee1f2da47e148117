# SPDX-License-Identifier: Apache-2.0
"""Statistics of the units of a dropout network over masks, also by epoch.

In the notation of Baldi and Sadowski (2014), for a unit `O`

    E      mean over masks
    V      variance over masks, the dropout variance
    W      value in the deterministic network
    NWGM   normalised geometric mean over masks
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive.quantities import mc_error

_ABSENT = "-"
# Activations of a layer that each measurement keeps. With it, 100 measurements
# of five layers take 16 MB.
_FOLLOWED = 2048


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LayerConsistency:
    """Statistics of the units of one layer.

    Attributes:
        path: Names from the model down to the layer. Further calls of the
            layer end in `:2` and so on.
        layer: Class name of the layer.
        threshold: A unit is silent for an input if `|E|` is at most this.
        num_samples: Number `T` of masks.
        mean: Array `[rows, units]`, `E`. The units of a convolution are
            `[height, width, channels]`.
        variance: Array `[rows, units]`, `V`, unbiased.
        deterministic: Array `[rows, units]`, `W`.
        nwgm: Array `[rows, units]` for logistic and softmax units over the
            same masks, with noise of the layer's own weights at its mean.
            `None` for other units.
        mean_variance: Array `[rows, units]` of balanced draws, as in
            `Predictive`: the variance of `E` over other masks.
    """

    path: str
    layer: str
    threshold: float
    num_samples: int
    mean: Array
    variance: Array
    deterministic: Array
    nwgm: Array | None
    mean_variance: Array | None = None

    @property
    def deterministic_error(self) -> Array:
        """`E - W`: the error of the deterministic network."""
        return self.mean - self.deterministic

    @property
    def nwgm_error(self) -> Array | None:
        """`E - NWGM`, or `None` if there is no NWGM."""
        return None if self.nwgm is None else self.mean - self.nwgm

    @property
    def mc_error(self) -> Array:
        """Standard error of `E`, `sqrt(V / T)`; as in `Predictive`."""
        if self.mean_variance is None:
            error: Array = np.sqrt(self.variance / self.num_samples)
            return error
        std = np.sqrt(self.variance)
        error = mc_error(std, self.num_samples, self.mean_variance)
        return error.astype(self.mean.dtype)

    @property
    def silent(self) -> npt.NDArray[np.bool_]:
        """Array `[rows, units]`, true where a unit is silent for an input."""
        return np.abs(self.mean) <= self.threshold

    @property
    def silent_fraction(self) -> float:
        """Share of the units that are silent for every input."""
        return float(np.mean(self.silent.all(axis=0)))

    @property
    def active_fraction(self) -> float:
        """Share of the units that are silent for no input."""
        return float(np.mean(~self.silent.any(axis=0)))

    @property
    def sparsity(self) -> float:
        """Share of silent activations, over inputs and units."""
        return float(np.mean(self.silent))

    @property
    def dropout_variance(self) -> float:
        """Mean of `V` over inputs and units."""
        return _mean(self.variance)

    @property
    def ensemble_gap(self) -> float:
        """Mean of `|E - W|` over inputs and units."""
        return _mean(np.abs(self.deterministic_error))

    def __repr__(self) -> str:
        """Returns the names and the shape."""
        return (
            f"LayerConsistency(path={self.path!r}, layer={self.layer!r}, "
            f"shape={self.mean.shape})"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Consistency(Report):
    """Result of `consistency`; prints as a table.

    Attributes:
        model: Name of the model.
        num_samples: Number of masks.
        num_rows: Number of inputs.
        seed: The seed of the masks.
        layers: The layers, in the order of the model.
    """

    model: str
    num_samples: int
    num_rows: int
    seed: int
    layers: tuple[LayerConsistency, ...]

    def __getitem__(self, path: str) -> LayerConsistency:
        """Returns the layer of a path."""
        for layer in self.layers:
            if layer.path == path:
                return layer
        raise BayesdropError(
            f"No layer of model `{self.model}` was measured under this path. "
            f"Expected one of {[each.path for each in self.layers]}. "
            f"Received: {path!r}"
        )

    def _blocks(self) -> Iterator[str | Table]:
        yield (
            f"Model `{self.model}`, {self.num_samples} masks, "
            f"{self.num_rows} inputs"
        )
        header = ["layer", "class", "units", "E", "V", "|E - W|", "|E - NWGM|"]
        header += ["silent", "active", "sparsity"]
        rows = [(each.path, each.layer, *_cells(each)) for each in self.layers]
        yield Table(header, rows)


def _cells(layer: LayerConsistency) -> tuple[str, ...]:
    error = layer.nwgm_error
    shares = (layer.silent_fraction, layer.active_fraction, layer.sparsity)
    return (
        str(layer.mean[0].size),
        f"{_mean(layer.mean):.3g}",
        f"{layer.dropout_variance:.3g}",
        f"{layer.ensemble_gap:.3g}",
        _ABSENT if error is None else f"{_mean(np.abs(error)):.3g}",
        *(f"{100 * share:.1f} %" for share in shares),
    )


def _mean(values: Array) -> float:
    return float(np.mean(values, dtype=np.float64))


@dataclasses.dataclass(eq=False, repr=False)
class LayerRecord:
    """Statistics of one layer by epoch. Lists have an entry per measurement.

    Attributes:
        path: Path of the layer.
        dropout_variance: Means of `V` over inputs and units.
        ensemble_gap: Means of `|E - W|`.
        silent_fraction: Shares of units that are silent for every input.
        active_fraction: Shares of units that are silent for no input.
        sparsity: Shares of silent activations.
        followed: Array `[followed]`, places in `[rows * units]` of the
            activations that are kept, the same in all measurements.
        mean: Arrays `[followed]`, `E` of these activations.
        variance: Their `V`.
        deterministic: Their `W`.
        nwgm: Their NWGM; empty for a layer that has none.
    """

    path: str
    dropout_variance: list[float] = dataclasses.field(default_factory=list)
    ensemble_gap: list[float] = dataclasses.field(default_factory=list)
    silent_fraction: list[float] = dataclasses.field(default_factory=list)
    active_fraction: list[float] = dataclasses.field(default_factory=list)
    sparsity: list[float] = dataclasses.field(default_factory=list)
    followed: npt.NDArray[np.int64] | None = None
    mean: list[Array] = dataclasses.field(default_factory=list)
    variance: list[Array] = dataclasses.field(default_factory=list)
    deterministic: list[Array] = dataclasses.field(default_factory=list)
    nwgm: list[Array] = dataclasses.field(default_factory=list)

    def add(self, layer: LayerConsistency) -> None:
        """Adds a measurement."""
        self.dropout_variance.append(layer.dropout_variance)
        self.ensemble_gap.append(layer.ensemble_gap)
        self.silent_fraction.append(layer.silent_fraction)
        self.active_fraction.append(layer.active_fraction)
        self.sparsity.append(layer.sparsity)
        if self.followed is None:
            self.followed = _evenly_spaced(layer.mean.size, _FOLLOWED)
        self.mean.append(layer.mean.ravel()[self.followed])
        self.variance.append(layer.variance.ravel()[self.followed])
        self.deterministic.append(layer.deterministic.ravel()[self.followed])
        if layer.nwgm is not None:
            self.nwgm.append(layer.nwgm.ravel()[self.followed])

    def __repr__(self) -> str:
        """Returns the path and the number of measurements."""
        return f"LayerRecord(path={self.path!r}, looks={len(self.mean)})"


@dataclasses.dataclass(eq=False, repr=False)
class ConsistencyRecord:
    """All measurements of a training run.

    Attributes:
        threshold: Activations up to this size are silent.
        epochs: Completed epochs at each measurement; the first is before
            training.
        layers: The layers by their paths.
    """

    threshold: float
    epochs: list[int] = dataclasses.field(default_factory=list)
    layers: dict[str, LayerRecord] = dataclasses.field(default_factory=dict)

    def add(self, epoch: int, consistency: Consistency) -> None:
        """Adds a measurement after `epoch` epochs."""
        self.epochs.append(epoch)
        for layer in consistency.layers:
            if layer.path not in self.layers:
                self.layers[layer.path] = LayerRecord(layer.path)
            self.layers[layer.path].add(layer)

    def __repr__(self) -> str:
        """Returns the epochs and the paths."""
        return (
            f"ConsistencyRecord(epochs={self.epochs}, "
            f"layers={list(self.layers)})"
        )


def _evenly_spaced(size: int, most: int) -> npt.NDArray[np.int64]:
    """Returns at most `most` evenly spaced places of `size`."""
    count = min(size, most)
    places = np.linspace(0, size - 1, count).round()
    return np.asarray(places, np.int64)
