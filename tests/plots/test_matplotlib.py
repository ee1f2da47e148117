# SPDX-License-Identifier: Apache-2.0
"""Without matplotlib, and without a display."""

import os
import sys

import keras
import numpy as np
import pytest

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from tests.helpers import TestCase
from tests.plots import predictions

# Imports the package as if matplotlib were not installed, then as if it were.
PROGRAM = """
import os, sys, tempfile
for name in ("MPLBACKEND", "DISPLAY", "WAYLAND_DISPLAY"):
    os.environ.pop(name, None)
sys.modules["matplotlib"] = None
from keras_bayesdrop import plots
try:
    plots.scale_curves()
except ImportError as error:
    print(type(error).__name__)
del sys.modules["matplotlib"]
ax = plots.scale_curves()
path = os.path.join(tempfile.mkdtemp(), "curves.png")
ax.figure.savefig(path)
print(os.path.getsize(path) > 10_000)
import matplotlib
print(matplotlib.get_backend().lower())
"""


def calls():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    line, classes = predictions.regression(), predictions.classification(4)
    labels = np.zeros(4, int)
    return (
        plots.scale_curves,
        lambda: plots.importance_weights([[0.0, 1.0]]),
        lambda: plots.weight_heatmap(model),
        lambda: plots.predictive_band(line, np.arange(40.0)),
        lambda: plots.parity(line.mean, line),
        lambda: plots.regression_calibration(line.mean, line),
        lambda: plots.reliability_diagram(labels, classes),
        lambda: plots.risk_coverage(labels, classes),
        lambda: plots.entropy_histogram(classes),
        lambda: plots.class_scatter(classes),
        lambda: plots.fan_chart(predictions.regression(outputs=5)),
        lambda: plots.uncertainty_map(predictions.segmentation()),
        classes.plot,
    )


def test_without_matplotlib_each_says_what_to_install(monkeypatch):
    for call in calls():
        # One by one: what is imported meanwhile stays imported.
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "matplotlib", None)
            patch.setitem(sys.modules, "matplotlib.pyplot", None)
            with pytest.raises(
                ImportError,
                match=r"cannot be imported. Expected .*`pip install "
                r"keras-bayesdrop\[plots\]`. Received: .*matplotlib",
            ) as caught:
                call()
        # Code that catches the errors of this package catches this one.
        assert isinstance(caught.value, BayesdropError)


class NewProcessTest(TestCase):
    def test_imported_without_matplotlib_and_drawn_without_a_display(self):
        shown = {
            name: os.environ.pop(name)
            for name in ("MPLBACKEND", "DISPLAY")
            if name in os.environ
        }
        try:
            printed = self.run_in_new_process(PROGRAM)
        finally:
            os.environ.update(shown)
        self.assertEqual(
            printed.split(), ["MissingPackageError", "True", "agg"]
        )
