# SPDX-License-Identifier: Apache-2.0
"""Predictions of the reference and the fused engine, and comparisons.

Samples of both engines agree up to the rounding of float32 sums, 1e-5 of the
largest.
"""

import keras
import numpy as np
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests.helpers import flat

MASKS = ("shared", "independent")
ROWS, SAMPLES = 5, 7


def predict(model, x, engine, num_samples=SAMPLES, **kwargs):
    """Returns the prediction of every output."""
    predicted = kbd.predict_with_uncertainty(
        model,
        x,
        num_samples,
        return_samples=True,
        verbose=0,
        **flat(engine=engine, **{"seed": 3, **kwargs}),
    )
    return keras.tree.flatten(predicted)


def samples(model, x, engine, num_samples=SAMPLES, **kwargs):
    """Returns the samples of every output, [samples, rows, ...]."""
    predicted = predict(model, x, engine, num_samples, **kwargs)
    return [each.samples for each in predicted]


def assert_close(actual, desired, rtol=1e-5):
    assert len(actual) == len(desired)
    for one, other in zip(actual, desired, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape and one.dtype == other.dtype
        scale = max(np.abs(other).max(), 1e-30)
        np.testing.assert_allclose(one, other, rtol=0, atol=rtol * scale)


def assert_same(actual, desired):
    for one, other in zip(actual, desired, strict=True):
        np.testing.assert_array_equal(one, other)


def draws(num_rows=ROWS, shared=False, **kwargs):
    settings = {
        "seed": tf.constant(5, tf.uint64),
        "first_sample": 14,
        "num_samples": 4,
        "num_blocks": 2,
        "first_row": 3,
        "num_rows": num_rows,
        "shared": shared,
        "balanced": False,
        **kwargs,
    }
    return Draws(**settings)


def run(engine, plan, x, drawn):
    """Runs a plan eagerly, which needs no trace."""
    cut = engine.run_prefix(plan, plan.flatten(x))
    return [np.asarray(y) for y in engine.run_suffix(plan, cut, drawn)]


def assert_engines_agree(model, x, rtol=1e-5, **kwargs):
    """Asserts that both engines draw the same samples."""
    plan = build_plan(model, kwargs.get("layers"), input_data.specs_of(x))
    fused, _ = choose_engine(plan, "fused")
    for shared, balanced in ((True, False), (False, False), (False, True)):
        drawn = draws(shared=shared, balanced=balanced)
        desired = run(Reference(), plan, x, drawn)
        actual = run(fused, plan, x, drawn)
        assert_close(actual, desired, rtol)
        first = keras.tree.flatten(desired)[0]
        assert first.reshape(ROWS, 4, -1).std(axis=1).max() > 0


def engines_of(model, **kwargs):
    """Returns, per path, the engine that runs it and why."""
    explained = kbd.explain(model, **kwargs)
    return {step.path: (step.engine, step.reason) for step in explained.steps}


def fused_paths(model, **kwargs):
    assigned = engines_of(model, engine="fused", **kwargs)
    return [path for path, (engine, _) in assigned.items() if engine == "fused"]
