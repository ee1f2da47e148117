# SPDX-License-Identifier: Apache-2.0
"""What looks at a network in training have seen of its units."""

import dataclasses

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop.theory.consistency import Consistency
from keras_bayesdrop.theory.consistency import LayerConsistency

# Activations of a layer that are kept of each look, so that 100 looks at five
# layers take 16 MB.
_FOLLOWED = 2048


@dataclasses.dataclass(eq=False, repr=False)
class LayerRecord:
    """One layer. Each list has an entry for each look.

    Attributes:
        path: Path of the layer.
        dropout_variance: Means of `V` over inputs and units.
        ensemble_gap: Means of `|E - W|`.
        silent_fraction: Shares of units that are silent for every input.
        active_fraction: Shares of units that are silent for no input.
        sparsity: Shares of silent activations.
        followed: Array `[followed]`, places in `[rows * units]` of the
            activations that are kept. They are the same in all looks.
        mean: Arrays `[followed]`, `E` of these.
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
        """Takes a look."""
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
        """Returns the path and the number of looks."""
        return f"LayerRecord(path={self.path!r}, looks={len(self.mean)})"


@dataclasses.dataclass(eq=False, repr=False)
class ConsistencyRecord:
    """All looks of a training.

    Attributes:
        threshold: Activations up to this size are silent.
        epochs: Epochs that were done at each look; the first is before
            training.
        layers: The layers by their paths.
    """

    threshold: float
    epochs: list[int] = dataclasses.field(default_factory=list)
    layers: dict[str, LayerRecord] = dataclasses.field(default_factory=dict)

    def add(self, epoch: int, found: Consistency) -> None:
        """Takes a look after `epoch` epochs."""
        self.epochs.append(epoch)
        for layer in found.layers:
            if layer.path not in self.layers:
                self.layers[layer.path] = LayerRecord(layer.path)
            self.layers[layer.path].add(layer)

    def __repr__(self) -> str:
        """Returns the looks and the paths."""
        return (
            f"ConsistencyRecord(epochs={self.epochs}, "
            f"layers={list(self.layers)})"
        )


def _evenly_spaced(size: int, most: int) -> npt.NDArray[np.int64]:
    """Returns at most so many places, from the first to the last."""
    count = min(size, most)
    places = np.linspace(0, size - 1, count).round()
    return np.asarray(places, np.int64)
