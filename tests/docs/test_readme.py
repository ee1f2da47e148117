# SPDX-License-Identifier: Apache-2.0
"""The README: its code runs, and its figures are those that were measured."""

import pathlib
import re
import subprocess
import sys

import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop_command import COMMANDS
from tests.docs.pages import blocks_in

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")


def test_figures_are_those_of_the_results():
    script = ROOT / "benchmarks" / "readme_table.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, (
        "The figures in README.md are not those of benchmarks/results. "
        "Run: python benchmarks/readme_table.py"
    )


def test_code_runs(capsys):
    once, whole = blocks_in(TEXT)
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 8)).astype("float32")
    y = random.integers(0, 10, 40)
    names = {"x": x, "y": y, "x_val": x, "y_val": y, "x_new": x[:5]}
    exec(whole, names)
    assert isinstance(names["unsure"], kbd.Predictive)
    exec(once, names)
    assert names["p"].mean.shape == (40, 10)


def test_pictures_are_there():
    for path in re.findall(r"!\[.*?\]\((.*?)\)", TEXT):
        assert (ROOT / path).is_file(), path


def features():
    """Names in the first column of the table of features."""
    table = TEXT.split("## What you get")[1].split("\n\n")[1]
    for row in table.splitlines()[2:]:
        for code in re.findall(r"`([^`]+)`", row.split(" | ")[0]):
            # `Dropout1D/2D/3D` is written for three, `f(x, ...)` for `f`.
            yield re.split(r"[(/= ]", code)[0].rpartition(".")[2]


def test_features_are_public_and_tested():
    golden = (ROOT / "tests" / "golden_api.txt").read_text("utf-8").split()
    public = {name.rpartition(".")[2] for name in golden}
    public |= {name for name in dir(kbd.Predictive) if name[0] != "_"}
    public |= COMMANDS.keys() | {"keras-bayesdrop"}
    public |= {"distribute", "first_row"}
    named = list(features())
    assert len(named) > 60
    assert set(named) <= public, set(named) - public
    tests = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")
    )
    untested = {name for name in named if not re.search(rf"\b{name}\b", tests)}
    assert not untested
