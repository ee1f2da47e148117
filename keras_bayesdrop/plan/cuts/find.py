# SPDX-License-Identifier: Apache-2.0
"""Finds the parts of a suffix that can run without dropped channels.

A part is a set of steps whose layers work on some of the channels as they do on
all, and which no path leaves and enters again. Within a part

    forwards    noise makes channels 0, and most layers keep them so
    backwards   what noise drops in the end need not be computed

and a value has the channels that are neither 0 nor dropped later.
"""

import collections
import dataclasses
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise.learned import LearnedBernoulli
from keras_bayesdrop.plan.cuts.channels import Channels
from keras_bayesdrop.plan.cuts.channels import Joined
from keras_bayesdrop.plan.cuts.channels import Kept
from keras_bayesdrop.plan.cuts.channels import Whole
from keras_bayesdrop.plan.cuts.channels import both
from keras_bayesdrop.plan.cuts.channels import either
from keras_bayesdrop.plan.cuts.channels import part
from keras_bayesdrop.plan.cuts.channels import simplified
from keras_bayesdrop.plan.cuts.channels import tiled
from keras_bayesdrop.plan.cuts.cut_step import MOST_ROWS
from keras_bayesdrop.plan.cuts.cut_step import MULTIPLE
from keras_bayesdrop.plan.cuts.cut_step import CutStep
from keras_bayesdrop.plan.cuts.cut_step import thresholds
from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm
from keras_bayesdrop.plan.steps import ChainStep
from keras_bayesdrop.plan.steps import NoiseStep
from keras_bayesdrop.plan.steps import Step
from keras_bayesdrop.plan.thin_forms import DTYPES
from keras_bayesdrop.plan.thin_forms import DepthwiseForm
from keras_bayesdrop.plan.thin_forms import EachForm
from keras_bayesdrop.plan.thin_forms import JoinForm
from keras_bayesdrop.plan.thin_forms import MergeForm
from keras_bayesdrop.plan.thin_forms import ProductForm


@dataclasses.dataclass(frozen=True)
class Cuts:
    """A suffix whose parts to cut are known.

    Attributes:
        steps: The suffix, with each part in place of its steps.
        why_not: By the id of a step, why it is in no part.
    """

    steps: tuple[Step | ChainStep | CutStep, ...]
    why_not: Mapping[int, str]


def find_cuts(
    steps: Sequence[Step | ChainStep],
    specs: Sequence[Any],
    outputs: Sequence[int],
    rows: Collection[int],
) -> Cuts:
    """Finds what can be cut.

    Args:
        steps: Steps in an order in which they can run.
        specs: Per value, something with a shape and a dtype.
        outputs: Numbers of the values that are wanted in the end.
        rows: Numbers of the values with one entry per row on their first axis.

    Returns:
        The steps, those of each part as one.
    """
    why_not = {id(step): _refusal(step, specs, rows) for step in steps}
    taken = collections.Counter(v for step in steps for v in step.inputs)
    taken.update(outputs)
    ordered: list[Step | ChainStep | CutStep] = []
    for members, others in _levels(steps, why_not):
        before, cut, after = _cut(members, specs, taken)
        if cut is None or _pays(cut):
            ordered += before
            ordered += [] if cut is None else [cut]
            ordered += after
        else:
            ordered += members
            for step in cut.steps:
                why_not[id(step)] = "leaving out channels would not pay"
        ordered += others
    return Cuts(tuple(ordered), why_not)


def drops_channels(step: NoiseStep, spec: Any) -> bool:
    """Returns whether active noise keeps or drops whole channels.

    Args:
        step: Puts noise on a value.
        spec: Of that value.
    """
    shape, rank, channels = step.noise_shape, len(spec.shape), spec.shape[-1]
    return (
        step.noise.kind == "bernoulli"
        and rank > 2
        and shape is not None
        and len(shape) == rank
        and shape[0] in (None, 1)
        and all(dim == 1 for dim in shape[1:-1])
        and shape[-1] in (None, channels)
    )


