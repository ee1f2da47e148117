# SPDX-License-Identifier: Apache-2.0
"""Moments of the outputs of inner layers, over masks.

The plan of the model runs with other outputs: the outputs of the measured
layers, and the inputs of the logistic ones among them.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import as_floating
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.surgery import KERNEL_LAYERS
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.driver import drive
from keras_bayesdrop.prediction.methods import Job
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.prediction.progress import Progress
from keras_bayesdrop.prediction.reading import plain_readings
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch
from keras_bayesdrop.predictive.heads import Regression

_ACTIVATION_LAYERS = (
    keras.layers.Activation,
    keras.layers.ReLU,
    keras.layers.LeakyReLU,
    keras.layers.PReLU,
    keras.layers.ELU,
    keras.layers.Softmax,
)
_LOGISTIC = ("sigmoid", "softmax")


@dataclasses.dataclass(frozen=True)
class Unit:
    """One call of one layer whose outputs are measured.

    Attributes:
        path: Name in the report.
        layer: The layer.
        value: Number of its output in the graph.
        source: Number of its input in the graph, if its outputs have an NWGM:
            the layer is a linear map and a logistic function.
    """

    path: str
    layer: Any
    value: int
    source: int | None


@dataclasses.dataclass(frozen=True)
class UnitMoments:
    """Arrays [rows, ...] of one call; see `LayerConsistency`."""

    mean: Array
    variance: Array
    deterministic: Array
    nwgm: Array | None
    mean_variance: Array | None


def find_units(model: Any, graph: Graph, plan: Plan, layers: Any) -> list[Unit]:
    """Returns the calls to measure, in the order of the graph.

    Args:
        model: The model, for messages.
        graph: Its graph.
        plan: Its plan.
        layers: Names or paths of layers; `None` for all.

    Returns:
        At least one.
    """
    units = []
    calls: dict[str, int] = {}
    for node in graph.nodes:
        if not isinstance(
            node.operation, (*KERNEL_LAYERS, *_ACTIVATION_LAYERS)
        ):
            continue
        if node.outputs[0] in plan.batchless | plan.entries:
            continue  # The output has no row for each input.
        calls[node.path] = calls.get(node.path, 0) + 1
        again = calls[node.path]
        path = node.path if again == 1 else f"{node.path}:{again}"
        source = node.inputs[0] if _is_logistic(node) else None
        units.append(Unit(path, node.operation, node.outputs[0], source))
    if layers is not None:
        chosen = _chosen(layers, units)
        units = [unit for unit in units if unit.path in chosen]
    if not units:
        raise BayesdropError(
            f"Model `{model.name}` has no units to measure. Expected a dense, "
            "convolutional or activation layer. Received: "
            f"{sorted({type(n.operation).__name__ for n in graph.nodes})}"
        )
    return units


def measure_units(
    model: Any, plan: Plan, units: Sequence[Unit], x: Any, request: Request
) -> list[UnitMoments]:
    """Samples the units.

    Args:
        model: The model.
        plan: Its plan.
        units: The calls to measure.
        x: Arrays, or a stream of them.
        request: Number of samples, seed and batch size.

    Returns:
        The moments of each unit.
    """
    began = time.perf_counter()
    wanted = [unit.value for unit in units]
    wanted += [unit.source for unit in units if unit.source is not None]
    values = tuple(dict.fromkeys(wanted))
    plan = _with_outputs(plan, values)
    readings = plain_readings(plan, [Regression()] * len(values))
    job = Job(model, survey(model), plan, readings, request)
    plain: list[list[Any]] = []
    outputs = drive(
        model,
        x,
        lambda _: Sampling().start(job),
        Progress(model, None, 0),
        began,
        batch_size=request.batch_size,
        watch=lambda batch: plain.append(_without_noise(plan, batch.inputs)),
    )
    sampled = dict(zip(values, outputs, strict=True))
    rows = rows_per_batch(plan, request.batch_size)
    by_value = map(np.concatenate, zip(*plain, strict=True))
    fixed = dict(zip(values, by_value, strict=True))
    return [
        UnitMoments(
            sampled[unit.value].mean,
            sampled[unit.value].variance,
            as_floating(fixed[unit.value]),
            None
            if unit.source is None
            else _nwgm(plan, unit, sampled[unit.source].mean, rows),
            sampled[unit.value].mean_variance,
        )
        for unit in units
    ]


def _chosen(layers: Any, units: Sequence[Unit]) -> set[str]:
    """Returns the paths of the units that names or paths choose."""
    names = [layers] if isinstance(layers, str) else layers
    if not isinstance(names, (list, tuple, set)) or not names:
        raise SelectionError(
            "Invalid value for argument `layers`. Expected `None`, the name "
            f"of a layer, or a list of names. Received: layers={layers!r}"
        )
    paths: set[str] = set()
    for name in names:
        matched = {u.path for u in units if name in (u.path, u.layer.name)}
        if not matched:
            raise SelectionError(
                "An entry of `layers` names no layer whose units can be "
                f"measured. Expected one of {[u.path for u in units]}. "
                f"Received: {name!r}"
            )
        paths |= matched
    return paths


def _is_logistic(node: Node) -> bool:
    """Returns whether a layer is linear up to a sigmoid or a softmax."""
    layer = node.operation
    if isinstance(layer, keras.layers.Softmax):
        return len(node.inputs) == 1
    name = getattr(getattr(layer, "activation", None), "__name__", None)
    return name in _LOGISTIC


def _with_outputs(plan: Plan, values: tuple[int, ...]) -> Plan:
    """Returns a plan with other outputs. The sites keep their noise."""
    random = {v for step in plan.suffix for v in step.outputs}
    taken = [v for step in plan.suffix for v in step.inputs] + list(values)
    return dataclasses.replace(
        plan,
        cut=tuple(dict.fromkeys(v for v in taken if v not in random)),
        outputs=values,
        pack=list,
        signature=("units", plan.signature, values),
    )


def _without_noise(plan: Plan, inputs: Any) -> list[Any]:
    """Returns the outputs of a plan with all noise off."""
    engine = Reference()
    cut = engine.run_prefix(plan, plan.flatten(inputs))
    outputs = engine.run_suffix(plan, cut, None)
    return [keras.ops.convert_to_numpy(output) for output in outputs]


def _nwgm(plan: Plan, unit: Unit, mean_input: Array, rows: int) -> Array:
    """Returns the NWGM of a logistic layer.

    The NWGM is exactly the layer's output at the mean of its inputs, because
    the linear part maps that mean to `E(S)`. Logarithms of outputs would be
    infinite where outputs round to zero or one.
    """
    (step,) = (s for s in plan.steps if unit.value in s.outputs)
    outputs = []
    for begin in range(0, len(mean_input), rows):
        inputs = tf.cast(
            mean_input[begin : begin + rows], plan.specs[step.inputs[0]].dtype
        )
        with keras.StatelessScope():
            if isinstance(step, NoiseStep):
                outputs.append(step.noise.expected(inputs))
            else:
                outputs.append(step.call([inputs], None)[0])
    parts = [keras.ops.convert_to_numpy(part) for part in outputs]
    return as_floating(np.concatenate(parts))
