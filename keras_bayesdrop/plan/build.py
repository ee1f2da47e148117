# SPDX-License-Identifier: Apache-2.0
"""Builds the plan of a model from what a survey shows.

The order of noise sites, and so their numbers, comes from the graph alone:
which of them are active does not change the noise of the others.
"""

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.identity import identity
from keras_bayesdrop.graph.probe import BATCHES
from keras_bayesdrop.graph.probe import Role
from keras_bayesdrop.graph.probe import Shape
from keras_bayesdrop.graph.probe import role_of
from keras_bayesdrop.graph.probe import rows_axis
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.sites import is_stateful
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.graph.survey import Survey
from keras_bayesdrop.graph.survey import empty_graph
from keras_bayesdrop.plan.calls import noisy_call
from keras_bayesdrop.plan.calls import quiet_call
from keras_bayesdrop.plan.layer_forms import form_of
from keras_bayesdrop.plan.plan import Plan
from keras_bayesdrop.plan.selection import complete
from keras_bayesdrop.plan.selection import drawing_sites
from keras_bayesdrop.plan.selection import hidden_from
from keras_bayesdrop.plan.steps import CallStep
from keras_bayesdrop.plan.steps import NoiseStep
from keras_bayesdrop.plan.steps import Step
from keras_bayesdrop.plan.thin_forms import ThinForm
from keras_bayesdrop.plan.thin_layers import thin_form_of


def build_plan(
    model: Any,
    layers: LayerSelection = None,
    example: Any = None,
    surveyed: Survey | None = None,
) -> Plan:
    """Cuts a model into what runs once and what runs for every sample.

    Args:
        model: A built Keras model.
        layers: Which noise sites are active, see `select_sites`.
        example: Structure of tensors (or specs) like the inputs. Needed, for
            a model whose `call` is its own code, to know its outputs.
        surveyed: The survey of the model, if there is one already.

    Returns:
        The plan.
    """
    surveyed = complete(model, example, surveyed, layers)
    graph, sites = surveyed.graph, surveyed.sites
    if graph is None:
        graph = empty_graph(model)
    chosen = frozenset(site.path for site in drawing_sites(layers, surveyed))
    shapes = surveyed.shapes
    roles = [role_of(pair) for pair in shapes]
    steps, problems, reasons = _steps(graph, surveyed, roles, chosen)
    prefix, suffix, cut = _split(graph, steps)
    reasons += _misplaced_values(suffix, shapes, roles)
    reasons += [
        f"an output has the shapes {shapes[value][0]} and {shapes[value][1]} "
        f"for batches of {BATCHES[0]} and {BATCHES[1]} rows"
        for value in graph.outputs
        if roles[value] not in (Role.ROWS, Role.ENTRIES)
    ]
    if surveyed.fixed_batch:
        reasons.insert(0, surveyed.fixed_batch)
    signature = (
        chosen,
        tuple((site.path, site.noise, site.noise_shape) for site in sites),
        surveyed.version,
        tuple(identity(node.operation) for node in graph.nodes),
        _structure_of(example) if private_keras.graph_of(model) is None else "",
    )
    return Plan(
        prefix,
        suffix,
        graph.inputs,
        cut,
        graph.outputs,
        _traced_specs(graph, shapes),
        _with_role(roles, Role.ROWS),
        _with_role(roles, Role.CONSTANT),
        _with_role(roles, Role.ENTRIES) | _with_role(roles, Role.UNKNOWN),
        sites,
        chosen,
        tuple(problems),
        reasons[0] if reasons else "",
        _depends_on_batch(suffix, surveyed, chosen),
        hidden_from(layers, surveyed),
        bool(surveyed.fixed_batch),
        graph.flatten,
        graph.pack,
        signature,
    )


def _traced_specs(
    graph: Graph, shapes: Sequence[tuple[Shape, Shape]]
) -> tuple[Any, ...]:
    """Returns the spec of every value, corrected where a layer is mistaken."""
    specs = list(graph.specs)
    for number, (shape, _) in enumerate(shapes):
        declared = tuple(specs[number].shape)
        mistaken = len(declared) != len(shape) or any(
            want is not None and size is not None and want != size
            for want, size in zip(declared[1:], shape[1:], strict=True)
        )
        if mistaken:
            specs[number] = private_keras.spec(
                [None] * len(shape), specs[number].dtype
            )
    return tuple(specs)


def _with_role(roles: Sequence[Role], wanted: Role) -> frozenset[int]:
    return frozenset(n for n, role in enumerate(roles) if role is wanted)


def _structure_of(example: Any) -> str:
    return repr(keras.tree.map_structure(lambda leaf: None, example))


