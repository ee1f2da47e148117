# SPDX-License-Identifier: Apache-2.0
"""The fused engine: dense chains and noise in compiled ops, convolutions cut.

The rest runs as in the reference engine.
"""

import dataclasses
import functools
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.engines import interpreter
from keras_bayesdrop.engines.chain_work import add_up
from keras_bayesdrop.engines.chain_work import sizes_of
from keras_bayesdrop.engines.cut import run_if_it_pays
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.engines.noise_op import NoiseOp
from keras_bayesdrop.noise import MaskTable
from keras_bayesdrop.noise.base import as_scalar
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import ChainLink
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import Cuts
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.plan import find_cuts
from keras_bayesdrop.predictive import ChainWork


class Fused(Engine):
    """Runs the chains of a plan whole.

    Args:
        ops: The module of the compiled op library.
        dtypes: Names of the dtypes that its op has kernels for.
        on_cpu: Whether its kernels are those for CPUs. Only these take masks of
            a table, and can tell how they run a chain.
        cuts: Whether to leave out channels that a sample drops, where masks
            are shared.
        problem: Why no chain is compiled, or `""`.
        noise_op: Puts noise on tensors outside of chains, if there is one.
    """

    name: ClassVar[str] = "fused"

    def __init__(
        self,
        ops: Any,
        dtypes: Collection[str],
        on_cpu: bool = True,
        cuts: bool = True,
        problem: str = "",
        noise_op: NoiseOp | None = None,
    ) -> None:
        self._ops = ops
        self._dtypes = dtypes
        self._on_cpu = on_cpu
        self._cuts = cuts
        self._problem = problem
        self._noise_op = noise_op
        self._found: tuple[Plan, Cuts] | None = None

    @property
    def key(self) -> str:
        """Tells engines apart that make different programs."""
        chains = ", ".join(self._dtypes)
        noise = self._noise_op is not None
        return f"{self.name}, chains in {chains}, {self._cuts}, {noise}"

    def steps(self, plan: Plan) -> Sequence[Step | ChainStep | CutStep]:
        """Returns the suffix with the chains and parts that run otherwise."""
        if self._cuts:
            return self.cuts(plan).steps
        return self._steps_with_chains(plan)

    def cuts(self, plan: Plan) -> Cuts:
        """Returns the steps with the parts that are cut, found once."""
        if self._found is None or self._found[0] is not plan:
            steps = self._steps_with_chains(plan)
            cuts = find_cuts(steps, plan.specs, plan.outputs, plan.rows)
            self._found = (plan, cuts)
        return self._found[1]

    def _steps_with_chains(self, plan: Plan) -> list[Step | ChainStep]:
        """Returns the suffix with the chains that there are kernels for."""
        steps: list[Step | ChainStep] = []
        for step in plan.fusion.steps:
            if isinstance(step, ChainStep) and self._why_no_kernel(step):
                steps.extend(step.steps)
            else:
                steps.append(step)
        return steps

    def why_not_fused(self, plan: Plan) -> tuple[str, ...]:
        """Returns, per step of the suffix, why it is not compiled, or `""`."""
        left_out = {
            id(member): why
            for chain in plan.fusion.steps
            if isinstance(chain, ChainStep)
            and (why := self._why_no_kernel(chain))
            for member in chain.steps
        }
        not_cut = self._why_not_cut(plan) if self._cuts else {}
        return tuple(
            left_out.get(id(step), _and(reason, not_cut.get(id(step), "")))
            for step, reason in zip(
                plan.suffix, plan.fusion.why_not, strict=True
            )
        )

    def has_op_for(self, step: Step, plan: Plan) -> bool:
        """Returns whether the noise op runs a step of a plan."""
        if self._noise_op is None or not isinstance(step, NoiseStep):
            return False
        dtype = tf.as_dtype(plan.specs[step.inputs[0]].dtype).name
        return step.active and self._noise_op.has_kernel(step.noise, dtype)

    def _why_not_cut(self, plan: Plan) -> dict[int, str]:
        """Returns, by the id of a convolution, why it is not cut."""
        cuts = self.cuts(plan)
        return {
            id(step): cuts.why_not[id(step)]
            for step in plan.suffix
            if "Conv" in step.kind and cuts.why_not.get(id(step))
        }

    def _why_no_kernel(self, chain: ChainStep) -> str:
        """Returns why no kernel runs a chain, or `""`."""
        if self._problem:
            return self._problem
        if chain.dtype not in self._dtypes:
            return f"computes in {chain.dtype}"
        tables = any(
            link.noise is not None and isinstance(link.noise.noise, MaskTable)
            for link in chain.links
        )
        if tables and not self._on_cpu:
            return "masks of a table are not compiled for GPUs"
        return ""

    def chain_work(
        self, plan: Plan, blocks: Mapping[tuple[int, int], int], shared: bool
    ) -> tuple[ChainWork, ...]:
        """Returns the work of the chains."""
        if not self._on_cpu or not blocks:
            return ()
        steps = self.steps(plan)
        chains = [step for step in steps if isinstance(step, ChainStep)]
        return tuple(
            add_up(self._ops, chain, sizes, blocks, shared)
            for chain in chains
            if (sizes := sizes_of(plan, steps, chain)) is not None
        )

    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the suffix, each chain in one call of the op."""
        if draws is None:
            return interpreter.run_suffix(plan, plan.suffix, cut, draws)
        draws = dataclasses.replace(draws, noise_op=self._noise_op)
        # A watched value must be whole.
        whole = not draws.shared or draws.watched is not None
        return interpreter.run_suffix(
            plan,
            self._steps_with_chains(plan) if whole else self.steps(plan),
            cut,
            draws,
            self._run_chain,
            run_cut=functools.partial(run_if_it_pays, plan),
        )

    def _run_chain(
        self, chain: ChainStep, x: tf.Tensor, folded: bool, draws: Draws
    ) -> tf.Tensor:
        """Runs a chain on [rows, ...] or folded [rows * samples, ...]."""
        mask = private_keras.get_mask(x)
        if mask is not None and not folded:
            mask = draws.fold(mask)
        if chain.flattens:
            x = tf.reshape(x, [tf.shape(x)[0], chain.links[0].sizes[0]])
        # Whatever is between the rows and the units goes through one by one.
        between = tf.shape(x)[1:-1]
        shape = [None, *x.shape[1:-1], chain.links[-1].sizes[1]]
        sizes = (
            [draws.num_rows, draws.num_samples] if folded else [draws.num_rows]
        )
        entries = [] if x.shape.rank == 2 else [-1]
        x = tf.reshape(x, [*sizes, *entries, chain.links[0].sizes[0]])
        if folded:
            x = _swap_samples_and_rows(x)
        y = self._call(chain.links, x, folded, draws)
        y = _swap_samples_and_rows(y)
        y = tf.reshape(y, tf.concat([[-1], between, shape[-1:]], axis=0))
        y.set_shape(shape)
        if mask is not None and not chain.flattens:
            private_keras.set_mask(y, mask)
        return y

    def _call(
        self,
        links: Sequence[ChainLink],
        x: tf.Tensor,
        per_sample: bool,
        draws: Draws,
    ) -> tf.Tensor:
        """Calls the op: [samples, rows, ..., units]."""
        # The op takes the number of a mask from that of the sample alone.
        assert isinstance(draws.first_mask, int) and draws.first_mask == 0
        weights = [link.weights() for link in links]
        settings = [_noise_settings(link) for link in links]
        tables = [
            link.noise.noise.op_table()
            for link in links
            if link.noise is not None
        ]
        return self._ops.keras_bayesdrop_dropout_chain(
            x=x,
            kernels=[kernel for kernel, _ in weights],
            biases=[bias for _, bias in weights if bias is not None],
            seed=draws.seed,
            thresholds=tf.stack(
                [as_scalar(each[1], tf.uint32) for each in settings]
            ),
            scales=tf.stack(
                [as_scalar(each[2], tf.float64) for each in settings]
            ),
            sites=tf.constant([each[3] for each in settings], tf.uint32),
            first_sample=tf.cast(draws.first_sample, tf.int64),
            num_samples=tf.cast(draws.num_samples, tf.int64),
            first_row=tf.cast(draws.first_row, tf.int64),
            tables=[table for table in tables if table is not None],
            has_bias=[bias is not None for _, bias in weights],
            noise=[each[0] for each in settings],
            per_entry=[link.per_entry for link in links],
            activations=[link.activation for link in links],
            masks="shared" if draws.shared else "independent",
            draws="balanced" if draws.balanced else "independent",
            x_per_sample=per_sample,
        )


def _and(reason: str, another: str) -> str:
    """Returns two reasons in one, if there are two."""
    if not reason or not another or another == reason:
        return reason
    return f"{reason}; {another}"


def _noise_settings(link: ChainLink) -> tuple[str, Any, Any, int]:
    """Returns kind, threshold, scale and site of the noise of a link."""
    if link.noise is None:
        return "none", 0, 1.0, 0
    noise = link.noise.noise
    settings = noise.op_settings()
    assert settings is not None
    return noise.kind, *settings, link.noise.site


def _swap_samples_and_rows(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
