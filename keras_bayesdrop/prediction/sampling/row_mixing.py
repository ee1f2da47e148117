# SPDX-License-Identifier: Apache-2.0
"""Finds out whether rows of a batch influence each other under sampling."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.graph.cache import found_out
from keras_bayesdrop.prediction.row_check import rows_mix
from keras_bayesdrop.prediction.sampling.drawer import Drawer
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.programs import Block
from keras_bayesdrop.prediction.sampling.programs import sampler_for


def why_rows_mix(
    drawer: Drawer, geometry: Callable[[int], Geometry], inputs: Any
) -> tuple[str, bool, bool]:
    """Tries out whether other rows change a row; once per program.

    Args:
        drawer: Draws the samples.
        geometry: Chooses rows and samples of a step for so many rows.
        inputs: Structure of arrays or tensors, rows of `x`.

    Returns:
        Why samples have to run one at a time, empty if they need not;
        whether values with noise have rows in an order of their own; and
        whether other rows could not tell more.
    """
    plan = drawer.plan

    def mix(watch: bool) -> bool | None:
        return found_out(
            drawer.model,
            ("rows mix", plan.signature, drawer.engine.key, watch),
            lambda: rows_mix(
                lambda rows: _first_row(drawer, geometry, watch, rows), inputs
            ),
        )

    mixed = mix(watch=False)
    order = mix(watch=True) if plan.has_entries else False
    known = mixed is not None and order is not None
    if mixed:
        return "rows of a batch influence each other", bool(order), known
    if order:
        why = "noise is on values with rows in an order of their own"
        return why, True, known
    return "", False, known


def _first_row(
    drawer: Drawer,
    geometry: Callable[[int], Geometry],
    watch: bool,
    inputs: Any,
) -> list[tf.Tensor]:
    """Predicts a few rows; returns what belongs to the first of them.

    Args:
        drawer: Draws the samples.
        geometry: Chooses rows and samples of a step for so many rows.
        watch: Whether to look at what noise is put on, not at outputs.
        inputs: Structure of tensors.
    """
    plan = drawer.plan
    flat = plan.flatten(inputs)
    num_rows = int(flat[0].shape[0])
    engine: Engine = Reference() if watch else drawer.engine
    sampler = sampler_for(drawer.model, plan, drawer.engine, drawer.masks)
    outputs = sampler.suffix(
        plan,
        engine,
        sampler.prefix(plan, engine, flat),
        1 if watch else geometry(num_rows).num_blocks,
        drawer.key,
        Block(
            0,
            1 if plan.one_at_a_time else 2,
            drawer.request.first_row,
            num_rows,
        ),
        watch=watch,
    )
    if watch:
        return outputs[len(plan.outputs) :]
    return [
        output[: max(1, int(output.shape[0]) // num_rows)] for output in outputs
    ]
