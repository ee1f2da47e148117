# SPDX-License-Identifier: Apache-2.0
"""Finds dense chains: runs of steps that the compiled op does in one call.

A chain is a run of links, each `[noise] [affine] Dense [affine] [activation]`,
in which every value goes to the next step alone. Affine layers (batch
normalization in inference mode) are folded into the kernel next to them:

    before the matmul   (x * s + t) W + b  =  x (s W) + (b + t W)
    after it            (x W + b) * s + t  =  x (W s) + (b * s + t)
"""

import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop.noise import MaskTable
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.plan.layer_forms import DTYPES
from keras_bayesdrop.plan.layer_forms import DenseForm
from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm
from keras_bayesdrop.plan.steps import CallStep
from keras_bayesdrop.plan.steps import ChainLink
from keras_bayesdrop.plan.steps import ChainStep
from keras_bayesdrop.plan.steps import NoiseStep
from keras_bayesdrop.plan.steps import Step


@dataclasses.dataclass(frozen=True)
class Fusion:
    """A suffix whose chains are known.

    Attributes:
        steps: The suffix, with each chain in place of its steps.
        why_not: Per step of the suffix, why it is in no chain, or `""`.
    """

    steps: tuple[Step | ChainStep, ...]
    why_not: tuple[str, ...]


def find_chains(
    suffix: Sequence[Step],
    specs: Sequence[Any],
    outputs: Sequence[int],
    holds_rows: Callable[[int], bool],
) -> Fusion:
    """Finds the chains of a suffix.

    Args:
        suffix: Steps in an order in which they can run.
        specs: Per value, something with a shape and a dtype.
        outputs: Numbers of the values that are wanted in the end.
        holds_rows: Whether a value has one entry per row on its first axis.

    Returns:
        The suffix with its chains.
    """
    consumers = collections.defaultdict(list)
    for index, step in enumerate(suffix):
        for value in step.inputs:
            consumers[value].append(index)
    for value in outputs:
        consumers[value].append(-1)
    member_of: dict[int, ChainStep] = {}
    why_not = [""] * len(suffix)
    for index, step in enumerate(suffix):
        if index in member_of:
            continue
        walk = _Walk(specs)
        if len(step.inputs) == 1 and not holds_rows(step.inputs[0]):
            why_not[index] = "its first axis does not hold the rows"
            continue
        here: int | None = index
        while here is not None and walk.take(here, suffix[here]):
            users = consumers[suffix[here].outputs[0]]
            if len(users) > 1:
                walk.stopped = "its output is used more than once"
            here = users[0] if len(users) == 1 and users[0] >= 0 else None
        chain = walk.chain(suffix)
        if chain is None:
            why_not[index] = walk.stopped or "no Dense with noise follows"
        else:
            member_of.update(dict.fromkeys(walk.members, chain))
    steps: list[Step | ChainStep] = []
    last_of = {id(chain): index for index, chain in member_of.items()}
    for index, step in enumerate(suffix):
        if index not in member_of:
            steps.append(step)
        elif last_of[id(member_of[index])] == index:
            # By its last step all it needs is there, and nobody has asked for
            # what it makes.
            steps.append(member_of[index])
    for index in member_of:
        why_not[index] = ""
    return Fusion(tuple(steps), tuple(why_not))


