# SPDX-License-Identifier: Apache-2.0
"""Chooses the parts of a graph that run once for each case of a noise site.

Such a segment begins at noise of two values on few units that are certain. It
ends where other noise joins in, or where running all cases costs too much.
"""

import dataclasses
import math
from collections.abc import Collection

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.moments import cases
from keras_bayesdrop.moments.noise import has_two_points
from keras_bayesdrop.moments.noise import one_for_all
from keras_bayesdrop.moments.registry import rule_of
from keras_bayesdrop.noise import Noise

# Multiply-adds per row that a more exact answer may always cost. For hundreds
# of rows they take some milliseconds, about as long as calling the operations
# of a small network.
CHEAP_MULTIPLY_ADDS = 1 << 17


@dataclasses.dataclass(frozen=True)
class CaseSegment:
    """A noise site and the nodes after it that run for each case.

    Attributes:
        noise: Noise of the site.
        draws: Independent draws of the site in a row.
        order: Largest number of unlikely draws in a case.
        nodes: Indexes of the nodes after the site.
        leaving: Values of the segment that other nodes or the outputs use.
        entries: Entries of the largest value, over all cases of a row.
    """

    noise: Noise
    draws: int
    order: int
    nodes: tuple[int, ...]
    leaving: tuple[int, ...]
    entries: int


def segments_of(
    graph: Graph, chosen: Collection[str], full: bool
) -> dict[int, CaseSegment]:
    """Returns segments by the index of the site that they begin with.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        full: Whether covariances between units are carried. They carry the
            result of the cases through later noise, so noise ends the segment.
    """
    noisy = reached(graph, chosen)
    segments = {}
    for index, node in enumerate(graph.nodes):
        start = _start(graph, node, chosen, noisy)
        if start is None:
            continue
        noise, draws = start
        rate = getattr(noise, "rate", None)
        candidates = [
            _grow(graph, chosen, noisy, index, noise, draws, order, full)
            for order in cases.orders(draws, rate)
        ]
        # The longest one; of equals the first, which has the smallest rest.
        best = max(candidates, key=lambda each: len(each.nodes), default=None)
        if best is not None and best.nodes:
            segments[index] = best
    return segments


def is_noisy(node: Node, chosen: Collection[str]) -> bool:
    """Returns True if a node is noise that is on, or contains some."""
    inside = f"{node.path}/"
    return any(path == node.path or path.startswith(inside) for path in chosen)


def reached(graph: Graph, chosen: Collection[str]) -> set[int]:
    """Returns the values that noise reaches."""
    values: set[int] = set()
    for node in graph.nodes:
        if is_noisy(node, chosen) or not values.isdisjoint(node.inputs):
            values.update(node.outputs)
    return values


def _start(
    graph: Graph, node: Node, chosen: Collection[str], noisy: set[int]
) -> tuple[Noise, int] | None:
    """Returns noise and draws per row, if a segment can begin at a node."""
    noise = noise_of(node.operation)
    if noise is None or not is_noisy(node, chosen):
        return None
    if not has_two_points(noise[0]) or rule_of(node.operation) is not None:
        return None
    shape = graph.specs[node.inputs[0]].shape
    if (
        not noisy.isdisjoint(node.inputs)
        or len(shape) != 2
        or None in shape[1:]
    ):
        return None
    return noise[0], 1 if one_for_all(noise[1], shape) else int(shape[1])


def _grow(
    graph: Graph,
    chosen: Collection[str],
    noisy: set[int],
    site: int,
    noise: Noise,
    draws: int,
    order: int,
    full: bool,
) -> CaseSegment:
    """Adds nodes after a site as long as they are cheap."""
    number = cases.count(draws, order)
    inside = set(graph.nodes[site].outputs)
    nodes: list[int] = []
    work = 0
    for index, node in enumerate(graph.nodes):
        others = set(node.inputs) - inside
        cost = number * _work(graph, node)
        if (
            len(others) < len(set(node.inputs))
            and noisy.isdisjoint(others)
            and not (full and is_noisy(node, chosen))
            and work + cost <= CHEAP_MULTIPLY_ADDS
            and all(_has_rows(graph, value) for value in node.inputs)
        ):
            nodes.append(index)
            inside.update(node.outputs)
            work += cost
    taken = set(graph.outputs).union(
        *(n.inputs for i, n in enumerate(graph.nodes) if i not in nodes)
    )
    return CaseSegment(
        noise,
        draws,
        order,
        tuple(nodes),
        tuple(sorted(inside & taken)),
        number * max(_entries(graph, value) for value in inside),
    )


def _work(graph: Graph, node: Node) -> int:
    """Returns the approximate number of multiply-adds per row."""
    weights = getattr(node.operation, "weights", ())
    sizes = [int(math.prod(weight.shape)) for weight in weights]
    return sum(sizes) + sum(_entries(graph, value) for value in node.outputs)


def _entries(graph: Graph, value: int) -> int:
    """Returns the entries per row; an unknown axis counts as one."""
    shape = graph.specs[value].shape
    return int(math.prod(size or 1 for size in shape[1:]))


def _has_rows(graph: Graph, value: int) -> bool:
    shape = graph.specs[value].shape
    return len(shape) > 0 and shape[0] is None
