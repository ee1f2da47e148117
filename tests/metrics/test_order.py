# SPDX-License-Identifier: Apache-2.0
"""The truth is the first argument; the reverse order is refused."""

import inspect

import numpy as np
import pytest

from keras_bayesdrop import calibrate
from keras_bayesdrop import metrics
from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from tests.metrics import cases
from tests.update_golden import exported

# Names of the argument that holds the truth.
TRUTH = ("y", "loss", "wrong")
# The truth is an option of this plot, and has a name there.
OPTIONAL = {"fan_chart", "predictive_band"}
NAMESPACES = {"metrics": metrics, "calibrate": calibrate, "plots": plots}
FUNCTIONS = [
    pytest.param(space, name, id=f"{space}.{name}")
    for space, module in NAMESPACES.items()
    for name in exported(module)
    if inspect.isfunction(getattr(module, name))
]


def parameters_of(space, name):
    return list(inspect.signature(getattr(NAMESPACES[space], name)).parameters)


@pytest.mark.parametrize(("space", "name"), FUNCTIONS)
def test_the_truth_comes_first(space, name):
    parameters = parameters_of(space, name)
    if name not in OPTIONAL and set(TRUTH) & set(parameters):
        assert parameters[0] in TRUTH
        assert parameters[1] in ("prediction", "p", "uncertainty")


@pytest.mark.parametrize(
    ("space", "name"),
    [
        function
        for function in FUNCTIONS
        if parameters_of(*function.values)[0] in TRUTH
    ],
)
def test_a_prediction_in_place_of_the_truth_is_refused(space, name):
    truth, other = parameters_of(space, name)[:2]
    p, y = cases.regression()
    with pytest.raises(BayesdropError) as caught:
        getattr(NAMESPACES[space], name)(p, y)
    assert str(caught.value) == (
        f"The arguments of `{space}.{name}` are in the wrong order. Expected "
        f"the truth first: {space}.{name}({truth}, {other}). Received: a "
        f"`Predictive` as first argument `{truth}`"
    )


@pytest.mark.parametrize(
    "function", [metrics.risk_coverage, metrics.aurc, metrics.uncertainty_auroc]
)
def test_flags_in_place_of_the_uncertainty_are_refused(function):
    wrong = np.array([True, False, True])
    uncertainty = np.array([0.7, 0.2, 0.9])
    function(wrong, uncertainty)
    function(wrong, wrong)
    with pytest.raises(
        BayesdropError,
        match=r"look swapped. Expected the truth first: \(\w+, uncertainty\)."
        r" Received: bools as `uncertainty`, and values from 0.2 to 0.9",
    ):
        function(uncertainty, wrong)
