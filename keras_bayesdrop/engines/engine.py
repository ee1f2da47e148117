# SPDX-License-Identifier: Apache-2.0
"""What an engine is: it runs the steps of a plan on tensors."""

import abc
from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop._draws import Draws
from keras_bayesdrop.plan import Plan


class Engine(abc.ABC):
    """Runs plans. Engines know steps and tensors, and no Keras layer."""

    name: ClassVar[str]

    @abc.abstractmethod
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
