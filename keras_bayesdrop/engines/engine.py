# SPDX-License-Identifier: Apache-2.0
"""The interface of engines, which run the steps of a plan on tensors."""

import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop.engines import interpreter
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.predictive import ChainWork


class Engine(abc.ABC):
    """Runs plans. Engines know steps and tensors, and no Keras layer."""

    name: ClassVar[str]

    @property
    def key(self) -> str:
        """Tells engines apart that make different programs."""
        return self.name

    @abc.abstractmethod
    def steps(self, plan: Plan) -> Sequence[Step | ChainStep | CutStep]:
        """Returns the steps that this engine makes of the suffix."""

    def why_not_fused(self, plan: Plan) -> tuple[str, ...]:
        """Returns, per step of the suffix, why it is not compiled, or `""`."""
        return plan.fusion.why_not

    def chain_work(
        self, plan: Plan, blocks: Mapping[tuple[int, int], int], shared: bool
    ) -> tuple[ChainWork, ...]:
        """Returns the work of the chains that the compiled op ran.

        Args:
            plan: The plan.
            blocks: How often so many rows and samples ran at once.
            shared: Whether masks are shared by the rows.
        """
        return ()

    def run_prefix(
        self, plan: Plan, inputs: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Runs what no noise reaches.

        Args:
            plan: The plan.
            inputs: Tensors [rows, ...] for `plan.inputs`.

        Returns:
            Tensors for `plan.cut`.
        """
        return interpreter.run_prefix(plan, inputs)

    @abc.abstractmethod
    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the rest for a block of samples.

        Args:
            plan: The plan.
            cut: Tensors [rows, ...] for `plan.cut`.
            draws: Which samples of which rows. `None` turns all noise off.

        Returns:
            Folded tensors for `plan.outputs`, or [rows, ...] without draws.
        """
