# SPDX-License-Identifier: Apache-2.0
"""Reads results off the outputs of a model, as their heads say.

    outputs of the model --Reading, one per result--> values, noise variances

A head takes one output, or two: `Heteroscedastic(mean=..., log_variance=...)`.
Sampling, closed forms and exports all read outputs here. The noise of logits is
drawn before (`logit_noise.py`), and probabilities are in their place.
"""

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.cache import facts
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.decision import Decision
from keras_bayesdrop.prediction.detection import resolve_heads
from keras_bayesdrop.prediction.head_structure import Pair
from keras_bayesdrop.prediction.head_structure import fill
from keras_bayesdrop.prediction.head_structure import spread_heads
from keras_bayesdrop.prediction.logit_noise import LogitNoise
from keras_bayesdrop.prediction.logit_noise import floating
from keras_bayesdrop.prediction.witness import Witness
from keras_bayesdrop.prediction.witness import witnesses_of
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.heads import Heteroscedastic
from keras_bayesdrop.predictive.heads import LearnedNoise
from keras_bayesdrop.predictive.heads import NoisyLogits
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.regression import check_last_axis


def has_logits(head: Head) -> bool:
    """Returns whether an output lacks its softmax or sigmoid."""
    return bool(getattr(head, "from_logits", False))


