# SPDX-License-Identifier: Apache-2.0
"""Finds the model behind a view, and checks that it can be taken apart."""

from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import read_graph
from keras_bayesdrop.graph.sites import LayerSelection


class ModelView:
    """Mix-in of models that run another model.

    Attributes:
        source: The model that the view runs.
        selection: Which noise sites of it may be active.
    """

    source: keras.Model
    selection: LayerSelection


def source_of(
    model: Any, layers: LayerSelection
) -> tuple[keras.Model, LayerSelection]:
    """Returns the model behind views, and the selection to use with it."""
    while isinstance(model, ModelView):
        layers = model.selection if layers is None else layers
        model = model.source
    return model, layers


def check_source(model: Any) -> keras.Model:
    """Returns the model itself, or the one behind a view of it."""
    private_keras.require_tensorflow()
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
