# SPDX-License-Identifier: Apache-2.0
"""The choice of engine, with its reason. Nothing else chooses."""

import dataclasses

import tensorflow as tf

from keras_bayesdrop import _library
from keras_bayesdrop._validate import check_choice
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.engines.fused import Fused
from keras_bayesdrop.engines.reference import Reference
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step

ENGINES = ("auto", "reference", "fused")


def choose_engine(plan: Plan, prefer: str = "auto") -> tuple[Engine, str]:
    """Returns the engine for `plan`, and why it was chosen.

    Args:
        plan: The plan to run.
        prefer: One of `"auto"`, `"reference"` and `"fused"`.

    Returns:
        The engine and a reason for people to read.
    """
    check_choice(prefer, "engine", ENGINES)
    if prefer == "reference":
        return Reference(), "asked for"
    why_not = _why_not_fused(plan, prefer)
    if why_not and prefer == "fused":
        raise EngineUnavailableError(
            f"The fused engine cannot run: {why_not}. Expected "
            "engine='auto' or engine='reference'. Received: engine='fused'"
        )
    if why_not:
        return Reference(), why_not
    return Fused(_library.library().ops), "dense chain"


def why_no_fused_engine(prefer: str = "auto") -> str:
    """Returns why this machine runs no model in the fused engine, or `""`."""
    problem = _library.library().problem
    if problem:
        return problem
    if prefer == "auto" and tf.config.list_physical_devices("GPU"):
        return "TensorFlow has a GPU, and the op library no kernel for it"
    return ""


def _why_not_fused(plan: Plan, prefer: str) -> str:
    if all(plan.fusion.why_not):
        reasons = [
            f"`{step.path or step.kind}`: {why}"
            for step, why in zip(plan.suffix, plan.fusion.why_not, strict=True)
        ]
        return "no dense chain in the model" + (
            f" ({reasons[0]})" if reasons else ""
        )
    return why_no_fused_engine(prefer)


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A step of a plan, the engine that runs it, and why."""

    step: Step
    engine: str
    reason: str


def assign_steps(plan: Plan, engine: Engine, reason: str) -> list[Assignment]:
    """Says which engine runs each step of a plan.

    Args:
        plan: The plan.
        engine: What `choose_engine` returned,
        reason: and why.

    Returns:
        The steps in the order in which they run.
    """
    once = "no noise reaches it"
    made = [Assignment(step, Reference.name, once) for step in plan.prefix]
    for step, why_not in zip(plan.suffix, plan.fusion.why_not, strict=True):
        if engine.name == Fused.name and why_not:
            made.append(Assignment(step, Reference.name, why_not))
        else:
            made.append(Assignment(step, engine.name, reason))
    return made
