# SPDX-License-Identifier: Apache-2.0
"""The reference engine: pure TensorFlow, the definition of right."""

from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.engines import interpreter
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step


class Reference(Engine):
    """Runs every step as it stands, one after another."""

    name: ClassVar[str] = "reference"

    def steps(self, plan: Plan) -> Sequence[Step]:
        """Returns the suffix as it is."""
        return plan.suffix

    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the suffix, samples folded into the batch."""
        return interpreter.run_suffix(plan, plan.suffix, cut, draws)