def _steps(
    graph: Graph,
    surveyed: Survey,
    roles: Sequence[Role],
    chosen: Collection[str],
) -> tuple[list[Step], list[str], list[str]]:
    """Turns nodes into steps and numbers their noise sites.

    Returns:
        The steps; why samples cannot be drawn; why they cannot be folded into
        the batch.
    """
    steps: list[Step] = []
    problems: list[str] = []
    reasons: list[str] = []
    number = 0
    on_request = _sites_in_order(graph, surveyed) if surveyed.asked else 0
    for node, sites, seen in zip(
        graph.nodes, surveyed.node_sites, surveyed.observations, strict=True
    ):
        kind = type(node.operation).__name__
        place = (node.path, kind, node.inputs, node.outputs)
        if is_stateful(node.operation):
            problems.append(
                f"Layer `{node.path}` is stateful: what it predicts depends "
                "on the batches before. Expected stateful=False. Received: "
                "stateful=True"
            )
        # A layer that is noise has a site.
        if sites and noise_of(node.operation) is not None:
            shapes = surveyed.shapes[node.inputs[0]]
            steps.append(
                NoiseStep(
                    *place,
                    sites[0].noise,
                    sites[0].noise_shape,
                    number,
                    sites[0].path in chosen,
                    roles[node.inputs[0]] is Role.ROWS,
                    rows_axis(shapes),
                )
            )
            number += 1
        elif seen is None or not seen.draws:
            # Unless an example shows more, its sites count as drawn.
            unseen = bool(sites) and not surveyed.is_complete
            steps.append(
                CallStep(
                    *place,
                    quiet_call(node.operation, node.fill, node.path),
                    active=unseen and any(s.path in chosen for s in sites),
                    form=form_of(node.operation),
                    thin=_thin_form(node),
                )
            )
        else:
            active = any(site.path in chosen for site in sites)
            here = [draw for draw in seen.draws if not draw.on_request]
            call = noisy_call(
                node.operation,
                node.fill,
                node.path,
                seen,
                (number, on_request),
                chosen,
            )
            several = any(
                draw.path in chosen
                and draw.axis == 0
                and draw.shapes[0][0] != BATCHES[0]
                for draw in seen.draws
            )
            steps.append(
                CallStep(*place, call, number, len(here), active, several)
            )
            for draw in seen.draws:
                if draw.path not in chosen:
                    continue
                if draw.problem:
                    problems.append(draw.problem)
                elif draw.axis != 0:
                    reasons.append(_unfolded(draw.path, draw.shapes))
            number += len(here)
            on_request += len(seen.draws) - len(here)
    return steps, problems, reasons


def _thin_form(node: Node) -> ThinForm | str:
    """Returns what a node does to channels, or why that is not known."""
    tensors = [object() for _ in node.inputs]
    arguments = keras.tree.flatten(node.fill(tensors))
    count = sum(not isinstance(each, bool | None) for each in arguments)
    if count != len(tensors):
        return "takes constants"  # Those have all channels.
    return thin_form_of(node.operation)


def _sites_in_order(graph: Graph, surveyed: Survey) -> int:
    """Returns how many sites there are that nobody has to ask for."""
    inside = sum(
        not draw.on_request
        for seen in surveyed.observations
        if seen is not None
        for draw in seen.draws
    )
    return inside + sum(
        noise_of(node.operation) is not None for node in graph.nodes
    )


def _split(
    graph: Graph, steps: Sequence[Step]
) -> tuple[tuple[Step, ...], tuple[Step, ...], tuple[int, ...]]:
    """Splits the steps at the first active noise on each way."""
    random: set[int] = set()
    prefix: list[Step] = []
    suffix: list[Step] = []
    for step in steps:
        if step.random or not random.isdisjoint(step.inputs):
            random.update(step.outputs)
            suffix.append(step)
        else:
            prefix.append(step)
    needed = [v for step in suffix for v in step.inputs] + list(graph.outputs)
    cut = tuple(dict.fromkeys(v for v in needed if v not in random))
    return tuple(prefix), tuple(suffix), cut


def _depends_on_batch(
    suffix: Sequence[Step], surveyed: Survey, chosen: Collection[str]
) -> bool:
    """Returns whether noise is on a value of which no axis holds the rows.

    Its size depends on the batch in another way, and so do the masks.
    """
    shapes = [
        surveyed.shapes[step.inputs[0]]
        for step in suffix
        if isinstance(step, NoiseStep) and step.active and step.axis is None
    ]
    shapes += [
        draw.shapes
        for seen in surveyed.observations
        if seen is not None
        for draw in seen.draws
        if draw.path in chosen and draw.axis is None
    ]
    return any(one != other for one, other in shapes)


def _unfolded(path: str, shapes: tuple[Shape, Shape]) -> str:
    """Returns why several samples cannot go through a layer at once."""
    shape = tuple(
        "batch" if one != other else one
        for one, other in zip(*shapes, strict=False)
    )
    text = ", ".join(str(dim) for dim in shape)
    return f"`{path}` works on [{text}], whose first axis is not the batch"


def _misplaced_values(
    suffix: Sequence[Step],
    shapes: Sequence[tuple[Shape, Shape]],
    roles: Sequence[Role],
) -> list[str]:
    """Returns why values of the suffix cannot hold several samples."""
    reasons = []
    for step in suffix:
        for value in step.inputs:
            spread_by_noise = (
                isinstance(step, NoiseStep)
                and step.active
                and roles[value] is Role.CONSTANT
                and shapes[value][0][:1] != (1,)
            )
            unclear = roles[value] in (Role.ELSEWHERE, Role.UNKNOWN)
            if spread_by_noise or unclear:
                reasons.append(_unfolded(step.path, shapes[value]))
    return reasons
