# SPDX-License-Identifier: Apache-2.0
"""The plan of a prediction as a table: what runs where, and why."""

import dataclasses
import sys

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import ENGINES
from keras_bayesdrop._core.table import format_table
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.engines import assign_steps
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.plan import build_plan


@dataclasses.dataclass(frozen=True)
class StepReport:
    """A step of the plan, for people to read.

    Attributes:
        path: Names from the model down to the layer.
        layer: Class name of the layer.
        runs: `"once"` per row, or `"per sample"`.
        noise: The noise it adds, in words, or an empty string.
        engine: Name of the engine.
        reason: Why it runs there.
    """

    path: str
    layer: str
    runs: str
    noise: str
    engine: str
    reason: str


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain` found.

    Attributes:
        model: Name of the model.
        steps: The steps in the order in which they run.
    """

    model: str
    steps: tuple[StepReport, ...]

    def __str__(self) -> str:
        """Returns the plan as text."""
        header = ("step", "layer", "runs", "noise", "engine", "why")
        rows = [dataclasses.astuple(step) for step in self.steps]
        return f"Model `{self.model}`\n\n{format_table(header, rows)}"

    def __repr__(self) -> str:
        """Returns the counts."""
        once = sum(step.runs == "once" for step in self.steps)
        return (
            f"Explanation(model={self.model!r}, once={once}, "
            f"per_sample={len(self.steps) - once})"
        )


def explain(
    model: keras.Model,
    layers: LayerSelection = None,
    engine: str = "auto",
    verbose: bool = True,
) -> Explanation:
    """Shows how `predict_with_uncertainty` would run a model.

    Args:
        model: A built Keras model.
        layers: Which noise sites are active, as in prediction.
        engine: `"auto"`, `"fused"` or `"reference"`.
        verbose: Whether to print the table as well.

    Returns:
        The plan; `str` of it is the table.

    Example:
    ```python
    keras_bayesdrop.explain(model)
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    check_choice(engine, "engine", ENGINES)
    model, layers = source_of(model, layers)
    plan = build_plan(model, layers)
    chosen, reason = choose_engine(plan, engine)
    explanation = Explanation(
        model.name,
        tuple(
            StepReport(
                each.step.path or model.name,
                each.step.kind,
                "once" if number < len(plan.prefix) else "per sample",
                _noise(each.step, plan),
                each.engine,
                each.reason,
            )
            for number, each in enumerate(assign_steps(plan, chosen, reason))
        ),
    )
    if verbose:
        sys.stdout.write(f"{explanation}\n")
    return explanation


def _noise(step: Step, plan: Plan) -> str:
    if isinstance(step, NoiseStep):
        off = "" if step.active else " (off)"
        return step.noise.describe() + off
    inside = [
        site.path
        for site in plan.sites
        if site.path in plan.chosen
        and (not step.path or site.path.startswith(f"{step.path}/"))
    ]
    return f"inside: {len(inside)} site(s)" if step.active else ""
