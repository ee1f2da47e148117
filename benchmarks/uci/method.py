# SPDX-License-Identifier: Apache-2.0
"""What a method is to the benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Protocol

import numpy as np

from keras_bayesdrop.predictive import Predictive
from uci.data import Array
from uci.data import Part
from uci.data import UciSet
from uci.settings import Settings


class Fitted(Protocol):
    """A method that has seen the training part of a split."""

    @property
    def chosen(self) -> dict[str, Any]:
        """Hyper-parameters that were chosen, for the record."""

    def predict(self, x: Array) -> Predictive:
        """Predicts for inputs in their own units.

        Returns:
            A prediction with samples and noise precision, in units of `y`.
        """


@dataclass(frozen=True)
class Method:
    """How to fit, and what is usual.

    Attributes:
        fit: Sees the training part of a split, and of the set only what is no
            data: its name, widths and grid.
        usual: Returns the settings of the paper for a set.
    """

    fit: Callable[[Part, UciSet, Settings, np.random.SeedSequence], Fitted]
    usual: Callable[[UciSet], dict[str, Any]]
