# SPDX-License-Identifier: Apache-2.0
"""How much the units of a dropout network differ between masks.

In the notation of the reference (Baldi and Sadowski, 2014), for a unit `O`

    E      mean over masks
    V      variance over masks, the dropout variance
    W      value in the deterministic network
    NWGM   normalised geometric mean over masks
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop.errors import BayesdropError

_ABSENT = "-"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LayerConsistency:
    """The units of one layer.

    Attributes:
        path: Names from the model down to the layer. If the model calls the
            layer again, `:2` and so on stand behind it.
        layer: Class name of the layer.
        threshold: A unit is silent for an input if `|E|` is not above this.
        num_samples: Number `T` of masks.
        mean: Array `[rows, units]`, `E`. The units of a convolution are
            `[height, width, channels]`.
        variance: Array `[rows, units]`, `V`, with `T - 1` in the denominator.
        deterministic: Array `[rows, units]`, `W`.
        nwgm: Array `[rows, units]` for logistic and softmax units, of the
            same masks (noise of the layer's own weights is at its mean);
            `None` for others, which have none.
    """

    path: str
    layer: str
    threshold: float
    num_samples: int
    mean: Array
    variance: Array
    deterministic: Array
    nwgm: Array | None

    @property
    def deterministic_error(self) -> Array:
        """`E - W`: what the deterministic network misses."""
        return self.mean - self.deterministic

    @property
    def nwgm_error(self) -> Array | None:
        """`E - NWGM`, or `None` if there is no NWGM."""
        return None if self.nwgm is None else self.mean - self.nwgm

    @property
    def mc_error(self) -> Array:
        """Standard error `sqrt(V / T)` of `E`: smaller differences are none."""
        error: Array = np.sqrt(self.variance / self.num_samples)
        return error

    @property
    def silent(self) -> npt.NDArray[np.bool_]:
        """Array `[rows, units]`: whether a unit is silent for an input."""
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
    """The units of a model over masks. Prints itself.

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

    def _blocks(self) -> list[str | Table]:
        """Returns the title, and means over inputs and units as a table."""
        title = (
            f"Model `{self.model}`, {self.num_samples} masks, "
            f"{self.num_rows} inputs"
        )
        header = ["layer", "class", "units", "E", "V", "|E - W|", "|E - NWGM|"]
        header += ["silent", "active", "sparsity"]
        rows = [(each.path, each.layer, *_cells(each)) for each in self.layers]
        return [title, Table(header, rows)]


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
