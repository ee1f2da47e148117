# SPDX-License-Identifier: Apache-2.0
"""Finds the layer behind which no sample differs from another.

Noise can be drawn and still change nothing: a mask on zeros, units that are
all switched off. The steps of a plan are then run once per sample, and the
first whose output never varies is named.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.engines import interpreter
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.noise.draws import MaskRule
from keras_bayesdrop.plan import Plan

# A unit that is dropped once in ten samples is dropped once in so many, but
# for one case in 850.
_SAMPLES = 64
ROWS = 4


def first_constant_layer(
    plan: Plan,
    cut: Sequence[tf.Tensor | None],
    seed: tf.Tensor,
    first_row: int,
    num_rows: int,
    masks: MaskRule,
) -> str:
    """Returns the path of the first layer whose output does not vary.

    Args:
        plan: The plan.
        cut: What its prefix made of some rows, values and then masks.
        seed: Scalar uint64.
        first_row: Index of the first of the rows.
        num_rows: How many there are.
        masks: Which masks are related to each other.

    Returns:
        The path; empty if the output of every layer varies.
    """
    half = len(plan.cut)
    values = list(cut[:half])
    for value, mask in zip(values, cut[half:], strict=True):
        if mask is not None:
            private_keras.set_mask(value, mask)
    first: dict[int, Any] = {}
    varies: dict[int, bool] = {}

    def look(number: int, outputs: Sequence[Any]) -> None:
        arrays = [np.asarray(x) for x in outputs if x is not None]
        before = first.setdefault(number, arrays)
        same = all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            for a, b in zip(before, arrays, strict=True)
        )
        varies[number] = varies.get(number, False) or not same

    for sample in range(_SAMPLES):
        draws = Draws(
            seed=seed,
            first_sample=sample,
            num_samples=1,
            num_blocks=1,
            first_row=first_row,
            num_rows=num_rows,
            **masks._asdict(),
            unordered=plan.unordered,
            rows_mix=plan.mixes_rows,
        )
        interpreter.run_suffix(plan, plan.suffix, values, draws, look=look)
        if all(varies.values()):
            break
    for number, step in enumerate(plan.suffix):
        if not varies[number]:
            return step.path or step.kind
    return ""
