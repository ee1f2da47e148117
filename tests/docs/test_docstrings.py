# SPDX-License-Identifier: Apache-2.0
"""Docstrings: their order, and their examples, which run and tell the truth.

An example takes some names for granted, such as `model` and `x`: a scene of
its own provides them, or else `_usual`. Long training is made short.
"""

import ast
import dataclasses
import doctest
import importlib
import math
import pathlib
import re
import tokenize
from io import StringIO

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop
from keras_bayesdrop import layers
from tests.docs.pages import blocks_in
from tests.helpers import flat
from tests.update_golden import public_names

ROOT = pathlib.Path(keras_bayesdrop.__file__).parent
SECTIONS = (
    "Args",
    "Call arguments",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Example",
    "References",
)
HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
NUMBER = r"-?\d+(?:\.\d+)?"
# A number that begins the comment, or a list of numbers anywhere in it.
VALUE = re.compile(rf"^{NUMBER}(?![\w%])|\[{NUMBER}(?:, {NUMBER})*\]")
OBJECT = re.compile(r"^[A-Z]\w*\(.*\)")
ROWS, FEATURES, CLASSES = 20, 6, 10


def _documented():
    """Yields module, name and docstring of functions and classes."""
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield module, node.name, ast.get_docstring(node) or ""


def _examples():
    return [
        pytest.param(module, name, code, id=f"{module}.{name}-{number}")
        for module, name, text in _documented()
        for number, code in enumerate(blocks_in(text))
    ]


def _dialogues():
    return [
        pytest.param(module, name, text, id=f"{module}.{name}")
        for module, name, text in _documented()
        if ">>>" in text
    ]


def _classes(*hidden, **kwargs):
    """A small classifier that is compiled."""
    model = keras.Sequential(
        [
            keras.Input((FEATURES,), **kwargs),
            *(hidden or [keras.layers.Dense(16, activation="relu")]),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(CLASSES, activation="softmax", name="classes"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def _usual():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = generator.integers(CLASSES, size=ROWS)
    return {
        **{name: x for name in ("x", "x_val", "x_test", "pool")},
        **{name: y for name in ("y", "y_val", "y_test")},
        "model": _classes(),
    }


def _regression(features=FEATURES):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, features)).astype(np.float32)
    y = generator.normal(size=(ROWS, 1)).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(1),
        ]
    )
    return {
        **{name: x for name in ("x", "x_train", "x_val", "x_test")},
        **{name: y for name in ("y", "y_train", "y_val", "y_test")},
        "model": model,
        "tau": 4.0,
    }


def _predicted(scene, **kwargs):
    """Predictions for two parts of the rows, with the targets of one."""
    half = ROWS // 2
    first, second = (
        keras_bayesdrop.predict_with_uncertainty(
            scene["model"], x, verbose=0, **flat(**kwargs)
        )
        for x in (scene["x"][:half], scene["x"][half:])
    )
    y = scene["y"][:half]
    return {
        **scene,
        "x": scene["x"][:half],
        "p": first,
        "p_val": first,
        "p_new": second,
        **{name: y for name in ("y", "y_val", "y_test")},
    }


def _half_right():
    scene = _predicted(_usual(), return_samples=True)
    likeliest = scene["p_val"].mean.argmax(axis=-1)
    return {**scene, "y_val": (likeliest + np.arange(len(likeliest)) % 2) % 10}


def _with_first_layer(make):
    """The usual scene, with a learned first layer in its model."""
    return lambda: {**_usual(), "model": _classes(make())}


