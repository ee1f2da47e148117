# SPDX-License-Identifier: Apache-2.0
"""The page on shrinkage: its code runs, its names are there."""

import importlib
import re

import matplotlib.pyplot as plt
import numpy as np

from keras_bayesdrop import plots
from keras_bayesdrop import training
from tests.docs.pages import run_page
from tests.docs.pages import text_of

TEXT = text_of("shrinkage.md")


def test_code_runs():
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 8)).astype("float32")
    y = random.integers(0, 10, 40)
    names = {"x": x, "y": y, "x_new": x[:5]}
    run_page("shrinkage.md", names)
    assert len(plt.get_fignums()) == 1
    assert names["p"].mean.shape == (5, 10)
    assert names["laplace"].sample(3).shape == (3,)
    rows = names["ard"].scales(np.ones((8, 32))).rows
    assert rows.shape == (8,)
    assert isinstance(names["model"], training.MonteCarloModel)
    assert names["kbd"].plots is plots


def test_names_in_the_text_are_those_of_the_package():
    """`layers.X`, `plots.x` and the like, as the text mentions them."""
    found = re.findall(
        r"`(layers|callbacks|losses|plots|sparsity|regularizers|training)"
        r"\.(\w+)",
        TEXT,
    )
    assert len(found) > 8
    for module, name in found:
        package = importlib.import_module(f"keras_bayesdrop.{module}")
        assert hasattr(package, name), f"{module}.{name}"
