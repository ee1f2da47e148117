# SPDX-License-Identifier: Apache-2.0
"""The plan of a model: what runs once, what runs for every sample.

    inputs --prefix--> cut values --suffix, for every sample--> outputs

The prefix holds every step that no active noise reaches, the suffix the rest.
"""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop.errors import HiddenNoiseError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.observe import Hidden
from keras_bayesdrop.graph.sites import Site
from keras_bayesdrop.plan.chains import Fusion
from keras_bayesdrop.plan.chains import find_chains
from keras_bayesdrop.plan.steps import NoiseStep
from keras_bayesdrop.plan.steps import Step


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps of a model for many samples.

    Attributes:
        prefix: Steps that run once per row.
        suffix: Steps that run once per row and sample.
        inputs: Numbers of the input values.
        cut: Numbers of the values that cross from the prefix to the suffix.
        outputs: Numbers of the output values.
        specs: Per value, its `tf.TensorSpec` or symbolic tensor.
        rows: Numbers of values with one entry per row, on their first axis.
        batchless: Numbers of values that do not depend on the batch.
        entries: Numbers of values with several entries per row.
        sites: Every noise site, active or not, in order of the graph.
        chosen: Paths of the active sites.
        problems: Why samples cannot be drawn, if they cannot.
        one_at_a_time: Why samples cannot be folded into the batch, so that
            each runs alone; `""` if they can.
        mixes_rows: Whether a row's output depends on the rest of its batch.
        hidden: Noise that cannot be taken over.
        fixed_batch: Whether programs take one batch size only.
        flatten: Maps what a user passes to tensors for `inputs`.
        pack: Maps anything per output to the structure of the model.
        signature: Equal for plans that compile to the same program.
        unordered: Whether values with several entries per row hold them in
            an order of their own.
    """

    prefix: tuple[Step, ...]
    suffix: tuple[Step, ...]
    inputs: tuple[int, ...]
    cut: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[Any, ...]
    rows: frozenset[int]
    batchless: frozenset[int]
    entries: frozenset[int]
    sites: tuple[Site, ...]
    chosen: frozenset[str]
    problems: tuple[str, ...]
    one_at_a_time: str
    mixes_rows: bool
    hidden: tuple[Hidden, ...]
    fixed_batch: bool
    flatten: Callable[[Any], list[Any]]
    pack: Callable[[Sequence[Any]], Any]
    signature: tuple[Any, ...]
    unordered: bool = False

    def require_samples(self, allow_hidden_noise: bool = False) -> None:
        """Raises if samples cannot be drawn, or not all noise sampled."""
        if self.hidden and not allow_hidden_noise:
            raise HiddenNoiseError(hidden_noise(self.hidden))
        if self.problems:
            raise PlanError(self.problems[0])

    def require_folding(self, allow_hidden_noise: bool = False) -> None:
        """Raises if samples cannot be folded into the batch."""
        self.require_samples(allow_hidden_noise)
        if self.one_at_a_time:
            raise PlanError(
                "Several samples cannot go through the model at once: "
                f"{self.one_at_a_time}. Expected values of shape [batch, ...] "
                "behind the noise. Received: a model that only "
                "`predict_with_uncertainty` can sample, one sample at a time"
            )

    def alone(self, reason: str, unordered: bool = False) -> "Plan":
        """Returns the plan that runs one sample at a time, in whole batches.

        Args:
            reason: Why, in words.
            unordered: Whether values with several entries per row hold them
                in an order of their own.
        """
        return dataclasses.replace(
            self,
            one_at_a_time=self.one_at_a_time or reason,
            mixes_rows=True,
            unordered=unordered,
            signature=(self.signature, "alone", unordered),
        )

    @property
    def has_entries(self) -> bool:
        """Returns whether noise is on values with several entries per row."""
        return any(
            not step.whole_rows
            if isinstance(step, NoiseStep)
            else step.has_entries
            for step in self.suffix
            if step.active
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in an order in which they can run."""
        return self.prefix + self.suffix

    @functools.cached_property
    def fusion(self) -> Fusion:
        """The suffix with what the compiled op does in one call as one step."""
        return find_chains(
            self.suffix, self.specs, self.outputs, self.rows.__contains__
        )


def reasons_of(hidden: Sequence[Hidden]) -> str:
    """Returns where noise is that cannot be taken over, and why."""
    return "; ".join(f"`{each.path}`: {each.why}" for each in hidden)


def hidden_noise(hidden: Sequence[Hidden]) -> str:
    """Returns the message for noise that cannot be sampled."""
    return (
        "The model draws noise that cannot be sampled. Expected dropout "
        "layers, or draws by `keras.random` in layers without sublayers and "
        "state (`predict_with_uncertainty` leaves it out of the uncertainty "
        f"with allow_hidden_noise=True). Received: {reasons_of(hidden)}"
    )
