# SPDX-License-Identifier: Apache-2.0
"""Bounds the rows that a closed form takes at once, by memory."""

import collections
from collections.abc import Collection
from collections.abc import Iterable

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.moments.case_segments import segments_of
from keras_bayesdrop.moments.covariance import MAX_PAIRED_OUTPUTS

# What covariances, or cases, of the rows of a step may take.
_FULL_BYTES = 128 << 20
# Units up to which covariances are carried behind the last noise site without
# being asked for: a product with a kernel [in, out] then takes `out` as many
# operations for each of them.
_NARROW = 64


def case_rows(graph: Graph, chosen: Collection[str], full: bool) -> int:
    """Returns for how many rows at once to run cases of what noise drops."""
    segments = segments_of(graph, chosen, full).values()
    largest = max((each.entries for each in segments), default=1)
    # A value before and after a layer, and what is in between.
    return max(1, _FULL_BYTES // (4 * 4 * largest))


def covariance_rows(graph: Graph, nodes: Iterable[Node]) -> int:
    """Returns for how many rows at once to carry covariances through nodes."""
    largest = 1
    uses = collections.Counter(
        value for node in graph.nodes for value in node.inputs
    )
    for node in nodes:
        if noise_of(node.operation) is None:
            # Noise makes none that were not there before.
            (units, *_), taken = _widths(graph, node)
            if units <= MAX_PAIRED_OUTPUTS and all(
                uses[value] == 1 for value in node.inputs
            ):
                # None with what it takes, which is not seen again.
                taken = []
            largest = max(largest, units * max(units, *taken, 1))
    # The covariance before and after a product, and what is in between.
    return max(1, _FULL_BYTES // (4 * 4 * largest))


def _widths(graph: Graph, node: Node) -> tuple[list[int], list[int]]:
    """Returns the units of a node's outputs and inputs, 1 for other shapes."""
    outputs, inputs = (
        [
            (spec.shape[-1] or 1) if len(spec.shape) == 2 else 1
            for spec in (graph.specs[value] for value in values)
        ]
        for values in (node.outputs, node.inputs)
    )
    return outputs, inputs


def is_narrow(graph: Graph, nodes: Iterable[Node]) -> bool:
    """Returns whether covariances cost about as much as the nodes do."""
    return all(
        max(_widths(graph, node)[0]) <= _NARROW
        for node in nodes
        if noise_of(node.operation) is None
    )