def _refusal(
    step: Step | ChainStep, specs: Sequence[Any], rows: Collection[int]
) -> str:
    """Returns why a step gets all channels of every value, or `""`."""
    if isinstance(step, ChainStep):
        return "dense chain"
    if len(step.outputs) != 1 or not step.inputs:
        return f"{step.kind} does not have one output"
    values = (*step.inputs, *step.outputs)
    first = tf.as_dtype(specs[values[0]].dtype).name
    for value in values:
        if value not in rows:
            return "its first axis does not hold the rows"
        dtype = tf.as_dtype(specs[value].dtype).name
        if dtype not in DTYPES or dtype != first:
            return f"computes in {dtype}"
        dims = tuple(specs[value].shape)
        if len(dims) < 2 or dims[-1] is None:
            return "its number of channels is not known"
    spec = specs[step.inputs[0]]
    if isinstance(step, NoiseStep):
        if not step.active:
            off = type(step.noise).expected is Noise.expected
            return "" if off else f"{step.noise.describe()} scales its input"
        if step.axis != 0 or not drops_channels(step, spec):
            return f"{step.noise.describe()} does not drop whole channels"
        return ""
    if isinstance(step.thin, str):
        return step.thin
    sizes = tuple(spec.shape)[1:]
    if getattr(step.thin, "transposed", False) and None in sizes:
        return "whole channels: sizes that are left open"
    same = {(len(specs[v].shape), specs[v].shape[-1]) for v in step.inputs}
    if isinstance(step.thin, MergeForm) and len(same) > 1:
        return "merges values of different shapes"
    if not isinstance(step.thin, MergeForm | JoinForm) and len(same) > 1:
        return f"{step.kind} does not have one input"
    return ""


def _levels(
    steps: Sequence[Step | ChainStep], why_not: Mapping[int, str]
) -> list[tuple[list[Step], list[Step | ChainStep]]]:
    """Orders steps by turns: some that can be cut, then others.

    The steps of a turn take values of their own turn and of earlier ones.
    """
    turn: dict[int, int] = {}  # by value: the turn that it is ready in
    members: dict[int, list[Step]] = collections.defaultdict(list)
    others: dict[int, list[Step | ChainStep]] = collections.defaultdict(list)
    for step in steps:
        ready = max((turn.get(value, 0) for value in step.inputs), default=0)
        if why_not[id(step)]:
            others[ready].append(step)
            turn.update(dict.fromkeys(step.outputs, ready + 1))
        else:
            assert not isinstance(step, ChainStep)
            members[ready].append(step)
            turn.update(dict.fromkeys(step.outputs, ready))
    return [
        (members[n], others[n])
        for n in range(max(turn.values(), default=0) + 1)
    ]


def _cut(
    members: Sequence[Step],
    specs: Sequence[Any],
    taken: Mapping[int, int],
) -> tuple[list[Step], CutStep | None, list[Step]]:
    """Makes one step of those that gain by it.

    Returns:
        The steps to run before; the step; those to run after.
    """
    inside = list(members)
    before: list[Step] = []
    after: list[Step] = []
    while inside:
        kept, inputs, outputs = _channels(inside, specs, taken)
        if not any(_is_cut(step, kept) for step in inside):
            break
        idle = _idle(inside, kept)
        consumed = {value for step in inside for value in step.inputs}
        place = next(
            (
                place
                for place in idle
                if inputs.issuperset(inside[place].inputs)
                or consumed.isdisjoint(inside[place].outputs)
            ),
            None,
        )
        if place is None:
            cut = CutStep(
                inside[0].path,
                "cut convolutions",
                tuple(sorted(inputs)),
                tuple(sorted(outputs)),
                tuple(inside),
                kept,
                specs,
            )
            return before, cut, after
        step = inside.pop(place)
        if inputs.issuperset(step.inputs):
            before.append(step)
        else:
            after.insert(0, step)
    return list(members), None, []


def _pays(part: CutStep) -> bool:
    """Returns whether cutting can pay. What is learned may change."""
    if any(
        isinstance(step.noise, LearnedBernoulli) for step in part.noise.values()
    ):
        return True
    return bool(part.least_rows(thresholds(part)) <= MOST_ROWS)