class _Walk:
    """A chain in the making: takes steps while they fit.

    Steps taken after the last whole link are pending; what counts are the
    `members` up to there.
    """

    def __init__(self, specs: Sequence[Any]) -> None:
        self.specs = specs
        self.stopped = ""
        self.members: list[int] = []
        self._taken: list[int] = []
        self._links: list[_Draft] = []
        self._noise: NoiseStep | None = None
        self._before: list[ScaleShiftForm] = []
        self._flattens = False
        self._dtype = ""

    def take(self, index: int, step: Step) -> bool:
        """Takes a step, or says in `stopped` why not."""
        reason = self._refusal(step)
        if reason:
            self.stopped = reason
            return False
        self._taken.append(index)
        if not self._pending:
            self.members = list(self._taken)
        return True

    @property
    def _pending(self) -> bool:
        """Returns whether something waits for a Dense to follow."""
        return not self._links or self._noise is not None or bool(self._before)

    def _refusal(self, step: Step) -> str:
        """Adds a step to the draft; returns why it does not fit, or `""`."""
        if len(step.inputs) != 1 or len(step.outputs) != 1:
            return f"{step.kind} does not have one input and one output"
        spec = self.specs[step.inputs[0]]
        output_spec = self.specs[step.outputs[0]]
        # A layer of another dtype casts its input.
        for dtype in (_dtype_name(spec), _dtype_name(output_spec)):
            if dtype not in DTYPES or self._dtype not in ("", dtype):
                return f"computes in {dtype}"
            self._dtype = dtype
        rank = len(spec.shape)
        if isinstance(step, NoiseStep):
            return self._add_noise(step, rank, spec.shape[-1])
        return self._add_form(step, rank)

    def _add_noise(self, step: NoiseStep, rank: int, units: Any) -> str:
        if isinstance(step.noise, WeightNoise):
            return "noise on weights is not compiled"
        if not step.active and isinstance(step.noise, MaskTable):
            self._add_scale_shift(self._scale_of(step.noise, units))
            return ""
        if not step.active:
            return ""
        if step.noise.op_settings() is None:
            return f"{step.noise.describe()} is not compiled"
        if self._noise is not None:
            return "noise on noise"
        if self._before:
            return "noise between a normalization and its Dense"
        if _covers(step.noise_shape, rank) is None:
            return f"noise of shape {step.noise_shape}"
        self._noise = step
        return ""

    @property
    def _last(self) -> "_Draft | None":
        """The last link, if nothing was taken after it."""
        idle = self._links and self._noise is None and not self._before
        return self._links[-1] if idle else None

    def _add_scale_shift(self, form: ScaleShiftForm) -> None:
        last = self._last
        if last is not None and last.activation == "linear":
            last.after.append(form)
        else:
            self._before.append(form)

    def _scale_of(self, noise: MaskTable, units: int) -> ScaleShiftForm:
        """Returns what masks of a table do where they are off."""
        dtype = self._dtype

        def terms() -> tuple[tf.Tensor, tf.Tensor]:
            scale = noise.expected(tf.ones([1, units], dtype))[0]
            return scale, tf.zeros_like(scale)

        return ScaleShiftForm(terms)

    def _add_form(self, step: CallStep, rank: int) -> str:
        form = step.form
        last = self._last
        if isinstance(form, str):
            return form
        if isinstance(form, IdentityForm) or (
            isinstance(form, FlattenForm) and rank == 2
        ):
            return ""
        if isinstance(form, DenseForm):
            per_entry = False
            if self._noise is not None and rank > 2:
                covers = _covers(self._noise.noise_shape, rank)
                per_entry = covers == "entries"
            self._links.append(
                _Draft(
                    self._noise,
                    per_entry,
                    form,
                    tuple(self._before),
                    activation=form.activation,
                )
            )
            self._noise, self._before = None, []
            return ""
        if isinstance(form, FlattenForm):
            if self._links or self._before:
                return "flattens between Dense layers"
            if self._noise is not None and self._noise.noise_shape is not None:
                return f"noise of shape {self._noise.noise_shape}, flattened"
            self._flattens = True
            return ""
        if isinstance(form, ScaleShiftForm):
            self._add_scale_shift(form)
            return ""
        if last is None or last.activation != "linear":
            return "an activation that follows no linear Dense"
        last.activation = form.activation
        return ""

    def chain(self, suffix: Sequence[Step]) -> ChainStep | None:
        """Returns the chain of the members, if it has noise at all."""
        if not any(draft.noise is not None for draft in self._links):
            return None
        steps = tuple(suffix[index] for index in self.members)
        return ChainStep(
            steps[0].path,
            "dense chain",
            steps[0].inputs,
            steps[-1].outputs,
            tuple(draft.link() for draft in self._links),
            steps,
            self._flattens,
            self._dtype,
        )


@dataclasses.dataclass
class _Draft:
    """A link to which affine layers and an activation may still be added."""

    noise: NoiseStep | None
    per_entry: bool
    dense: DenseForm
    before: tuple[ScaleShiftForm, ...]
    activation: str
    after: list[ScaleShiftForm] = dataclasses.field(default_factory=list)

    def link(self) -> ChainLink:
        dense, before, after = self.dense, self.before, tuple(self.after)

        def weights() -> tuple[tf.Tensor, tf.Tensor | None]:
            return _folded(dense, before, after)

        return ChainLink(
            self.noise, self.per_entry, weights, self.activation, dense.sizes
        )


def _folded(
    dense: DenseForm,
    before: Sequence[ScaleShiftForm],
    after: Sequence[ScaleShiftForm],
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns kernel and bias with the affine layers around folded in."""
    kernel = dense.kernel()
    bias = None if dense.bias is None else dense.bias()
    for affine in reversed(before):
        scale, shift = affine.terms()
        moved = tf.linalg.matvec(kernel, shift, transpose_a=True)
        bias = moved if bias is None else bias + moved
        kernel = kernel * scale[:, tf.newaxis]
    for affine in after:
        scale, shift = affine.terms()
        kernel = kernel * scale
        bias = shift if bias is None else bias * scale + shift
    return kernel, bias


def _dtype_name(spec: Any) -> str:
    return str(tf.as_dtype(spec.dtype).name)


def _covers(noise_shape: Any, rank: int) -> str | None:
    """Returns what of a value [rows, ..., units] has noise of its own.

    Returns:
        `"entries"` if every entry has, `"units"` if a unit has the same noise
        at all places of a row, or `None` if it is otherwise.
    """
    if noise_shape is None:
        return "entries"
    if len(noise_shape) != rank or noise_shape[0] is not None:
        return None
    if noise_shape[-1] is not None:
        return None
    if all(dim == 1 for dim in noise_shape[1:-1]):
        return "units"
    if all(dim is None for dim in noise_shape[1:-1]):
        return "entries"
    return None
