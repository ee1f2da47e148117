# SPDX-License-Identifier: Apache-2.0
"""The CO2 record of Mauna Loa, and the scale on which a network sees it."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
from _quiet import silent_stderr

with silent_stderr():
    from statsmodels.datasets import co2

Array = npt.NDArray[np.float64]
# Annual means in ppm. The network never sees them.
MEASURED_LATER = {
    2002: 373.45,
    2003: 375.98,
    2004: 377.70,
    2005: 379.98,
    2006: 382.09,
    2007: 384.02,
    2008: 385.83,
    2009: 387.64,
    2010: 390.10,
    2011: 391.85,
    2012: 394.06,
    2013: 396.74,
    2014: 398.81,
    2015: 401.01,
    2016: 404.41,
    2017: 406.76,
    2018: 408.72,
    2019: 411.65,
    2020: 414.21,
    2021: 416.41,
    2022: 418.53,
    2023: 421.08,
    2024: 424.61,
}


@dataclasses.dataclass(frozen=True)
class Record:
    """Monthly means, and the scale on which the network sees them."""

    years: Array  # [months], middle of the month
    ppm: Array  # [months]

    @property
    def end(self) -> float:
        """Year in which the record ends."""
        return float(self.years[-1])

    @property
    def scale(self) -> float:
        """Deviation of the record in ppm: 1 for the network."""
        return float(self.ppm.std())

    def features(self, years: Array) -> Array:
        """Returns time and season, [years, 3]. The record spans [-2, 2]."""
        middle = (self.years[0] + self.years[-1]) / 2
        half = (self.years[-1] - self.years[0]) / 2
        angle = 2 * np.pi * years
        return np.stack(
            [
                2 * (years - middle) / half,
                np.sin(angle) / 2,
                np.cos(angle) / 2,
            ],
            axis=1,
        )

    def targets(self) -> Array:
        """Returns the record, centred and scaled, [months, 1]."""
        scaled: Array = (self.ppm - self.ppm.mean()) / self.scale
        return scaled[:, np.newaxis]

    def to_ppm(self, values: Any) -> Array:
        """Returns predictions [..., years, 1] in ppm, [..., years]."""
        values = np.asarray(values, np.float64)[..., 0]
        ppm: Array = values * self.scale + self.ppm.mean()
        return ppm


def load_record() -> Record:
    """Returns the monthly means, without the months that are missing."""
    weekly = co2.load_pandas().data["co2"]
    monthly = weekly.resample("MS").mean().dropna()
    years = monthly.index.year + (monthly.index.month - 0.5) / 12
    return Record(np.asarray(years, float), monthly.to_numpy(float))
