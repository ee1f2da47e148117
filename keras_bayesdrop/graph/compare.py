# SPDX-License-Identifier: Apache-2.0
"""Compares what two traces of an operation compute."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.graph.traces import Trace


def same_outputs(
    one: Trace, other: Trace, specs: Sequence[tf.TensorSpec]
) -> bool:
    """Returns whether two traces compute the same of numbers of many sizes."""
    if one.shapes != other.shapes:
        return False
    inputs = [_numbers(spec) for spec in specs]
    try:
        results = [_run_unoptimised(each.run, inputs) for each in (one, other)]
    except Exception:
        # What cannot be run cannot be shown to be the same.
        return False
    return all(
        a.shape == b.shape and _close(a, b)
        for a, b in zip(*results, strict=True)
    )


def _run_unoptimised(traced: Any, inputs: Sequence[tf.Tensor]) -> list[Any]:
    """Runs a traced function as it stands, without TensorFlow's rewriting.

    Grappler fuses `x + (x @ kernel + bias)` into an op that has no kernel on
    some CPUs, where noise at its expected value leaves the same `x` on both
    sides. The noise itself stops the fusion.
    """
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    outputs = tf.raw_ops.StatefulPartitionedCall(
        args=[*inputs, *traced.captured_inputs],
        Tout=[tensor.dtype for tensor in traced.graph.outputs],
        f=traced,
        config_proto=config.SerializeToString(),
    )
    return [np.asarray(x) for x in outputs]


def _close(a: Any, b: Any) -> bool:
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    # Both compute the same sums, perhaps in another order: some units in the
    # last place of float32, relative to the largest number of the row.
    size = np.max(np.abs(a[np.isfinite(a)]), initial=1e-30)
    tolerance = 1e-5 if a.dtype.itemsize >= 4 else 1e-2
    return bool(
        np.allclose(a, b, rtol=tolerance, atol=1e-6 * size, equal_nan=True)
    )


def _numbers(spec: tf.TensorSpec) -> tf.Tensor:
    """Returns a batch whose rows are of very different sizes."""
    shape = [dim or 1 for dim in spec.shape.as_list()]
    if not spec.dtype.is_numeric:
        return tf.zeros(shape, spec.dtype)
    if not spec.dtype.is_floating:
        # Zeros and ones: most vocabularies have both, and 0 may be padding.
        places = np.arange(math.prod(shape)).reshape(shape)
        return tf.constant(places % 3 != 2, spec.dtype)
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(shape)
    if shape:
        scales = 10.0 ** np.linspace(-2, 2, shape[0])
        numbers *= scales.reshape([-1, *[1] * (len(shape) - 1)])
    return tf.constant(numbers, spec.dtype)
