# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments that the functions of this package share."""

import math
from numbers import Real
from typing import Any

import keras

from keras_bayesdrop import _keras
from keras_bayesdrop._validate import check_model
from keras_bayesdrop._validate import invalid
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.plan.graph import Graph
from keras_bayesdrop.plan.graph import read_graph
from keras_bayesdrop.views import source_of


def check_threshold(threshold: Any) -> float:
    """Returns `threshold` as a float if it is a finite number."""
    number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not number or not math.isfinite(threshold):
        raise invalid("threshold", threshold, "a finite float")
    return float(threshold)


def check_bool(value: Any, name: str) -> bool:
    """Returns `value` if it is `True` or `False`."""
    if not isinstance(value, bool):
        raise invalid(name, value, "`True` or `False`")
    return value


def check_source(model: Any) -> keras.Model:
    """Returns the model itself, or the one behind a view of it."""
    _keras.require_tensorflow()
    check_model(model)
    source: keras.Model = source_of(model, None)[0]
    check_model(source)
    return source


def check_graph(model: Any) -> Graph:
    """Returns the graph of a Functional or Sequential model."""
    graph = read_graph(model)
    if graph is None:
        raise PlanError(
            f"Model `{model.name}` cannot be taken apart: its `call` is its "
            "own code, not a graph of layers. Expected a Functional or a "
            f"Sequential model. Received: {type(model).__name__}"
        )
    return graph
