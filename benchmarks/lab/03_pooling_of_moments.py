# SPDX-License-Identifier: Apache-2.0
"""How to take moments through relu and max pooling of feature maps.

    python benchmarks/lab/03_pooling_of_moments.py

Times ways to compile it for 256 maps of 24 by 24 with 64 channels, in turn,
after checking those that agree. The winner is a loop for each axis with one
output, `fused` of `keras_bayesdrop/moments/fusing.py`, and relu last, as in
`keras_bayesdrop/moments/rules/max_pooling.py`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness

from keras_bayesdrop.moments import activations
from keras_bayesdrop.moments.fusing import fused
from keras_bayesdrop.moments.rules.max_pooling import _pool_axis

SHAPE = (256, 24, 24, 64)


def relu(*x: tf.Tensor) -> Any:
    """Mean and variance behind relu."""
    return activations.relu(*x)[:2]


def rows(*x: tf.Tensor) -> Any:
    """Maxima of two rows."""
    return _pool_axis(1, 2, *x)


def columns(*x: tf.Tensor) -> Any:
    """Maxima of two columns."""
    return _pool_axis(2, 2, *x)


def compiled(*steps: Callable[..., Any]) -> Callable[..., Any]:
    """All steps in one program of XLA, with an output for each moment."""

    def run(*x: tf.Tensor) -> Any:
        for step in steps:
            x = step(*x)
        return x

    return tf.function(run, autograph=False, jit_compile=True)


def one_by_one(*steps: Callable[..., Any]) -> Callable[..., Any]:
    """A program for each step, with an output for each moment."""
    programs = [compiled(step) for step in steps]

    def run(*x: tf.Tensor) -> Any:
        for program in programs:
            x = program(*x)
        return x

    return run


def one_output(*steps: Callable[..., Any]) -> Callable[..., Any]:
    """A program for each step, with both moments in one output."""
    return tf.function(lambda *x: fused(steps, *x), autograph=False)


def main() -> None:
    """Prints milliseconds by way."""
    rng = np.random.default_rng(0)
    x = (
        tf.constant(rng.normal(size=SHAPE).astype(np.float32)),
        tf.constant(rng.uniform(0.01, 1, size=SHAPE).astype(np.float32)),
    )
    behind, before = (relu, rows, columns), (rows, columns, relu)
    ways = {
        "relu first, one program": compiled(*behind),
        "relu first, one by one": one_by_one(*behind),
        "relu first, one output": one_output(*behind),
        "relu last, one program": compiled(*before),
        "relu last, one by one": one_by_one(*before),
        "relu last, one output": one_output(*before),
    }
    made = [way(*x) for way in ways.values()]
    for group in (made[:3], made[3:]):
        for other in group[1:]:
            for one, two in zip(group[0], other, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)
    cases = {
        name: lambda way=way: [each[0].numpy() for each in way(*x)]
        for name, way in ways.items()
    }
    for name, time in harness.time_in_turn(cases, rounds=9).items():
        print(f"{name:24}: {1e3 * time['best']:5.1f} ms")


if __name__ == "__main__":
    main()
