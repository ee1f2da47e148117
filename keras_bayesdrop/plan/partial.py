# SPDX-License-Identifier: Apache-2.0
"""Parts of a model: what to sample if the rest is known in closed form.

Nodes go by their index in the graph. A part that is to be sampled holds, with
a node, all that the node depends on.
"""

import dataclasses
from collections.abc import Collection

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.plan.plan import Plan


def up_to(graph: Graph, nodes: Collection[int]) -> frozenset[int]:
    """Returns some nodes, and all that they depend on."""
    needed: set[int] = set()
    part: set[int] = set()
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        if index in nodes or not needed.isdisjoint(node.outputs):
            part.add(index)
            needed.update(node.inputs)
    return frozenset(part)


def before_last_noise(graph: Graph, plan: Plan) -> frozenset[int]:
    """Returns the nodes that the last noise sites do not reach.

    A site is one of the last if no active site is behind it: there are several
    if the graph branches.
    """
    noisy = {step.outputs for step in plan.suffix if step.random}
    ahead: set[int] = set()  # values that reach an active site
    last: set[int] = set()
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        reaches = not ahead.isdisjoint(node.outputs)
        if node.outputs in noisy and not reaches:
            last.add(index)
        if node.outputs in noisy or reaches:
            ahead.update(node.inputs)
    behind: set[int] = set()  # values
    part: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if index in last or not behind.isdisjoint(node.inputs):
            behind.update(node.outputs)
        else:
            part.add(index)
    return frozenset(part)


def without_noise(graph: Graph, plan: Plan) -> frozenset[int]:
    """Returns the nodes that no noise reaches."""
    before_noise = {step.outputs for step in plan.prefix}
    return frozenset(
        index
        for index, node in enumerate(graph.nodes)
        if node.outputs in before_noise
    )


def plan_of_part(plan: Plan, graph: Graph, part: Collection[int]) -> Plan:
    """Returns the plan that makes what the rest of a model takes of a part.

    Sites keep their numbers, and so their noise.

    Args:
        plan: The plan of the whole model.
        graph: Its graph.
        part: The nodes of the part, those that no noise reaches included.

    Returns:
        A plan whose outputs are the values that cross from the part to the
        rest, or are outputs of the model.
    """
    inside = [graph.nodes[index] for index in sorted(part)]
    available = {v for node in inside for v in node.outputs} | {*graph.inputs}
    needed = [
        v
        for index, node in enumerate(graph.nodes)
        if index not in part
        for v in node.inputs
    ]
    outputs = tuple(
        dict.fromkeys(v for v in (*needed, *graph.outputs) if v in available)
    )
    suffix = tuple(step for step in plan.suffix if available >= {*step.outputs})
    random = {v for step in suffix for v in step.outputs}
    taken = [v for step in suffix for v in step.inputs] + list(outputs)
    return dataclasses.replace(
        plan,
        suffix=suffix,
        cut=tuple(dict.fromkeys(v for v in taken if v not in random)),
        outputs=outputs,
        signature=(plan.signature, outputs),
    )
