# SPDX-License-Identifier: Apache-2.0
"""Reads and checks a model before a prediction, and starts a run with it."""

import dataclasses
from typing import Any

import keras

from keras_bayesdrop.graph.seal import Seal
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.graph.survey import Survey
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import complete
from keras_bayesdrop.plan import drawing_sites
from keras_bayesdrop.prediction.methods import Job
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.methods import Run
from keras_bayesdrop.prediction.model_checks import check_noise
from keras_bayesdrop.prediction.model_checks import unwrap
from keras_bayesdrop.prediction.point import PointRun
from keras_bayesdrop.prediction.reading import readings_of
from keras_bayesdrop.prediction.request import Request

# Plans that are kept of a model whose `call` is its own code.
_MOST_PLANS = 32


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Keeps a value, of a number that is bounded."""
    if len(kept) >= _MOST_PLANS:
        kept.clear()
    kept[key] = value


@dataclasses.dataclass(frozen=True)
class Starter:
    """A model that was read and checked, ready to start a run.

    Attributes:
        model: The Keras model itself, no view of it.
        layers: Which of its noise is active.
        surveyed: The survey of it, as far as it goes without an example.
        allow_hidden_noise: Whether noise out of reach is only a warning.
        may_lack_noise: Whether the model may have no noise at all.
        plans: What was planned so far, by the shapes of the example.
        jobs: What was decided of the outputs, with the head asked for.
        seals: The last seal of the model, if there is one.
    """

    model: Any
    layers: LayerSelection
    surveyed: Survey
    allow_hidden_noise: bool
    may_lack_noise: bool
    plans: dict[Any, tuple[Survey, Plan]] = dataclasses.field(
        default_factory=dict
    )
    jobs: dict[Any, tuple[Any, Job]] = dataclasses.field(default_factory=dict)
    seals: list[Seal] = dataclasses.field(default_factory=list)

    def plan(self, example: Any) -> Plan:
        """Plans a prediction, or takes the plan of an earlier one.

        Args:
            example: Rows of `x`, or their specs.
        """
        return self._planned(example)[1]

    def job(self, head: Any, request: Request, example: Any) -> Job:
        """Plans a prediction, and decides about its outputs.

        Args:
            head: What the caller says of the outputs.
            request: The rest of what was asked for.
            example: Rows of `x`, or their specs.
        """
        key = self._key(example)
        asked, job = self.jobs.get(key, (None, None))
        if job is None or asked is not head:
            seen, plan = self._planned(example)
            readings = readings_of(self.model, plan, head, seen.version)
            job = Job(self.model, seen, plan, readings, request)
            _keep(self.jobs, key, (head, job))
        return dataclasses.replace(job, request=request)

    def _planned(self, example: Any) -> tuple[Survey, Plan]:
        key = self._key(example)
        planned = self.plans.get(key)
        if planned is None:
            seen = complete(self.model, example, self.surveyed, self.layers)
            if seen is not self.surveyed:
                self._check(seen)
            plan = build_plan(self.model, self.layers, example, seen)
            planned = seen, plan
            _keep(self.plans, key, planned)
        return planned

    def _key(self, example: Any) -> Any:
        """Returns what a plan depends on of an example."""
        return None if self.surveyed.is_complete else _shapes(example)

    def is_current(self) -> bool:
        """Returns whether the model is still as it was when it was read."""
        if self.seals and self.seals[-1].is_intact():
            return True
        graph = self.surveyed.graph
        operations = () if graph is None else [n.operation for n in graph.nodes]
        seal = Seal(self.model, operations)
        if seal.version != self.surveyed.version:
            return False
        self.seals[:] = [seal]
        return True

    def draws(self, job: Job) -> bool:
        """Returns whether the model has active noise."""
        return bool(drawing_sites(self.layers, job.surveyed))

    def start(self, method: Method, job: Job) -> Run:
        """Starts a run, without noise if there is none and need not be."""
        if self.may_lack_noise and not self.draws(job):
            return PointRun(job)
        return method.start(job)

    def _check(self, surveyed: Survey) -> None:
        check_noise(
            self.model,
            surveyed,
            self.layers,
            self.allow_hidden_noise,
            self.may_lack_noise,
        )


def _shapes(example: Any) -> Any:
    """Returns the structure of an example, with shapes and types."""
    types = [
        (tuple(leaf.shape), str(leaf.dtype))
        for leaf in keras.tree.flatten(example)
    ]
    structure = keras.tree.map_structure(lambda leaf: None, example)
    return repr(structure), tuple(types)


def prepare(
    model: Any,
    layers: LayerSelection,
    allow_hidden_noise: bool,
    may_lack_noise: bool = False,
) -> Starter:
    """Reads and checks a model.

    Args:
        model: A built Keras model, or a stochastic view of one.
        layers: Which of its noise is to be active.
        allow_hidden_noise: Whether noise out of reach is only a warning.
        may_lack_noise: Whether the model may have no noise at all.
    """
    model, layers = unwrap(model, layers)
    surveyed = survey(model)
    if surveyed.is_complete:
        surveyed = complete(model, None, surveyed, layers)
    starter = Starter(
        model, layers, surveyed, allow_hidden_noise, may_lack_noise
    )
    if surveyed.is_complete:
        starter._check(surveyed)
    return starter


class Reader:
    """Reads and checks a model, and again when it has changed.

    Threads may share it.

    Args:
        model: A built Keras model, or a stochastic view of one.
        layers: Which of its noise is to be active.
        allow_hidden_noise: Whether noise out of reach is only a warning.
        may_lack_noise: Whether the model may have no noise at all.
    """

    def __init__(
        self,
        model: Any,
        layers: LayerSelection,
        allow_hidden_noise: bool = False,
        may_lack_noise: bool = False,
    ) -> None:
        self._model = model
        self._layers = layers
        self._choices = (allow_hidden_noise, may_lack_noise)
        self._starter: Starter | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what can be read again."""
        return {**vars(self), "_starter": None}

    def current(self) -> Starter:
        """Returns the model as it is now, ready to start a run."""
        starter = self._starter
        if starter is None or not self._is_current(starter):
            starter = prepare(self._model, self._layers, *self._choices)
            self._starter = starter
        return starter

    def _is_current(self, starter: Starter) -> bool:
        source, layers = source_of(self._model, self._layers)
        same = source is starter.model and layers is starter.layers
        return same and starter.is_current()
