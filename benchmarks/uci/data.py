# SPDX-License-Identifier: Apache-2.0
"""The UCI regression sets, with the splits that published results use.

`<folder>/<name>.npz` holds `x` [rows, features], `y` [rows], `n_splits`, for
each split `train_<k>` and `test_<k>` (row numbers), and the published grid:
`dropout_rates`, `tau_values`, `n_hidden` and `n_epochs`.
"""

import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# Short names for the command line, in order of cost.
FILES = {
    "yacht": "yacht",
    "boston": "bostonHousing",
    "energy": "energy",
    "concrete": "concrete",
    "wine": "wine-quality-red",
    "kin8nm": "kin8nm",
    "power": "power-plant",
    "naval": "naval-propulsion-plant",
    "protein": "protein-tertiary-structure",
}


class DataMissing(Exception):
    """The data are not where they were looked for."""


@dataclass(frozen=True)
class Part:
    """Some rows of a set, in their own units.

    Attributes:
        x: [rows, features].
        y: [rows].
    """

    x: Array
    y: Array

    def cut(self, rows: int) -> tuple["Part", "Part"]:
        """Returns the first `rows` rows, and the others."""
        first = Part(self.x[:rows], self.y[:rows])
        return first, Part(self.x[rows:], self.y[rows:])


@dataclass(frozen=True)
class Scaling:
    """Takes the mean off and divides by the standard deviation.

    Attributes:
        x_mean: [features].
        x_std: [features]; one where a feature is constant.
        y_mean: Float.
        y_std: Float.
    """

    x_mean: Array
    x_std: Array
    y_mean: float
    y_std: float

    @classmethod
    def of(cls, part: Part) -> "Scaling":
        """Returns that of a part, with `rows` in the denominator."""
        x_std = part.x.std(0)
        x_std[x_std == 0] = 1
        return cls(
            part.x.mean(0), x_std, float(part.y.mean()), float(part.y.std())
        )

    def scaled_x(self, x: Array) -> Array:
        """Returns inputs as the network sees them, float32."""
        return ((x - self.x_mean) / self.x_std).astype(np.float32)

    def scaled_y(self, y: Array) -> Array:
        """Returns targets as the loss sees them, float32 [rows, 1]."""
        return ((y - self.y_mean) / self.y_std).astype(np.float32)[:, None]


@dataclass(frozen=True)
class UciSet:
    """One data set.

    Attributes:
        name: Short name.
        arrays: What the file holds, by key.
    """

    name: str
    arrays: dict[str, Array]

    @property
    def num_splits(self) -> int:
        """Number of published splits."""
        return int(self.arrays["n_splits"])

    @property
    def features(self) -> int:
        """Number of inputs."""
        return int(self.arrays["x"].shape[1])

    @property
    def units(self) -> int:
        """Width of a hidden layer in the published networks."""
        return int(self.arrays["n_hidden"])

    @property
    def epochs(self) -> int:
        """The published number of epochs, before any factor."""
        return int(self.arrays["n_epochs"])

    @property
    def rates(self) -> tuple[float, ...]:
        """Dropout rates of the published grid."""
        return tuple(float(rate) for rate in self.arrays["dropout_rates"])

    @property
    def precisions(self) -> tuple[float, ...]:
        """Noise precisions of the published grid, in units of `y`."""
        return tuple(float(tau) for tau in self.arrays["tau_values"])

    def split(self, number: int) -> tuple[Part, Part]:
        """Returns the training and the test part of a split."""
        return self._rows(f"train_{number}"), self._rows(f"test_{number}")

    def _rows(self, key: str) -> Part:
        rows = self.arrays[key]
        return Part(self.arrays["x"][rows], self.arrays["y"][rows])


def load(folder: pathlib.Path, name: str) -> UciSet:
    """Reads a set.

    Args:
        folder: Where the files are.
        name: Short name, a key of `FILES`.

    Raises:
        DataMissing: If folder or file are not there.
    """
    path = folder / f"{FILES[name]}.npz"
    if not folder.is_dir():
        raise DataMissing(
            "Cannot find the data. Expected a folder with "
            f"`{path.name}` and the like, named by `--data`. "
            f"Received: {folder}, which is not a folder"
        )
    if not path.is_file():
        there = ", ".join(sorted(file.name for file in folder.glob("*.npz")))
        raise DataMissing(
            f"Cannot find the set `{name}`. Expected `{path.name}` in "
            f"`--data`. Received: {folder}, with {there or 'no .npz file'}"
        )
    with np.load(path, allow_pickle=False) as file:
        return UciSet(name, {key: file[key] for key in file.files})
