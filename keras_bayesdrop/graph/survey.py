# SPDX-License-Identifier: Apache-2.0
"""Surveys a model: its graph, the shape of every value, and its noise."""

import dataclasses
from collections.abc import Collection
from typing import Any

import keras

from keras_bayesdrop.graph.fingerprint import version_of
from keras_bayesdrop.graph.observe import Hidden
from keras_bayesdrop.graph.observe import Observation
from keras_bayesdrop.graph.probe import Shape
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.read import read_graph
from keras_bayesdrop.graph.sites import Site
from keras_bayesdrop.graph.sites import hand_made_site
from keras_bayesdrop.graph.sites import inner_sites
from keras_bayesdrop.graph.sites import layer_tree
from keras_bayesdrop.graph.walk import KERAS_BATCH as KERAS_BATCH
from keras_bayesdrop.graph.walk import augmentations
from keras_bayesdrop.graph.walk import walk_of_one
from keras_bayesdrop.graph.walk import walk_over


@dataclasses.dataclass(frozen=True)
class Survey:
    """The graph, shapes and noise of a model.

    Attributes:
        graph: Its graph, or `None` if its `call` is its own code and no
            example was at hand.
        node_sites: Per node of the graph, the noise sites in it.
        observations: Per node, what its trace showed, or `None` if it was not
            traced.
        shapes: Per value, its shapes at two batch sizes.
        sites: Every site once, in the order of the graph.
        requestable: Paths of sites that are active only if asked for.
        seen: Paths of sites that were seen to draw.
        hidden: Noise that cannot be taken over.
        is_complete: Whether everything there is to see was seen.
        version: Changes when compiled programs of the model go stale.
        fixed_batch: Why the model takes one batch size only, or `""`.
        asked: Paths of augmentation layers that are to draw.
    """

    graph: Graph | None
    node_sites: tuple[tuple[Site, ...], ...]
    observations: tuple[Observation | None, ...]
    shapes: tuple[tuple[Shape, Shape], ...]
    sites: tuple[Site, ...]
    requestable: frozenset[str]
    seen: frozenset[str]
    hidden: tuple[Hidden, ...]
    is_complete: bool
    version: int
    fixed_batch: str = ""
    asked: frozenset[str] = frozenset()


def survey(
    model: Any, example: Any = None, asked: Collection[str] = ()
) -> Survey:
    """Reads the graph of a model and finds its noise.

    Args:
        model: A built Keras model.
        example: Structure of tensors (or specs) like the inputs. Needed, for
            a model whose `call` is its own code, to see what it draws.
        asked: Paths of augmentation layers that are to draw.

    Returns:
        The survey.
    """
    graph = read_graph(model)
    version = version_of(
        model, () if graph is None else [node.operation for node in graph.nodes]
    )
    if graph is None and example is None:
        requestable = augmentations(model, "")
        sites = tuple(_declared(model, "", requestable))
        return Survey(
            None,
            (sites,),
            (None,),
            (),
            sites,
            frozenset(requestable),
            frozenset(),
            (),
            False,
            version,
        )
    if graph is None:
        graph, walk = walk_of_one(model, example, asked, version)
    else:
        walk = walk_over(model, graph, example, asked, version)
    node_sites = []
    everything: dict[str, Site] = {}
    seen: set[str] = set()
    hidden: list[Hidden] = []
    for node, observation, on_request in zip(
        graph.nodes, walk.observations, walk.requestable, strict=True
    ):
        declared = _declared(node.operation, node.path, on_request)
        if observation is not None:
            declared = _with_hand_made(node, declared, observation)
            drawn = {draw.path for draw in observation.draws if draw.used}
            hidden += observation.hidden
        else:
            drawn = {site.path for site in declared}.difference(on_request)
        seen |= drawn
        node_sites.append(tuple(declared))
        for site in declared:
            everything.setdefault(site.path, site)
    return Survey(
        graph,
        tuple(node_sites),
        tuple(walk.observations),
        tuple(walk.shapes),
        tuple(everything.values()),
        frozenset(path for paths in walk.requestable for path in paths),
        frozenset(seen),
        tuple(hidden),
        True,
        version,
        walk.fixed_batch,
        frozenset(asked),
    )


def _with_hand_made(
    node: Node, declared: list[Site], observation: Observation
) -> list[Site]:
    """Adds the sites of what the code of layers draws."""
    if not observation.by_hand:
        return declared
    layers = {
        where: layer for layer, where in layer_tree(node.operation, node.path)
    }
    by_hand = {
        where: hand_made_site(layers[where], where, functions)
        for where, functions in observation.by_hand
    }
    replaced = [by_hand.pop(site.path, site) for site in declared]
    return [*replaced, *by_hand.values()]


def empty_graph(model: Any) -> Graph:
    """Returns the graph of a model of which nothing was seen."""
    return Graph(
        (Node("", model, (), (), lambda values: ((), {})),),
        (),
        (),
        (),
        lambda x: list(keras.tree.flatten(x)),
        lambda flat: list(flat),
    )


def find_sites(model: Any, example: Any = None) -> list[Site]:
    """Lists the noise sites of a model, each layer once, in graph order."""
    return list(survey(model, example).sites)


def _declared(
    operation: Any, path: str, on_request: Collection[str]
) -> list[Site]:
    """Returns noise layers, and layers that draw on request."""
    sites = inner_sites(operation, path)
    if on_request:
        sites += [
            hand_made_site(layer, where, ())
            for layer, where in layer_tree(operation, path)
            if where in on_request
        ]
    return sites
