# SPDX-License-Identifier: Apache-2.0
"""A prediction that is ready to run, for one call or for many.

    models --read, checked--> starters --planned--> jobs --started--> runs

All of it is kept until a model changes. Inputs like earlier ones, which were
one batch, go straight to a run like the earlier one.
"""

import dataclasses
import operator
import time
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.distribute.replicas import replicas_of
from keras_bayesdrop.prediction.distribute.workers import agree
from keras_bayesdrop.prediction.driver import drive
from keras_bayesdrop.prediction.driver import repeat
from keras_bayesdrop.prediction.ensemble import start_ensemble
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.input_data import count_rows
from keras_bayesdrop.prediction.labels import Labels
from keras_bayesdrop.prediction.likeness import is_batch
from keras_bayesdrop.prediction.likeness import likeness
from keras_bayesdrop.prediction.likeness import tensors_of
from keras_bayesdrop.prediction.methods import Run
from keras_bayesdrop.prediction.model_checks import members_of
from keras_bayesdrop.prediction.progress import Progress
from keras_bayesdrop.prediction.request import Arguments
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.request import can_keep_samples
from keras_bayesdrop.prediction.start import Reader
from keras_bayesdrop.prediction.start import Starter

# Runs that are kept for inputs like those of the run.
_MOST_RUNS = 32


@dataclasses.dataclass(frozen=True)
class _Known:
    """A run for inputs like earlier ones.

    Attributes:
        run: A run that has predicted nothing.
        num_rows: How many rows such inputs have.
    """

    run: Run
    num_rows: int


@dataclasses.dataclass(frozen=True)
class _State:
    """Models as they were when they were read.

    Attributes:
        starters: Of each.
        known: Runs, by the likeness of inputs.
    """

    starters: Sequence[Starter]
    known: dict[Any, _Known] = dataclasses.field(default_factory=dict)


class Prepared:
    """A prediction that is ready to run. Threads may share it.

    Args:
        model: A built Keras model, or a list of them.
        arguments: The arguments of the prediction.
    """

    def __init__(self, model: Any, arguments: Arguments) -> None:
        self.arguments = arguments
        self._several, models = members_of(model)
        self._readers = [
            Reader(
                each,
                arguments.layers,
                arguments.allow_hidden_noise,
                may_lack_noise=self._several,
            )
            for each in models
        ]
        self._state: _State | None = None
        self._current()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what can be computed again."""
        return {**vars(self), "_state": None}

    def _current(self) -> _State:
        """Returns the models as they are now, read again if they changed."""
        state = self._state
        starters = [reader.current() for reader in self._readers]
        if state is None or any(map(operator.is_not, starters, state.starters)):
            self._state = state = _State(starters)
        return state

    def repeat(
        self, x: Any, began: float, seed: int | None, first_row: int | None
    ) -> Any:
        """Predicts inputs like earlier ones, without a second look at them.

        Args:
            x: Whatever `model.predict` takes.
            began: Time of the call, by `time.perf_counter`.
            seed: In place of that of the arguments.
            first_row: In place of that of the arguments.

        Returns:
            `None` if there were no such inputs.
        """
        state = self._current()
        known = state.known.get(likeness(x)) if state.known else None
        if known is None or replicas_of(state.starters[0].model) is not None:
            return None
        request = self.arguments.request(seed, first_row)
        inputs = tensors_of(x)
        return repeat(known.run.again(request), inputs, known.num_rows, began)

    def predict(
        self,
        x: Any,
        began: float | None = None,
        *,
        seed: int | None = None,
        first_row: int | None = None,
        verbose: str | int = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        labels: Labels | None = None,
        samples_of_numbers: bool = False,
        remember: bool = False,
    ) -> Any:
        """Predicts all rows of `x`.

        Args:
            x: Whatever `model.predict` takes.
            began: Time of the call, by `time.perf_counter`. Now by default.
            seed: In place of that of the arguments.
            first_row: In place of that of the arguments.
            verbose: As in `predict_with_uncertainty`.
            steps: As there.
            callbacks: As there.
            labels: Takes the labels of the rows.
            samples_of_numbers: Whether to keep the samples of outputs that
                are numbers, if the method can.
            remember: Whether inputs like these will come again.
        """
        began = time.perf_counter() if began is None else began
        request = self.arguments.request(seed, first_row)
        method, head = self.arguments.chosen_method, self.arguments.head
        if steps is not None:
            check_positive_int(steps, "steps")
        state = self._current()
        starters = state.starters
        model = starters[0].model
        passed = self.arguments.seed if seed is None else seed
        others = {
            "seed": passed,
            "steps": steps,
            "method": method,
            "head": head,
        }
        request = _with_replicas(request, model, x, others)
        runs: list[Run] = []
        batches: list[Batch] = []

        def start(example: Any) -> Run:
            job = starters[0].job(head, request, example)
            if samples_of_numbers and can_keep_samples(method):
                numbers = any(
                    each.observation == "number" for each in job.heads
                )
                wanted = dataclasses.replace(request, return_samples=numbers)
                job = dataclasses.replace(job, request=wanted)
            if self._several:
                run = start_ensemble(starters, method, head, job, example)
            else:
                run = starters[0].start(method, job)
            runs.append(run)
            return run

        result = drive(
            model,
            x,
            start,
            Progress(model, callbacks, verbose),
            began,
            batch_size=request.batch_size,
            steps=steps,
            labels=labels,
            watch=batches.append if remember else None,
        )
        if remember and len(batches) == 1:
            _remember(state, x, runs[0], batches[0], request)
        return result


def _remember(
    state: _State, x: Any, run: Run, batch: Batch, request: Request
) -> None:
    """Keeps a run for inputs like those it has predicted, if that is right.

    Args:
        state: The models.
        x: The inputs.
        run: The run, which is over.
        batch: All rows of the inputs.
        request: What was asked for.
    """
    key = likeness(x)
    writes = request.samples_path is not None
    alone = request.replicas is None
    if key is None or writes or not alone or not run.rows_checked:
        return
    if count_rows(x) != batch.num_rows or not is_batch(x, batch):
        return
    if len(state.known) >= _MOST_RUNS:
        state.known.clear()
    state.known[key] = _Known(run.again(request), batch.num_rows)


def _with_replicas(
    request: Request, model: Any, x: Any, arguments: dict[str, Any]
) -> Request:
    """Returns the request with the replicas, after all workers agree on it.

    Args:
        request: The request of this process.
        model: The model.
        x: The inputs.
        arguments: Other arguments that all workers have to agree on.
    """
    request = dataclasses.replace(request, replicas=replicas_of(model))
    if request.workers is None:
        return request
    if request.samples_path is not None:
        raise BayesdropError(
            "Workers of a strategy cannot write samples to one file. Expected "
            "return_samples=True or False with several workers. Received: "
            f"return_samples={str(request.samples_path)!r}, "
            f"{request.workers.num_workers} workers"
        )
    fields = {
        field.name: getattr(request, field.name)
        for field in dataclasses.fields(request)
        if field.name != "replicas"
    }
    asked = {
        name: repr(value)
        for name, value in {
            **fields,
            "rows": count_rows(x),
            **arguments,
        }.items()
    }
    seed = agree(request.workers, asked, request.seed)
    return dataclasses.replace(request, seed=seed)
