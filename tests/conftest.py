# SPDX-License-Identifier: Apache-2.0
"""Makes every test start from the same state, quietly."""

import os
import sys

# Before TensorFlow is imported, by this process or by one that a test starts.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "2")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["MPLBACKEND"] = "Agg"

import hypothesis
import keras
import pytest

from tests import engine_tests

# The first example of a property traces a graph, so a deadline per example
# would fail at random; and a run must be repeatable.
hypothesis.settings.register_profile(
    "keras_bayesdrop", deadline=None, derandomize=True, max_examples=25
)
hypothesis.settings.load_profile("keras_bayesdrop")


@pytest.fixture(autouse=True)
def _fresh_state():
    """Resets layer names, global policies, every seed and what is drawn."""
    keras.utils.clear_session(free_memory=False)
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(0)
    # pyplot keeps every figure until it is closed. Which tests a process has
    # run before this one is up to the workers, so what they drew goes first.
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


engine_tests.watch()


def pytest_collection_modifyitems(items):
    """Marks the tests that depend on the engine."""
    for item in items:
        if engine_tests.file_of(item) in engine_tests.FILES:
            item.add_marker("engine")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Notices a test that depends on the engine and is not marked."""
    result = yield
    engine_tests.check(item)
    return result
