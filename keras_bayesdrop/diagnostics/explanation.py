# SPDX-License-Identifier: Apache-2.0
"""The report of `explain`: the plan of a prediction, step by step."""

import dataclasses
import operator

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import ENGINES
from keras_bayesdrop._core.choice import MASKS
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.engines import assign_steps
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction.detection import AUTO
from keras_bayesdrop.prediction.detection import resolve_heads
from keras_bayesdrop.prediction.sampling.output_files import by_name
from keras_bayesdrop.predictive import ChainWork


@dataclasses.dataclass(frozen=True)
class StepReport:
    """A step of the plan in the report.

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


@dataclasses.dataclass(frozen=True)
class HeadReport:
    """The head of an output in the report.

    Attributes:
        output: Name of the output.
        head: The head; empty if only the caller can name it.
        reason: Why it is read so.
    """

    output: str
    head: str
    reason: str


@dataclasses.dataclass(frozen=True)
class ChainReport:
    """How the compiled op would run a dense chain.

    Attributes:
        masks: `"shared"` or `"independent"`.
        work: The strategy and the multiply-adds, as in `Stats.chains`.
    """

    masks: str
    work: ChainWork


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation(Report):
    """The plan of a prediction. Prints itself.

    Attributes:
        model: Name of the model.
        steps: The steps in the order in which they run.
        heads: How each output is read with `head="auto"`.
        chains: How each dense chain would run, with either kind of masks.
    """

    model: str
    steps: tuple[StepReport, ...]
    heads: tuple[HeadReport, ...] = ()
    chains: tuple[ChainReport, ...] = ()

    def _blocks(self) -> list[str | Table]:
        header = ("step", "layer", "runs", "noise", "engine", "why")
        rows = [dataclasses.astuple(step) for step in self.steps]
        heads = [
            f"Output `{each.output}` {_verb(each.head)}: {each.reason}"
            for each in self.heads
        ]
        chains = [_describe(each) for each in self.chains]
        return [f"Model `{self.model}`", Table(header, rows), *heads, *chains]


@refuse_old_keywords({"verbose": "`print(explain(model))` to print the report"})
def explain(
    model: keras.Model,
    layers: LayerSelection = None,
    engine: str = "auto",
    num_rows: int = 256,
    num_samples: int = 50,
) -> Explanation:
    """Explains how `predict_with_uncertainty` would run a model.

    For each step the report says whether it runs once per row or once per
    sample, in which engine, and why. For each output it says which head
    `head="auto"` stands for, and why. For each chain of Dense layers in the
    compiled op it says how so many rows and samples at once would run, and
    which share of the multiply-adds that leaves.

    Args:
        model: A built Keras model.
        layers: The noise sites that are active, as in prediction.
        engine: `"auto"`, `"fused"` or `"reference"`.
        num_rows: Rows that run at once.
        num_samples: Samples of each.

    Returns:
        The plan, which prints itself.

    Example:
    ```python
    plan = keras_bayesdrop.explain(model)
    print(plan)
    assert plan.steps[-1].runs == "per sample"
    plan.heads[0].reason  # "linear of `dense_1`, compiled with mse"
    [(chain.masks, chain.work.strategy) for chain in plan.chains]
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    check_choice(engine, "engine", ENGINES)
    check_positive_int(num_rows, "num_rows")
    check_positive_int(num_samples, "num_samples")
    model, layers = source_of(model, layers)
    plan = build_plan(model, layers)
    chosen, reason = choose_engine(plan, engine)
    return Explanation(
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
        _heads(model, plan),
        tuple(
            ChainReport(masks, work)
            for masks in MASKS
            for work in chosen.chain_work(
                plan, {(num_rows, num_samples): 1}, masks == "shared"
            )
        ),
    )


def _describe(chain: ChainReport) -> str:
    """Says in a sentence how a chain would run."""
    work = chain.work
    way = {
        "cut": "each sample runs as a smaller network",
        "masked": "rows are masked, in tiles",
        "columns": "rows are masked, all in one step after another",
    }[work.strategy]
    if work.subtracts:
        way += ", and the first step subtracts"
    share = work.multiply_adds / work.whole_multiply_adds
    return (
        f"Chain from `{work.name}`, {chain.masks} masks: {way} "
        f"({work.strategy}; {share:.0%} of the multiply-adds)"
    )


def _verb(head: str) -> str:
    return f"is read as {head}" if head else "cannot be read"


def _heads(model: keras.Model, plan: Plan) -> tuple[HeadReport, ...]:
    """Reports how each output is read."""
    count, pack = len(plan.outputs), plan.pack
    if not count:
        # A model with its own `call`: its outputs show when it is called.
        if isinstance(getattr(model, "loss", None), (dict, list, tuple)):
            return ()
        count, pack = 1, operator.itemgetter(0)
    decisions = resolve_heads(model, count, AUTO, pack)
    return tuple(
        HeadReport(
            name,
            "" if decision.head is None else repr(decision.head),
            decision.problem or decision.reason,
        )
        for name, decision in by_name(model, pack(decisions)).items()
    )


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