def _idle(steps: Sequence[Step], kept: Mapping[int, Channels]) -> list[int]:
    """Returns places of steps that need not be in a part.

    They have all channels, or have no product that is cut before or behind
    them.
    """
    behind: set[int] = set()  # values
    ahead: set[int] = set()
    joins = [False] * len(steps)
    for place, step in enumerate(steps):
        if _is_cut(step, kept) or not behind.isdisjoint(step.inputs):
            behind.update(step.outputs)
            joins[place] = True
    for place in reversed(range(len(steps))):
        step = steps[place]
        if _is_cut(step, kept) or not ahead.isdisjoint(step.outputs):
            ahead.update(step.inputs)
            joins[place] = True

    def is_idle(place: int) -> bool:
        step = steps[place]
        values = (*step.inputs, *step.outputs)
        return not joins[place] or (
            not step.active and all(isinstance(kept[v], Whole) for v in values)
        )

    return [place for place in range(len(steps)) if is_idle(place)]


def _is_cut(step: Step, kept: Mapping[int, Channels]) -> bool:
    """Returns whether a step is a product of some channels only."""
    if isinstance(step, NoiseStep) or not isinstance(step.thin, ProductForm):
        return False
    ends = (step.inputs[0], step.outputs[0])
    return not all(isinstance(kept[value], Whole) for value in ends)


def _channels(
    steps: Sequence[Step], specs: Sequence[Any], taken: Mapping[int, int]
) -> tuple[dict[int, Channels], set[int], set[int]]:
    """Returns the channels of each value, the inputs and the outputs."""
    made = {step.outputs[0] for step in steps}
    inputs = {v for step in steps for v in step.inputs} - made
    inside = collections.Counter(v for step in steps for v in step.inputs)
    outputs = {v for v in made if taken[v] > inside[v]}

    def whole(value: int) -> Whole:
        return Whole(int(specs[value].shape[-1]))

    filled: dict[int, Channels] = {value: whole(value) for value in inputs}
    for step in steps:
        filled[step.outputs[0]] = _filled(
            step, [filled[v] for v in step.inputs], whole(step.outputs[0])
        )
    needed: dict[int, Channels] = {value: whole(value) for value in outputs}
    for step in reversed(steps):
        (value,) = step.outputs
        wanted = needed.setdefault(value, whole(value))
        sizes = [whole(v).size for v in step.inputs]
        for source, channels in zip(
            step.inputs, _needed(step, wanted, sizes), strict=True
        ):
            old = needed.get(source)
            needed[source] = channels if old is None else either(old, channels)
    kept = {
        value: whole(value)
        if value in inputs
        else simplified(both(filled[value], needed[value]))
        for value in inputs | made
    }
    return kept, inputs, outputs


def _cutting(step: NoiseStep, size: int) -> Channels:
    """Returns the channels that noise leaves, if it can leave out any."""
    rate = getattr(step.noise, "rate", 1.0)  # Learned rates may be anything.
    # Numbers of channels are rounded up, by half of a multiple on average.
    if not step.active or size <= MULTIPLE or rate * size <= MULTIPLE / 2:
        return Whole(size)
    return Kept(frozenset([step.site]), size)


def _filled(step: Step, inputs: Sequence[Channels], whole: Whole) -> Channels:
    """Returns the channels of a step's output that need not be 0."""
    if isinstance(step, NoiseStep):
        return both(inputs[0], _cutting(step, whole.size))
    form = step.thin
    if isinstance(form, EachForm | DepthwiseForm) and form.keeps_zero:
        return inputs[0]
    if isinstance(form, IdentityForm):
        return inputs[0]
    if isinstance(form, FlattenForm):
        return tiled(inputs[0], whole.size // inputs[0].size)
    if isinstance(form, JoinForm):
        return Joined(tuple(inputs))
    if isinstance(form, MergeForm):
        channels = inputs[0]
        for other in inputs[1:]:
            channels = either(channels, other)
        return channels
    return whole


def _needed(
    step: Step, wanted: Channels, sizes: Sequence[int]
) -> list[Channels]:
    """Returns the channels of a step's inputs that its output depends on."""
    if isinstance(step, NoiseStep):
        return [both(_cutting(step, sizes[0]), wanted)]
    form = step.thin
    each = (EachForm, DepthwiseForm, ScaleShiftForm, IdentityForm, MergeForm)
    if isinstance(form, each):
        return [wanted] * len(sizes)
    if isinstance(form, JoinForm):
        begins = [sum(sizes[:n]) for n in range(len(sizes))]
        return [
            part(wanted, begin, size)
            for begin, size in zip(begins, sizes, strict=True)
        ]
    return [Whole(size) for size in sizes]
