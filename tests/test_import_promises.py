# SPDX-License-Identifier: Apache-2.0
"""Promises of `import keras_bayesdrop`, each in a process of its own.

A saved model loads with only this import. Where Keras and TensorFlow are
missing, results can still be loaded, scored, calibrated and drawn. Nothing is
imported that nobody asked for.
"""

import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_bayesdrop"

# Slow to import, or not installed with the package: imported where used.
HEAVY = {"matplotlib", "pandas", "scipy", "sklearn", "tensorflow_probability"}
# Rooms that hold no class of a saved model.
UNUSED_ROOMS = {
    *("calibrate", "callbacks", "cli", "decisions", "diagnostics", "moments"),
    *("plots", "prediction", "serving", "sklearn", "sparsity", "theory"),
}

# Makes a process one where some packages are not installed.
BLOCK = """
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
"""
MISSING = ("keras", "tensorflow", "tensorflow_probability", "tf_keras")


def run(program, *arguments, cwd=ROOT):
    """Runs a program in a new process; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# A saved model.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A compiled model with classes from several rooms, in a file."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            kbd.MCGaussianDropout(0.5),
            keras.layers.Dense(4),
            kbd.MCDropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", kbd.losses.GaussianNLL(1.0))
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path


@pytest.mark.parametrize(
    "imports",
    [
        "import keras_bayesdrop, keras",
        "import keras, keras_bayesdrop",
        "import tensorflow, keras_bayesdrop, keras",
        "from keras_bayesdrop import errors; import keras",
    ],
)
def test_saved_model_loads_in_either_order_of_imports(saved, imports):
    program = (
        f"{imports}\nimport sys\n"
        "model = keras.saving.load_model(sys.argv[1])\n"
        "print(*(type(layer).__name__ for layer in model.layers))\n"
        "print(type(model.loss).__name__)\n"
    )
    assert run(program, saved).splitlines() == [
        "MCGaussianDropout Dense MCDropout Dense",
        "GaussianNLL",
    ]


def test_every_registered_class_is_imported():
    exported = set()
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(
            r'^@export\(\s*"keras_bayesdrop\.([\w.]+)"',
            path.read_text("utf-8"),
            re.MULTILINE,
        ):
            exported.add(f"keras_bayesdrop>{name.rpartition('.')[2]}")
    assert len(exported) > 30
    program = (
        "import keras_bayesdrop, keras\n"
        "print(*keras.saving.get_custom_objects())"
    )
    assert exported <= set(run(program).split())


# Modules that an import loads.


def loaded(program):
    return set(run(f"{program}\nimport sys\nprint(*sys.modules)").split())


def test_nothing_is_imported_that_nobody_asked_for():
    new = loaded("import keras, keras_bayesdrop") - loaded("import keras")
    assert not HEAVY & new
    rooms = {name.split(".")[1] for name in new if name.count(".") == 1}
    assert "layers" in rooms
    assert not UNUSED_ROOMS & rooms


def test_without_keras_hardly_anything_is_imported():
    block = BLOCK.format(blocked=MISSING)
    new = loaded(f"{block}\nimport numpy, keras_bayesdrop") - loaded(
        f"{block}\nimport numpy"
    )
    ours = {name for name in new if name.startswith("keras_bayesdrop")}
    assert ours == {
        "keras_bayesdrop",
        "keras_bayesdrop._core",
        "keras_bayesdrop._core.lazy",
        "keras_bayesdrop._core.version",
        "keras_bayesdrop.errors",
    }


# Without Keras and TensorFlow.


def test_results_can_be_used_without_keras(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    result = kbd.predict_with_uncertainty(
        model, x, 20, seed=0, return_samples=True, verbose=0
    )
    result.save(tmp_path / "result.npz")
    truth = x[:, :1]
    np.save(tmp_path / "truth.npy", truth)
    program = f"""
{BLOCK.format(blocked=MISSING)}
import numpy as np
import keras_bayesdrop as kbd

result = kbd.Predictive.load("result.npz")
truth = np.load("truth.npy")
print(repr(result.mean.sum()))
print(repr(kbd.metrics.root_mean_squared_error(truth, result.mean)))
print(repr(kbd.calibrate.noise_precision(y=truth, prediction=result)))
import matplotlib
matplotlib.use("agg")
print(kbd.plots.parity(y=truth, p=result).get_xlabel())
print(*({set(MISSING)} & set(sys.modules)))
"""
    mean, error, precision, label, heavy = run(program, cwd=tmp_path).split(
        "\n", 4
    )
    assert mean == repr(result.mean.sum())
    assert error == repr(
        kbd.metrics.root_mean_squared_error(truth, result.mean)
    )
    assert precision == repr(
        kbd.calibrate.noise_precision(y=truth, prediction=result)
    )
    assert label
    assert not heavy.strip()


@pytest.mark.parametrize("missing", ["keras", "tensorflow"])
@pytest.mark.parametrize(
    "ask",
    [
        "kbd.predict_with_uncertainty",
        "kbd.layers",
        "kbd.MCDropout",
        "from keras_bayesdrop import stochastic",
    ],
)
def test_asking_for_the_rest_says_what_to_install(ask, missing):
    program = f"""
{BLOCK.format(blocked=(missing,))}
import keras_bayesdrop as kbd
try:
    {ask}
except ImportError as error:
    print(type(error).__name__)
    print(error)
"""
    name = ask.split()[-1].removeprefix("kbd.")
    assert run(program).splitlines() == [
        "MissingPackageError",
        f"`keras_bayesdrop.{name}` needs a package that is not installed. "
        "Expected keras and tensorflow; `pip install keras tensorflow` "
        f"installs what is missing. Received: no module named {missing!r}",
    ]


@pytest.mark.parametrize("name", ["BayesdropRegressor", "BayesdropClassifier"])
def test_estimators_say_that_they_need_scikit_learn(name):
    program = f"""
{BLOCK.format(blocked=("sklearn",))}
import keras_bayesdrop as kbd
print(*(name for name in dir(kbd.sklearn) if name.startswith("Bayesdrop")))
try:
    kbd.sklearn.{name}
except ImportError as error:
    print(type(error).__name__)
    print(error)
"""
    assert run(program).splitlines() == [
        "BayesdropClassifier BayesdropRegressor",
        "MissingPackageError",
        f"`keras_bayesdrop.sklearn.{name}` needs a package that is not "
        "installed. Expected keras and tensorflow and sklearn; `pip install "
        "keras-bayesdrop[sklearn]` installs what is missing. Received: no "
        "module named 'sklearn'",
    ]


def test_names_are_listed_without_keras():
    program = (
        f"{BLOCK.format(blocked=MISSING)}\nimport keras_bayesdrop as kbd\n"
        "print(*dir(kbd))"
    )
    assert {"layers", "predict_with_uncertainty", "Predictive"} <= set(
        run(program).split()
    )
