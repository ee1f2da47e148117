# SPDX-License-Identifier: Apache-2.0
"""The README: its code runs, and its figures are those that were measured."""

import pathlib
import re
import subprocess
import sys

import numpy as np

import keras_bayesdrop as kbd

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")


def test_figures_are_those_of_the_results():
    script = ROOT / "benchmarks" / "readme_table.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, (
        "The figures in README.md are not those of benchmarks/results. "
        "Run: python benchmarks/readme_table.py"
    )


def test_code_runs(capsys):
    once, whole = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
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
