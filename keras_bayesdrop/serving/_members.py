# SPDX-License-Identifier: Apache-2.0
"""Plans the networks that an export holds: one, or those of an ensemble."""

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.methods import Job
from keras_bayesdrop.prediction.model_checks import members_of
from keras_bayesdrop.prediction.reading import Readings
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.start import prepare
from keras_bayesdrop.serving._signature import SignatureInputs
from keras_bayesdrop.serving._signature import inputs_of
from keras_bayesdrop.views import deterministic


@dataclasses.dataclass(frozen=True)
class Member:
    """A network of an export.

    Attributes:
        job: Its model, plan and readings.
        inputs: The inputs of its signature.
        draws: Whether it has active noise.
    """

    job: Job
    inputs: SignatureInputs
    draws: bool


def prepare_members(
    model: Any, layers: LayerSelection, head: Any, input_signature: Any
) -> list[Member]:
    """Reads, checks and plans a model, or those of an ensemble.

    Args:
        model: A Keras model, or a list of them.
        layers: Which noise is active.
        head: What the caller says of the outputs.
        input_signature: Structure of specs like the inputs, or `None`.
    """
    several, models = members_of(model)
    members = []
    for each in models:
        starter = prepare(each, layers, False, may_lack_noise=several)
        inputs = inputs_of(starter.model, input_signature)
        # An export draws by itself: only the model's part of a job counts.
        request = Request(num_samples=2, batch_size=None, seed=0)
        job = starter.job(head, request, inputs.example())
        draws = starter.draws(job)
        if draws or not several:
            job.plan.require_folding()
        if job.readings.need_values:
            _check_values(starter.model, job.readings, inputs, job.plan)
        members.append(Member(job, inputs, draws))
    _check_alike(members)
    return members


def _check_alike(members: Sequence[Member]) -> None:
    """Raises if networks of an ensemble differ in what they take or make."""
    first = _interface(members[0])
    for number, member in enumerate(members):
        if _interface(member) != first:
            raise BayesdropError(
                "The networks of an ensemble take or predict different "
                f"things. Expected (inputs, heads, outputs) {first}, as of "
                f"network 0. Received: {_interface(member)} of network {number}"
            )
    if len(members) == 1 and not members[0].draws:
        raise BayesdropError(
            "One network without noise has no variance. Expected at least two "
            "networks, or noise. Received: an ensemble of one network"
        )


def _interface(member: Member) -> tuple[Any, ...]:
    """Returns what members of an ensemble have in common."""
    plan, readings = member.job.plan, member.job.readings
    specs = [
        (tuple(spec.shape), spec.dtype.name)
        for spec in member.inputs.specs.values()
    ]
    shapes = [tuple(plan.specs[number].shape)[1:] for number in plan.outputs]
    return specs, readings.heads, plan.pack(list(map(str, shapes)))


def _check_values(
    model: Any, readings: Readings, inputs: SignatureInputs, plan: Plan
) -> None:
    """Holds what the heads expect against the outputs for made-up rows."""
    random = np.random.default_rng(0)

    def rows(spec: tf.TensorSpec) -> tf.Tensor:
        shape = [2, *(size or 1 for size in spec.shape[1:])]
        if spec.dtype.is_floating:
            return tf.cast(random.normal(size=shape), spec.dtype)
        return tf.zeros(shape, spec.dtype)

    try:
        outputs = deterministic(model)(
            inputs.pack([rows(spec) for spec in inputs.specs.values()])
        )
    except (tf.errors.OpError, TypeError, ValueError):
        return  # The model does not take such rows.
    numbers = keras.tree.flatten(plan.pack(list(range(len(plan.outputs)))))
    pairs = zip(numbers, keras.tree.flatten(outputs), strict=True)
    flat = [value for _, value in sorted(pairs, key=operator.itemgetter(0))]
    readings.check_values([values[0] for values in readings.values(flat)])
