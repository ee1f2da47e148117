# SPDX-License-Identifier: Apache-2.0
"""Docstrings: their order, and their examples, which run and tell the truth.

An example that names no scene of its own runs in `usual`. Long training is
made short.
"""

import ast
import doctest
import importlib
import pathlib
import re
import tokenize
from io import StringIO

import numpy as np
import pytest

import keras_bayesdrop
from tests.docs.pages import blocks_in
from tests.docs.scenes import MODULES
from tests.docs.scenes import SCENES
from tests.docs.scenes import usual
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


def test_sections_are_in_order():
    wrong = [
        f"{module}.{name}: {headings}"
        for module, name, text in _documented()
        if (headings := HEADING.findall(text))
        != sorted(set(headings), key=SECTIONS.index)
    ]
    assert not wrong


# A layer of the paper as it was published warns of the prior that it had.
@pytest.mark.filterwarnings("ignore:The log-uniform prior is improper")
@pytest.mark.parametrize(("module", "name", "code"), _examples())
def test_the_example_runs(module, name, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {**MODULES, **SCENES.get(name, usual)()}
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


# Classes that functions return to a user, by package.
RESULTS = {
    "keras_bayesdrop": {"Evaluation"},
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
        "MaskTable",
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
        public = getattr(importlib.import_module(parent), name)
        text = getattr(public, "__doc__", None) or ""
        error = isinstance(public, type) and issubclass(public, Exception)
        if callable(public) and not (error or blocks_in(text) or ">>>" in text):
            package = parent.rpartition(".")[2]
            without.setdefault(package, set()).add(name)
    allowed = {
        package: RESULTS.get(package, set()) | PARTS.get(package, set())
        for package in RESULTS.keys() | PARTS.keys()
    }
    assert without == allowed