@dataclasses.dataclass(frozen=True)
class Reading:
    """A result, and the outputs of the model that it is read off.

    Attributes:
        head: The head, with all that it leaves open resolved.
        sources: Numbers of the outputs: one, or mean (or logits) and log
            variance.
        witness: Holds values against the head, if the model decided it.
    """

    head: Head
    sources: tuple[int, ...]
    witness: Witness | None = None

    def values(self, outputs: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Reads values, and the variances of their noise if it is learned.

        Args:
            outputs: All outputs of the model, with probabilities in the
                place of noisy logits.

        Returns:
            Numbers or probabilities, float32 or float64; of learned noise
            also the variances.
        """
        if isinstance(self.head, NoisyLogits):
            return (floating(outputs[self.sources[0]]),)
        parts = self.parts([floating(outputs[n]) for n in self.sources])
        if isinstance(self.head, Heteroscedastic):
            mean, log_variance = parts
            limit = self.head.log_variance_limit
            clipped = tf.clip_by_value(log_variance, -limit, limit)
            return mean, tf.cast(tf.exp(clipped), mean.dtype)
        (values,) = parts
        if not has_logits(self.head):
            return (values,)
        if self.head.task == "classification":
            return (tf.nn.softmax(values),)
        return (tf.sigmoid(values),)

    def parts(self, taken: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Splits what the head takes: means and log variances apart.

        Args:
            taken: Tensors like the outputs `sources`, of values or variances.
        """
        if isinstance(self.head, Heteroscedastic) and len(taken) == 1:
            return list(tf.split(taken[0], 2, axis=-1))
        return taken

    def known_outputs(self, plan: Plan) -> int | None:
        """Returns how many values a row has, if that is known."""
        dims = _shape(plan, self.sources[0])[1:]
        known = [dim for dim in dims if dim is not None]
        if len(known) < len(dims):
            return None
        return math.prod(known) // (2 if self._is_split else 1)

    def row_shape(self, plan: Plan) -> tuple[int | None, ...]:
        """Returns the shape of the values of a row, `None` if not known."""
        *axes, last = _shape(plan, self.sources[0])
        if self._is_split and last is not None:
            last //= 2
        return (*axes, last)[1:]

    @property
    def _is_split(self) -> bool:
        """True if one output has both means and log variances."""
        learned = isinstance(self.head, LearnedNoise)
        return learned and len(self.sources) == 1

    @property
    def logit_noise(self) -> LogitNoise | None:
        """The noise of logits, if they have some."""
        head = self.head
        if not isinstance(head, NoisyLogits):
            return None
        return LogitNoise(self.sources, head.num_draws, head.log_variance_limit)

    def check(self, plan: Plan) -> None:
        """Raises if the outputs cannot be read, as far as shapes are known."""
        shape = _shape(plan, self.sources[0])
        tau = getattr(self.head, "noise_precision", None)
        if isinstance(self.head, Regression) and isinstance(tau, Sequence):
            check_last_axis(len(tau), shape)
        if self._is_split and (len(shape) < 2 or (shape[-1] or 2) % 2):
            name, kind = _location(self.head), type(self.head).__name__
            plural = name if name.endswith("s") else name + "s"
            raise BayesdropError(
                f"An output cannot be split into {plural} and log variances. "
                "Expected an even number of entries on the last axis, or "
                f"head={kind}({name}=..., log_variance=...) with the "
                f"names of two outputs. Received: an output of shape {shape}"
            )
        if len(self.sources) == 2:
            self._check_two(plan)
        if isinstance(self.head, NoisyLogits):
            self._check_logits(plan)

    def _check_logits(self, plan: Plan) -> None:
        """Raises unless there are two classes and one entry per row."""
        shape, row_shape = _shape(plan, self.sources[0]), self.row_shape(plan)
        if not row_shape or row_shape[-1] == 1:
            raise BayesdropError(
                "Noisy logits need a logit for each of several classes. "
                "Expected at least two classes on the last axis, and as many "
                f"log variances. Received: an output of shape {shape}"
            )
        if any(plan.outputs[n] not in plan.rows for n in self.sources):
            raise BayesdropError(
                "The noise of logits needs an output with one entry per row. "
                "Expected shape [batch, ...]. Received: an output of shape "
                f"{shape} with other entries on its first axis"
            )

    def _check_two(self, plan: Plan) -> None:
        shapes = [_shape(plan, number) for number in self.sources]
        by_row = [plan.outputs[n] in plan.rows for n in self.sources]
        fits = len(shapes[0]) == len(shapes[1]) and all(
            a is None or b is None or a == b
            for a, b in zip(*shapes, strict=True)
        )
        if not fits or by_row[0] != by_row[1]:
            name = _location(self.head).capitalize()
            raise BayesdropError(
                f"{name} and log variance do not fit. Expected two outputs of "
                f"one shape. Received: shapes {shapes[0]} and {shapes[1]} for "
                f"{self.head}"
            )


@dataclasses.dataclass(frozen=True)
class Readings:
    """The results of a prediction.

    Attributes:
        each: The readings, in the order of the outputs.
        pack: Packs one entry per result into the structure of the results.
    """

    each: tuple[Reading, ...]
    pack: Callable[[Sequence[Any]], Any]

    @property
    def heads(self) -> list[Head]:
        """The head of each result."""
        return [reading.head for reading in self.each]

    @property
    def logit_noise(self) -> tuple[LogitNoise, ...]:
        """The noise of logits, of the results that have some."""
        noises = (reading.logit_noise for reading in self.each)
        return tuple(noise for noise in noises if noise is not None)

    def values(
        self, outputs: Sequence[tf.Tensor]
    ) -> list[tuple[tf.Tensor, ...]]:
        """Reads all results off the outputs of the model."""
        return [reading.values(outputs) for reading in self.each]

    @property
    def need_values(self) -> bool:
        """True if values are needed to confirm a head."""
        return any(
            each.witness is not None and each.witness.needs_values
            for each in self.each
        )

    def check_values(self, means: Sequence[Any]) -> None:
        """Holds the means of some rows, one per result, against the heads."""
        for reading, mean in zip(self.each, means, strict=True):
            if reading.witness is not None:
                reading.witness.check(np.asarray(mean))


def plain_readings(plan: Plan, heads: Sequence[Head]) -> Readings:
    """Returns readings of one output each."""
    each = tuple(Reading(head, (n,)) for n, head in enumerate(heads))
    return Readings(each, plan.pack)


def readings_of(
    model: Any, plan: Plan, head: Any, version: int | None = None
) -> Readings:
    """Decides how the outputs of a model are read.

    Args:
        model: The Keras model.
        plan: Its plan.
        head: `"auto"`, a head, the name of one, or a structure of these like
            the results: like the outputs, but without the log variances that
            other outputs name.
        version: That of the model, if decisions about it are to be kept.
    """
    count = len(plan.outputs)
    structure = plan.pack(list(range(count)))
    pairs, results, asked = spread_heads(model, structure, head)
    choices = head
    if pairs:
        choices = plan.pack([asked[number] for number in range(count)])
    decisions = _decided(model, plan, choices, version)
    heads = [decision.require() for decision in decisions]
    readings = plain_readings(plan, heads)
    if pairs:
        readings = _paired(pairs, results, heads)
    for reading in readings.each:
        reading.check(plan)
    witnesses = witnesses_of(model, plan, decisions)
    each = tuple(
        dataclasses.replace(reading, witness=witnesses[reading.sources[0]])
        for reading in readings.each
    )
    return dataclasses.replace(readings, each=each)


def _decided(
    model: Any, plan: Plan, head: Any, version: int | None
) -> list[Decision]:
    """Decides about each output, once for a version of the model."""
    key = ("heads", version, head)
    keeps = version is not None and isinstance(head, (str, Head))
    known = facts.find(model, key) if keeps else None
    if known is not None:
        return list(known[0])
    decisions = resolve_heads(model, len(plan.outputs), head, plan.pack)
    if keeps:
        facts.keep(model, key, decisions)
    return decisions


def _paired(
    pairs: Sequence[Pair], results: Any, heads: Sequence[Head]
) -> Readings:
    """Returns readings of which some take two outputs."""
    second = {pair.location: pair.log_variance for pair in pairs}
    sources = {
        number: (number, second[number]) if number in second else (number,)
        for number in range(len(heads))
        if number not in second.values()
    }
    each = tuple(Reading(heads[n], taken) for n, taken in sources.items())

    def pack(values: Sequence[Any]) -> Any:
        return fill(results, dict(zip(sources, values, strict=True)))

    return Readings(each, pack)


def _location(head: Head) -> str:
    """Returns the name of what a head with learned noise takes first."""
    return head.location if isinstance(head, LearnedNoise) else "mean"


def _shape(plan: Plan, number: int) -> tuple[int | None, ...]:
    return tuple(plan.specs[plan.outputs[number]].shape)
