# SPDX-License-Identifier: Apache-2.0
"""The reference engine: pure TensorFlow, the definition of right.

Samples are folded into the batch axis. A value is folded only when a step
needs it so: noise on an unfolded value makes its samples by broadcasting, and
the repeated input is never written.
"""

from collections.abc import Sequence
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop._draws import Draws
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan


class Reference(Engine):
    """Runs every step as it stands, one after another."""

    name: ClassVar[str] = "reference"

    def run_prefix(
        self, plan: Plan, inputs: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Runs the prefix with all noise off."""
        values = dict(zip(plan.inputs, inputs, strict=True))
        # Nothing the layers assign (statistics, states, seeds) or add as a
        # loss outlives the scope: the user's model stays as it was.
        with keras.StatelessScope():
            for step in plan.prefix:
                given = [values[number] for number in step.inputs]
                if isinstance(step, NoiseStep):
                    made: Sequence[tf.Tensor] = given
                else:
                    made = step.call(given, None)
                values.update(zip(step.outputs, made, strict=True))
        return [values[number] for number in plan.cut]

    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the suffix, samples folded into the batch."""
        values = dict(zip(plan.cut, cut, strict=True))
        folded: set[int] = set()

        def fold(number: int) -> tf.Tensor:
            if draws is not None and number not in folded | plan.batchless:
                values[number] = draws.fold(
                    values[number], number not in plan.entries
                )
                folded.add(number)
            return values[number]

        with keras.StatelessScope():
            for step in plan.suffix:
                if isinstance(step, NoiseStep):
                    (number,) = step.inputs
                    if step.active and draws is not None:
                        x = values[number]
                        if number in plan.batchless:
                            x = tf.repeat(x, draws.num_rows, axis=0)
                        made: Sequence[tf.Tensor] = [
                            draws.perturb(
                                x,
                                step.noise,
                                step.noise_shape,
                                step.site,
                                folded=number in folded,
                                whole_rows=step.whole_rows,
                            )
                        ]
                    else:
                        made = [fold(number)]
                else:
                    given = [fold(number) for number in step.inputs]
                    made = step.call(given, draws)
                values.update(zip(step.outputs, made, strict=True))
                folded.update(step.outputs)
            return [fold(number) for number in plan.outputs]
