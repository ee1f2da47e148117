# SPDX-License-Identifier: Apache-2.0
"""What a method is to the benchmark."""

from collections.abc import Callable
from collections.abc import Sequence
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
        fit: Sees the training parts of some splits, with a seed for each, and
            of the set only what is no data: its name, widths and grid. What
            it makes of a part does not depend on the others.
        usual: Returns the settings of the paper for a set.
        at_once: How many splits are best fitted together.
    """

    fit: Callable[
        [Sequence[Part], UciSet, Settings, Sequence[np.random.SeedSequence]],
        Sequence[Fitted],
    ]
    usual: Callable[[UciSet], dict[str, Any]]
    at_once: int = 1