def _layer_names():
    model = _classes(
        keras.layers.Dense(16, activation="relu", name="dense"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(16, activation="relu", name="dense_1"),
    )
    return {**_usual(), "model": model}


def _bayesian():
    return layers.BayesianDense(16, ROWS, activation="relu", name="dense")


def _variational():
    return layers.VariationalDense(16, ROWS, activation="relu")


def _residual():
    inner = keras.layers.Dense(FEATURES, activation="relu", use_bias=False)
    return layers.ADDResidual(inner, "half_cauchy", num_train_examples=ROWS)


def _hidden():
    return {**_usual(), "hidden": keras.KerasTensor((None, 50))}


def _matrices():
    generator = np.random.default_rng(0)
    return {
        "x": generator.normal(size=(4, 3)),
        "y": generator.normal(size=(4, 2)),
        "w": generator.normal(size=(3, 2)),
        "w1": generator.normal(size=(3, 5)),
        "w2": generator.normal(size=(5, 2)),
    }


def _square():
    @keras.saving.register_keras_serializable("tests")
    class Square(keras.layers.Layer):
        def call(self, inputs):
            return inputs**2

    return {"Square": Square}


def _files():
    scene = _usual()
    scene["model"].save("model.keras")
    header = ",".join(f"x{i}" for i in range(FEATURES))
    np.savetxt(
        "data.csv", scene["x"], delimiter=",", header=header, comments=""
    )
    return scene


def _images():
    scene = _usual()
    images = np.random.default_rng(0).random((12, 8, 8, 1), np.float32)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    return {
        **scene,
        "model": model,
        "rotated": images,
        "angles": np.linspace(0.0, 180.0, 12),
    }


def _band():
    scene = _regression(features=1)
    return {**scene, "grid": np.linspace(-2, 2, 30, dtype=np.float32)[:, None]}


def _two_models():
    dense = keras.layers.Dense
    return {
        **_usual(),
        "dropped": _classes(dense(16, name="hidden")),
        "ard": _classes(dense(16, name="hidden")),
    }


# What an example takes for granted, by the name that it documents.
SCENES = {
    "nwgm": lambda: {"inputs": np.linspace(-2.0, 2.0, 15).reshape(5, 3)},
    "expected_gradient": _matrices,
    "linear_moments": _matrices,
    "register_rule": _square,
    "conformal": lambda: _predicted(_regression(), return_samples=True),
    "noise_precision": lambda: _predicted(_regression(), return_samples=True),
    "temperature": _half_right,
    "defer": lambda: _predicted(_usual()),
    "plot": lambda: _predicted(_usual()),
    "DropoutRateLogger": _with_first_layer(
        lambda: layers.ConcreteDropout(keras.layers.Dense(16), ROWS)
    ),
    "KLAnnealing": _with_first_layer(_variational),
    "RelevanceLogger": _with_first_layer(_bayesian),
    "relevance": _with_first_layer(_bayesian),
    "prune": _with_first_layer(_variational),
    "sparsity_report": _with_first_layer(_variational),
    "to_sparse_size": _with_first_layer(_variational),
    "effective_depth": _with_first_layer(_residual),
    "prune_depth": _with_first_layer(_residual),
    "main": _files,
    "consistency": _layer_names,
    "Cascade": lambda: {**_usual(), "small": _classes(), "large": _classes()},
    "ThompsonSampler": lambda: {
        **_usual(),
        "contexts": np.ones((3, 1, FEATURES), np.float32),
    },
    "class_scatter": _images,
    "entropy_histogram": lambda: {
        **_usual(),
        "noise": np.ones((5, FEATURES), np.float32),
    },
    "importance_weights": _regression,
    "parity": _regression,
    "regression_calibration": _regression,
    "sample_function": _regression,
    "GaussianNLL": _regression,
    "MonteCarloModel": lambda: _regression(features=13),
    "predictive_band": _band,
    "weight_heatmap": _two_models,
    "ADD": _hidden,
    "ARDADD": _hidden,
    "export_uncertainty": lambda: {
        **_usual(),
        "model": _classes(name="image"),
    },
}
MODULES = {
    "keras": keras,
    "keras_bayesdrop": keras_bayesdrop,
    "np": np,
    "tf": tf,
    "math": math,
    "dataclasses": dataclasses,
}


def test_sections_are_in_order():
    wrong = [
        f"{module}.{name}: {found}"
        for module, name, text in _documented()
        if (found := HEADING.findall(text))
        != sorted(set(found), key=SECTIONS.index)
    ]
    assert not wrong


# A layer of the paper as it was published warns of the prior that it had.
@pytest.mark.filterwarnings("ignore:The log-uniform prior is improper")
@pytest.mark.parametrize(("module", "name", "code"), _examples())
def test_the_example_runs(module, name, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {**MODULES, **SCENES.get(name, _usual)()}
    documented = vars(importlib.import_module(module))
    for used in _names_in(code) - names.keys():
        if used in documented:  # a function by its bare name
            names[used] = documented[used]
        elif hasattr(keras_bayesdrop, used):
            names[used] = getattr(keras_bayesdrop, used)
    short = code.replace("epochs=100", "epochs=2")
    comments = _comments(short)
    for statement in ast.parse(short).body:
        value = _run(statement, names)
        _check(value, comments.get(statement.end_lineno, ""))


@pytest.mark.parametrize(("module", "name", "text"), _dialogues())
def test_the_dialogue_is_right(module, name, text):
    names = {**vars(importlib.import_module(module)), "np": np}
    dialogue = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    complaints = StringIO()
    assert not runner.run(dialogue, out=complaints.write).failed, (
        complaints.getvalue()
    )


def _names_in(code):
    return {
        node.id for node in ast.walk(ast.parse(code)) if hasattr(node, "id")
    }


def _comments(code):
    """The comments of some code, by the line that they are about.

    One that has a line of its own is about the line above.
    """
    return {
        token.start[0] - (token.start[1] == 0): token.string.lstrip("# ")
        for token in tokenize.generate_tokens(StringIO(code).readline)
        if token.type == tokenize.COMMENT
    }


def _run(statement, names):
    """Runs a statement; returns the value of an expression or assignment."""
    if isinstance(statement, ast.Expr):
        return eval(_compiled(ast.Expression(statement.value), "eval"), names)
    exec(_compiled(ast.Module([statement], []), "exec"), names)
    target = getattr(statement, "targets", [None])[0]
    return names[target.id] if isinstance(target, ast.Name) else None


def _compiled(tree, mode):
    return compile(ast.fix_missing_locations(tree), "<example>", mode)


def _check(value, said):
    """Compares a value with what the comment says it is, if it says so."""
    if match := OBJECT.match(said):
        pattern = re.escape(match[0]).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, repr(value))
    elif match := VALUE.search(said):
        numbers = re.findall(NUMBER, match[0])
        places = min(len(number.partition(".")[2]) for number in numbers)
        shape = np.shape(value)
        assert shape == ((len(numbers),) if match[0].startswith("[") else ())
        # All digits that are printed, the last one rounded.
        np.testing.assert_allclose(
            value,
            np.reshape([float(number) for number in numbers], shape),
            rtol=0,
            atol=0.5001 * 10.0**-places,
        )


def test_values_beside_examples_are_compared():
    _check(np.float32(0.5), "0.5")
    _check([0.25, 1.0], "so the same: [0.25, 1.00]")
    _check(keras_bayesdrop.noise.get("rayleigh"), "Rayleigh(scale=...)")
    for value, said in ((0.6, "0.5"), ([0.25], "[0.26]"), (1.0, "[1.0]")):
        with pytest.raises(AssertionError):
            _check(value, said)
    with pytest.raises(AssertionError):
        _check(keras_bayesdrop.noise.get("rayleigh"), "Uniform(low=0.0)")


# Results, which a user is given, by package.
RESULTS = {
    "calibrate": {"ConformalIntervals", "ConformalSets", "Temperature"},
    "decisions": {
        "Acquisition",
        "CascadeResult",
        "Deferral",
        "PosteriorFunction",
    },
    "metrics": {"CalibrationCurve", "Reliability", "RiskCoverage"},
    "moments": {"Outcome"},
    "priors": {"GroupScales"},
    "sparsity": {
        "BlockDepth",
        "DepthReport",
        "LayerSparsity",
        "SparseSize",
        "SparsityReport",
    },
    "theory": {"ExpectedGradient", "LinearMoments"},
}
# What someone who adds a layer, a rule, a noise or a prior builds upon, and
# noise that layers make for themselves.
PARTS = {
    "moments": {"Factor", "Matrix", "MeanVariance"},
    "noise": {
        "AdditiveGaussian",
        "Alpha",
        "Concrete",
        "LearnedBernoulli",
        "LearnedGaussian",
        "Multiplicative",
        "Noise",
        "NoiseSource",
        "NoiseThenLayer",
        "WeightNoise",
        "WeightNoiseSource",
    },
    "losses": {"Likelihood"},
    "priors": {"ScalePrior", "WeightPrior"},
    "sparsity": {"PlainInside", "SparseSource"},
}


def test_what_a_user_makes_or_calls_has_an_example():
    without = {}
    for dotted in public_names():
        parent, _, name = dotted.rpartition(".")
        found = getattr(importlib.import_module(parent), name)
        text = getattr(found, "__doc__", None) or ""
        error = isinstance(found, type) and issubclass(found, Exception)
        if callable(found) and not (error or blocks_in(text) or ">>>" in text):
            package = parent.rpartition(".")[2]
            without.setdefault(package, set()).add(name)
    allowed = {
        package: RESULTS.get(package, set()) | PARTS.get(package, set())
        for package in RESULTS.keys() | PARTS.keys()
    }
    assert without == allowed
