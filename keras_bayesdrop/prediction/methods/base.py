# SPDX-License-Identifier: Apache-2.0
"""The contract of all methods: a choice that starts a run.

    Method  --start(job)-->  Run  --add(batch), ...-->  result

A `Method` holds what a user chose. A `Run` predicts batches of rows. The code
that hands out batches knows this contract and nothing else of a method.
"""

import abc
import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

from keras_bayesdrop._core.choice import Choice
from keras_bayesdrop._core.choice import snake_case

if TYPE_CHECKING:
    from keras_bayesdrop.graph.survey import Survey
    from keras_bayesdrop.plan import Plan
    from keras_bayesdrop.prediction.input_data import Batch
    from keras_bayesdrop.prediction.reading import Readings
    from keras_bayesdrop.prediction.request import Request
    from keras_bayesdrop.predictive.heads import Head


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything that a run needs to know.

    Attributes:
        model: The Keras model.
        surveyed: The survey of it.
        plan: The plan for its active noise.
        readings: How each result is read off the outputs of the model.
        request: The rest of what the user asked for.
    """

    model: Any
    surveyed: "Survey"
    plan: "Plan"
    readings: "Readings"
    request: "Request"

    @property
    def heads(self) -> "Sequence[Head]":
        """The head of each result."""
        return self.readings.heads


@dataclasses.dataclass(frozen=True)
class Totals:
    """Counts over a whole prediction.

    Attributes:
        num_rows: Rows that were predicted.
        largest_batch: Rows of the largest batch.
        seconds: Time since the call.
    """

    num_rows: int
    largest_batch: int
    seconds: float


class Run(abc.ABC):
    """A prediction under way.

    Attributes:
        plan: The plan that it runs.
        readings: The results that it makes.
        num_replicas: Devices that share a batch.
        rows_checked: Whether other rows need no check of their own.
    """

    plan: "Plan"
    readings: "Readings"
    num_replicas: int = 1
    rows_checked: bool = False

    @abc.abstractmethod
    def check_rows(self, inputs: Any) -> bool:
        """Checks that rows do not influence each other, once per program.

        Args:
            inputs: Structure of arrays or tensors, rows of `x`.

        Returns:
            Whether other rows need no such check.
        """

    @abc.abstractmethod
    def again(self, request: "Request") -> "Run":
        """Returns a run like this one, which has predicted nothing.

        What was checked and chosen stays.

        Args:
            request: The same but for the seed and the first row.
        """

    def reserve(self, num_rows: int) -> None:
        """Makes room for so many rows, or raises before anything is drawn."""

    def open(self, files: contextlib.ExitStack) -> None:
        """Opens the files that the run writes; `files` closes them."""

    @abc.abstractmethod
    def steps(self, num_rows: int) -> int:
        """Returns how many steps a batch takes; 0 if that is not known."""

    @abc.abstractmethod
    def add(self, batch: "Batch", step: Callable[[], None]) -> list[Any]:
        """Predicts a batch of rows.

        Args:
            batch: The rows, checked.
            step: Is called after each step.

        Returns:
            The mean of each result, arrays [rows, ...].
        """

    def check_values(self, means: "Sequence[Any]") -> None:
        """Holds the means of the first batch against the heads."""
        self.readings.check_values(means)

    def close(self, num_rows: int) -> None:
        """Ends what is written, while its files are open."""

    @abc.abstractmethod
    def result(self, totals: Totals) -> Any:
        """Returns a `Predictive`, or a structure of them.

        It holds the rows since the last result.
        """


class Method(Choice, abc.ABC):
    """A way to predict, with the choices that it leaves to the user.

    Attributes:
        has_samples: Whether samples of the outputs exist, so that they can be
            kept, and quantiles be taken of them.
    """

    has_samples: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name that stands for the method with all defaults."""
        return snake_case(type(self))

    @abc.abstractmethod
    def start(self, job: Job) -> Run:
        """Starts a prediction."""
