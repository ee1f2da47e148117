# SPDX-License-Identifier: Apache-2.0
"""Which part of a graph is worth being run case by case.

It begins at noise of two values on few units that are certain, and ends where
other noise joins in, or where the cases, which are rows like others, would cost
too much.
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

# Multiply-adds a row that a better answer may always take: some milliseconds
# for hundreds of rows, about what calling a small network's operations takes.
FEW = 1 << 17


@dataclasses.dataclass(frozen=True)
class Segment:
    """A noise site and what follows it, for so many cases.

    Attributes:
        noise: Of the site.
        draws: Independent draws of the site in a row.
        order: Up to how many draws of a kind are told apart.
        nodes: Indexes of the nodes that follow.
        leaving: Values of the site and the nodes that others take.
        entries: Of the largest value, over all cases of a row.
    """

    noise: Noise
    draws: int
    order: int
    nodes: tuple[int, ...]
    leaving: tuple[int, ...]
    entries: int


def segments_of(
    graph: Graph, chosen: Collection[str], full: bool
) -> dict[int, Segment]:
    """Returns segments by the index of the site that they begin with.

    Args:
        graph: The model.
        chosen: Paths of the noise sites that are on.
        full: Whether covariances between units are carried. They hold what
            cases know up to the next noise, which then ends the segment.
    """
    noisy = reached(graph, chosen)
    found = {}
    for index, node in enumerate(graph.nodes):
        begins = _beginning(graph, node, chosen, noisy)
        if begins is None:
            continue
        noise, draws = begins
        rate = getattr(noise, "rate", None)
        made = [
            _grow(graph, chosen, noisy, index, noise, draws, order, full)
            for order in cases.orders(draws, rate)
        ]
        # The longest; of those, that with the least rest.
        best = max(made, key=lambda each: len(each.nodes), default=None)
        if best is not None and best.nodes:
            found[index] = best
    return found


def is_noisy(node: Node, chosen: Collection[str]) -> bool:
    """Whether a node is noise that is on, or has some inside."""
    inside = f"{node.path}/"
    return any(path == node.path or path.startswith(inside) for path in chosen)


def reached(graph: Graph, chosen: Collection[str]) -> set[int]:
    """Returns the values that noise reaches."""
    found: set[int] = set()
    for node in graph.nodes:
        if is_noisy(node, chosen) or not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def _beginning(
    graph: Graph, node: Node, chosen: Collection[str], noisy: set[int]
) -> tuple[Noise, int] | None:
    """Returns noise and draws in a row of a site that can begin a segment."""
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
) -> Segment:
    """Adds what follows a site as long as it is cheap."""
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
            and work + cost <= FEW
            and all(_has_rows(graph, value) for value in node.inputs)
        ):
            nodes.append(index)
            inside.update(node.outputs)
            work += cost
    taken = set(graph.outputs).union(
        *(n.inputs for i, n in enumerate(graph.nodes) if i not in nodes)
    )
    return Segment(
        noise,
        draws,
        order,
        tuple(nodes),
        tuple(sorted(inside & taken)),
        number * max(_entries(graph, value) for value in inside),
    )


def _work(graph: Graph, node: Node) -> int:
    """Returns about how many multiply-adds a row takes."""
    weights = getattr(node.operation, "weights", ())
    sizes = [int(math.prod(weight.shape)) for weight in weights]
    return sum(sizes) + sum(_entries(graph, value) for value in node.outputs)


def _entries(graph: Graph, value: int) -> int:
    """Returns the entries of a row, of which unknown axes count as one."""
    shape = graph.specs[value].shape
    return int(math.prod(size or 1 for size in shape[1:]))


def _has_rows(graph: Graph, value: int) -> bool:
    shape = graph.specs[value].shape
    return len(shape) > 0 and shape[0] is None
