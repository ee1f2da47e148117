# SPDX-License-Identifier: Apache-2.0
"""Steps that the fused engine leaves to TensorFlow, and its reasons."""

import os
import re
import subprocess
import sys

import keras
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.engines import select
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.plan import build_plan
from tests import zoo
from tests.engines.both_engines import assert_close
from tests.engines.both_engines import assert_engines_agree
from tests.engines.both_engines import assert_same
from tests.engines.both_engines import engines_of
from tests.engines.both_engines import samples
from tests.engines.chain_models import sequential

problem = op_library.library().problem
needs_library = pytest.mark.skipif(bool(problem), reason=problem)
layers = keras.layers


class Doubled(layers.Dense):
    def call(self, x):
        return 2 * super().call(x)


def own_activation(x):
    return keras.ops.relu(x) + 1


NOT_FUSED = {
    "subclass": (lambda: [layers.Dropout(0.5), Doubled(2)], "Doubled"),
    "own activation": (
        lambda: [layers.Dropout(0.5), layers.Dense(2, own_activation)],
        "own_activation",
    ),
    "alpha": (
        lambda: [layers.AlphaDropout(0.5), layers.Dense(2)],
        "alpha.*not compiled",
    ),
    "no Dense": (lambda: [layers.Dropout(0.5)], "no Dense"),
    "added": (
        lambda: [layers.GaussianNoise(0.5), layers.Dense(2)],
        "added Gaussian",
    ),
    "half precision": (
        lambda: [
            layers.Dense(4, dtype="mixed_float16"),
            layers.Dropout(0.5, dtype="mixed_float16"),
            layers.Dense(2, dtype="mixed_float16"),
        ],
        "computes in float16",
    ),
    "one mask for all rows": (
        lambda: [layers.Dropout(0.5, noise_shape=(1, 6)), layers.Dense(2)],
        "noise of shape",
    ),
}


@needs_library
@pytest.mark.parametrize("name", sorted(NOT_FUSED.keys() - {"half precision"}))
def test_noise_alone_is_compiled(name):
    make, reason = NOT_FUSED[name]
    model, x = sequential(*make()), zoo.numbers(6)
    actual = samples(model, x, "fused")
    assert_close(actual, samples(model, x, "reference"))
    assert_same(actual, samples(model, x, "auto"))
    noise, *others = kbd.explain(model, engine="fused").steps
    assert noise.engine == "noise"
    assert noise.reason.startswith("noise in one pass; ")
    assert {step.engine for step in others} <= {"reference"}
    told = " ".join(step.reason for step in (noise, *others))
    assert re.search(reason, told)


@pytest.mark.parametrize("name", NOT_FUSED)
def test_not_fused(name, monkeypatch):
    make, reason = NOT_FUSED[name]
    if name == "half precision" and problem:
        # A chain, but for the library that it would need.
        reason = "library"
    monkeypatch.setattr(select, "_noise_op", lambda: None)
    model, x = sequential(*make()), zoo.numbers(6)
    for predict in (
        lambda: samples(model, x, "fused"),
        lambda: kbd.explain(model, engine="fused"),
        lambda: choose_engine(build_plan(model), "fused"),
    ):
        with pytest.raises(
            EngineUnavailableError,
            match=f"(?s)fused engine cannot run.*{reason}"
            "(?s:.*)Expected engine='auto'.*Received: engine='fused'",
        ):
            predict()
    assert_same(samples(model, x, "auto"), samples(model, x, "reference"))
    told = kbd.explain(model).steps
    assert {step.engine for step in told} == {"reference"}


@needs_library
def test_reasons_are_given_step_by_step():
    model = sequential(
        layers.Dropout(0.5, name="a"),
        layers.Dense(5, "relu", name="b"),
        layers.AlphaDropout(0.5, name="c"),
        Doubled(5, name="d"),
        layers.Dense(5, own_activation, name="e"),
        layers.Dropout(0.5, name="f"),
        layers.Dense(2, name="g"),
    )
    told = engines_of(model, engine="fused")
    for path in "abfg":
        assert told[path] == ("fused", "dense chain")
    why = "noise in one pass; alpha, rate 0.5 is not compiled"
    assert told["c"] == ("noise", why)
    assert "Doubled" in told["d"][1]
    assert "own_activation" in told["e"][1]
    assert_engines_agree(model, zoo.numbers(6))
    table = str(kbd.explain(model, engine="fused"))
    assert "dense chain" in table and "noise in one pass" in table


@needs_library
@pytest.mark.parametrize("first", ["float32", "float64"])
@pytest.mark.parametrize("second", ["float32", "float64"])
def test_dtypes_that_change_on_the_way(first, second):
    """Keras converts between layers, whatever of them is fused."""
    model = sequential(
        layers.Dropout(0.5, dtype=first),
        layers.Dense(5, "relu", dtype=second),
        layers.Dropout(0.5, dtype=second),
        layers.Dense(4, "relu", dtype=first),
        layers.Dropout(0.5, dtype=first),
        layers.Dense(2, dtype=first),
        dtype=first,
    )
    x = zoo.numbers(6).astype(first)
    assert_close(samples(model, x, "auto"), samples(model, x, "reference"))


def test_library_switched_off():
    program = """
import keras
import numpy as np
import keras_bayesdrop as kbd
model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5),
                          keras.layers.Dense(2)])
x = np.ones((4, 3), "float32")
p = kbd.predict_with_uncertainty(model, x, 5, seed=1, verbose=0)
assert {step.engine for step in p.stats.engine} == {"reference"}
assert all("KBD_LIBRARY" in step.reason for step in p.stats.engine), p.stats
try:
    fused = kbd.Sampling(engine="fused")
    kbd.predict_with_uncertainty(model, x, 5, method=fused, verbose=0)
except kbd.BayesdropError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KBD_LIBRARY": "off", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("EngineUnavailableError The fused engine")
    for beat in ("cannot run", "KBD_LIBRARY=off", "Expected", "Received"):
        assert beat in done.stdout
