# SPDX-License-Identifier: Apache-2.0
"""Lazy namespaces: their names, and use without TensorFlow and Keras."""

import inspect
import pathlib
import subprocess
import sys

import keras
import pytest

from keras_bayesdrop import calibrate
from keras_bayesdrop import metrics
from keras_bayesdrop import plots
from tests.update_golden import exported

ROOT = pathlib.Path(metrics.__file__).parents[2]
NAMESPACES = [calibrate, metrics, plots]

# Imports the rooms as if TensorFlow, Keras and some others were not installed.
# The rooms themselves are imported, without the package's `__init__`.
WITHOUT_KERAS = """
import importlib.abc
import sys
import types

BLOCKED = {"tensorflow", "keras", "scipy", "pandas", "sklearn"}

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
package = types.ModuleType("keras_bayesdrop")
package.__path__ = ["keras_bayesdrop"]
sys.modules["keras_bayesdrop"] = package
"""

USE = """
import numpy as np
from keras_bayesdrop import calibrate, metrics, plots
assert "matplotlib" not in sys.modules
assert "keras_bayesdrop.metrics._inputs" not in sys.modules

samples = np.random.default_rng(0).normal(size=(20, 30))
y = samples[0]
print(metrics.crps(y, samples) > 0, metrics.accuracy([1], [[0.2, 0.8]]))
probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
print(calibrate.temperature([0, 0, 1], probabilities).of)
print(plots.reliability_diagram([0, 0, 1], probabilities).get_title())
"""

MISSING = """
from keras_bayesdrop import metrics, plots
assert "BrierScore" in dir(metrics)
for module, name in ((metrics, "BrierScore"), (plots, "weight_heatmap")):
    try:
        getattr(module, name)
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("module", NAMESPACES)
def test_type_checkers_and_users_see_the_same_names(module):
    seen = {
        name
        for name in dir(module)
        if not name.startswith("_")
        and not inspect.ismodule(getattr(module, name))
    }
    assert seen - {"TYPE_CHECKING", "lazy_files"} == set(exported(module))


@pytest.mark.parametrize("module", NAMESPACES)
def test_files_do_not_shadow_names(module):
    folder = pathlib.Path(module.__file__).parent
    assert all(path.name.startswith("_") for path in folder.glob("*.py"))


def printed_by(program):
    completed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_functions_work_without_keras():
    assert printed_by(WITHOUT_KERAS + USE).splitlines() == [
        "True 1.0",
        "mean",
        "Reliability",
    ]


def test_without_keras_a_keras_metric_says_what_to_install():
    first, second = printed_by(WITHOUT_KERAS + MISSING).splitlines()
    for line, name in (
        (first, "keras_bayesdrop.metrics.BrierScore"),
        (second, "keras_bayesdrop.plots.weight_heatmap"),
    ):
        assert line.startswith(f"`{name}` needs a package")
        assert "pip install keras tensorflow" in line
        assert "Received: no module named" in line


@pytest.mark.parametrize(
    "name", ["BrierScore", "ExpectedCalibrationError", "IntervalCoverage"]
)
def test_keras_metrics_are_registered_by_the_import_of_the_package(name):
    registered = f"keras_bayesdrop>{name}"
    program = (
        "import keras, keras_bayesdrop\n"
        f"print(keras.saving.get_registered_object({registered!r}).__name__)"
    )
    assert printed_by(program).split() == [name]
    cls = getattr(metrics, name)
    assert keras.saving.get_registered_name(cls) == registered


def test_a_metric_that_was_saved_from_another_module_loads():
    config = keras.saving.serialize_keras_object(metrics.BrierScore())
    assert config["registered_name"] == "keras_bayesdrop>BrierScore"
    config["module"] = "keras_bayesdrop.streaming.brier_score"
    loaded = keras.saving.deserialize_keras_object(config)
    assert type(loaded) is metrics.BrierScore
