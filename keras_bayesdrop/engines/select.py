# SPDX-License-Identifier: Apache-2.0
"""The choice of engine, with its reason. Nothing else chooses."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop._core.choice import ENGINES
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.engines.fused import Fused
from keras_bayesdrop.engines.noise_op import NoiseOp
from keras_bayesdrop.engines.reference import Reference
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.plan import drops_channels


def choose_engine(
    plan: Plan, prefer: str = "auto", shared: bool = True
) -> tuple[Engine, str]:
    """Returns the engine for `plan`, and why it was chosen.

    Args:
        plan: The plan to run.
        prefer: One of `"auto"`, `"reference"` and `"fused"`.
        shared: Whether one mask serves all rows of a sample.

    Returns:
        The engine and a reason for people to read.
    """
    check_choice(prefer, "engine", ENGINES)
    if prefer == "reference":
        return Reference(), "asked for"
    if plan.one_at_a_time:
        why_not = f"samples run one at a time: {plan.one_at_a_time}"
        if prefer == "fused":
            raise _unavailable(why_not)
        return Reference(), why_not
    # Cutting was measured on CPUs alone.
    cuts = shared and not _has_gpu()
    noise_op = _noise_op() if _has_common_noise(plan) else None
    why_not = _why_no_chain(plan.suffix, plan.fusion.why_not)
    problem = "" if why_not else why_no_fused_engine(prefer)
    why_not = why_not or problem
    if not why_not:
        ops = op_library.library().ops
        on_cpu = not _on_gpu()
        fused = Fused(ops, _dtypes(), on_cpu, cuts, noise_op=noise_op)
        why_not = _why_no_chain(plan.suffix, fused.why_not_fused(plan))
        if not why_not:
            return fused, "dense chain"
    if cuts and not (problem and prefer == "fused"):
        cutting = Fused(None, (), problem=why_not, noise_op=noise_op)
        if _cuts(cutting, plan):
            return cutting, "cut convolutions"
        why_not = _with_reason_not_to_cut(why_not, plan, cutting)
    if noise_op is not None and any(
        noise_op.has_kernel(site.noise, site.layer.compute_dtype)
        for site in plan.sites
        if site.path in plan.chosen
    ):
        noise = Fused(None, (), cuts=False, problem=why_not, noise_op=noise_op)
        return noise, COMPILED_NOISE
    if prefer == "fused":
        raise _unavailable(why_not)
    return Reference(), why_not


def choose_portable_engine(plan: Plan, prefer: str, shared: bool) -> Engine:
    """Returns the engine for a program that has no compiled ops.

    Args:
        plan: The plan to run.
        prefer: `"auto"` or `"reference"`.
        shared: Whether one mask serves all rows of a sample.
    """
    if prefer == "reference" or not shared or plan.one_at_a_time or _has_gpu():
        return Reference()
    cutting = Fused(None, (), problem="no compiled ops")
    return cutting if _cuts(cutting, plan) else Reference()


def _cuts(engine: Fused, plan: Plan) -> bool:
    """Returns whether an engine leaves channels out of any part of a plan."""
    return any(isinstance(step, CutStep) for step in engine.steps(plan))


def _has_common_noise(plan: Plan) -> bool:
    """Returns whether the noise op has an effect for any active site."""
    return any(
        site.noise.has_op_effect
        for site in plan.sites
        if site.path in plan.chosen
    )


def _noise_op() -> NoiseOp | None:
    """Returns the op that puts noise on tensors, if this machine has one."""
    if _has_gpu() or why_no_fused_engine():
        return None
    return NoiseOp(op_library.library().ops, _dtypes())


def _unavailable(why_not: str) -> EngineUnavailableError:
    return EngineUnavailableError(
        f"The fused engine cannot run: {why_not}. Expected engine='auto' or "
        "engine='reference'. Received: engine='fused'"
    )


def why_no_fused_engine(prefer: str = "auto") -> str:
    """Returns why this machine runs no model in the fused engine, or `""`."""
    library = op_library.library()
    if library.problem:
        return library.problem
    if prefer == "auto" and _has_gpu() and not library.gpu_code:
        return "TensorFlow has a GPU, and the op library no code for it"
    return ""


def _why_no_chain(steps: Sequence[Step], why_not: Sequence[str]) -> str:
    """Returns why no step at all is compiled, or `""` if some are."""
    if not all(why_not):
        return ""
    reasons = [
        f"`{step.path or step.kind}`: {why}"
        for step, why in zip(steps, why_not, strict=True)
    ]
    first = f" ({reasons[0]})" if reasons else ""
    return f"no dense chain in the model{first}"


def _with_reason_not_to_cut(why_not: str, plan: Plan, engine: Fused) -> str:
    """Adds why nothing is cut, if noise drops whole channels at all."""
    spatial = any(
        isinstance(step, NoiseStep)
        and step.active
        and drops_channels(step, plan.specs[step.inputs[0]])
        for step in plan.suffix
    )
    reasons = [
        f"`{step.path or step.kind}`: {why}"
        for step in plan.suffix
        if (why := engine.cuts(plan).why_not.get(id(step), ""))
    ]
    if not spatial or not reasons:
        return why_not
    return f"{why_not}; no convolution is cut ({reasons[0]})"


def _has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _on_gpu() -> bool:
    """Returns whether the kernels that will run are those for GPUs."""
    return _has_gpu() and bool(op_library.library().gpu_code)


def _dtypes() -> tuple[str, ...]:
    """Returns the dtypes of the kernels that will run."""
    if _on_gpu():
        return ("float16", "bfloat16", "float32")
    return ("float32", "float64")


# Stands for an engine where a step runs without dropped channels.
CUT = "cut"
# Stands for an engine where noise alone is compiled.
NOISE = "noise"
COMPILED_NOISE = "noise in one pass"


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
    assignments = [
        Assignment(step, Reference.name, once) for step in plan.prefix
    ]
    reasons = engine.why_not_fused(plan)
    parts = {
        id(member): part
        for part in engine.steps(plan)
        if isinstance(part, CutStep)
        for member in part.steps
    }
    for step, why_not in zip(plan.suffix, reasons, strict=True):
        if id(step) in parts:
            told = parts[id(step)].describe(step)
            assignments.append(Assignment(step, CUT, told))
        elif (
            isinstance(engine, Fused)
            and why_not
            and engine.has_op_for(step, plan)
        ):
            told = f"{COMPILED_NOISE}; {why_not}"
            assignments.append(Assignment(step, NOISE, told))
        elif engine.name == Fused.name and why_not:
            assignments.append(Assignment(step, Reference.name, why_not))
        else:
            assignments.append(Assignment(step, engine.name, reason))
    return assignments
