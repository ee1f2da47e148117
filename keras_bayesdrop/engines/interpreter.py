# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of a plan one after another in TensorFlow.

Samples are folded into the batch axis. A value is folded only when a step
needs it so: noise on an unfolded value makes its samples by broadcasting, and
the repeated input is never written.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step

# Maps a chain, its input, whether that is folded, and draws to its folded
# output.
RunChain = Callable[[ChainStep, tf.Tensor, bool, Draws], tf.Tensor]
# Maps a part to cut, its inputs, whether each is folded, and draws to its
# folded outputs.
RunCut = Callable[
    [CutStep, Sequence[tf.Tensor], Sequence[bool], Draws], list[tf.Tensor]
]


def run_prefix(plan: Plan, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs the prefix of a plan with all noise off."""
    values = dict(zip(plan.inputs, inputs, strict=True))
    # Nothing the layers assign (statistics, states, seeds) or add as a loss
    # outlives the scope: the user's model stays as it was.
    with keras.StatelessScope():
        for step in plan.prefix:
            taken = [values[number] for number in step.inputs]
            if isinstance(step, NoiseStep):
                outputs: Sequence[tf.Tensor] = [step.noise.expected(taken[0])]
            else:
                outputs = step.call(taken, None)
            values.update(zip(step.outputs, outputs, strict=True))
    return [values[number] for number in plan.cut]


def run_suffix(
    plan: Plan,
    steps: Sequence[Step | ChainStep | CutStep],
    cut: Sequence[tf.Tensor],
    draws: Draws | None,
    run_chain: RunChain | None = None,
    look: Callable[[int, Sequence[tf.Tensor]], None] | None = None,
    run_cut: RunCut | None = None,
    folded_cut: Collection[int] = (),
) -> list[tf.Tensor]:
    """Runs steps that do the work of a plan's suffix.

    Args:
        plan: The plan.
        steps: Its suffix, or the same with chains and parts to cut in it.
        cut: Tensors [rows, ...] for `plan.cut`.
        draws: Which samples of which rows. `None` turns all noise off.
        run_chain: Runs the chains, if there are any.
        look: Called with the index of every step and its outputs.
        run_cut: Runs the parts to cut, if there are any.
        folded_cut: Numbers of the values of `cut` that are folded already.

    Returns:
        Folded tensors for `plan.outputs`, or [rows, ...] without draws.
    """
    values = dict(zip(plan.cut, cut, strict=True))
    folded: set[int] = {*folded_cut}

    def fold(number: int) -> tf.Tensor:
        if values[number] is None:
            return None
        if draws is not None and number not in folded | plan.batchless:
            values[number] = draws.fold(
                values[number], number not in plan.entries
            )
            folded.add(number)
        return values[number]

    def perturb(step: NoiseStep) -> tf.Tensor:
        (number,) = step.inputs
        if not step.active or draws is None:
            return step.noise.expected(fold(number))
        x = values[number]
        weights = isinstance(step.noise, WeightNoise)
        if plan.one_at_a_time and step.axis != 0 and not weights:
            return draws.perturb_whole(
                x, step.noise, step.noise_shape, step.site, step.axis
            )
        if number in plan.batchless and number not in folded:
            x = tf.repeat(x, draws.num_rows, axis=0)
        return draws.perturb(
            x,
            step.noise,
            step.noise_shape,
            step.site,
            folded=number in folded,
            whole_rows=step.whole_rows,
        )

    def spread(step: Step | ChainStep | CutStep) -> list[int]:
        """Returns which outputs of a step hold samples in their batch.

        A value without rows has none, until noise spreads it.
        """
        if isinstance(step, ChainStep | CutStep) or (
            isinstance(step, NoiseStep) and step.active
        ):
            return list(step.outputs)
        was_spread = any(n in plan.batchless & folded for n in step.inputs)
        return [
            number
            for number in step.outputs
            if number not in plan.batchless or was_spread
        ]

    with keras.StatelessScope():
        for index, step in enumerate(steps):
            if isinstance(step, NoiseStep):
                outputs: Sequence[tf.Tensor] = [perturb(step)]
            elif isinstance(step, ChainStep):
                assert run_chain is not None and draws is not None
                (number,) = step.inputs
                outputs = [
                    run_chain(step, values[number], number in folded, draws)
                ]
            elif isinstance(step, CutStep):
                assert run_cut is not None and draws is not None
                outputs = run_cut(
                    step,
                    [values[number] for number in step.inputs],
                    [number in folded for number in step.inputs],
                    draws,
                )
            else:
                outputs = step.call(
                    [fold(number) for number in step.inputs], draws
                )
            values.update(zip(step.outputs, outputs, strict=True))
            folded.update(spread(step))
            if look is not None:
                look(index, outputs)
        return [fold(number) for number in plan.outputs]
