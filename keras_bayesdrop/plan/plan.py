# SPDX-License-Identifier: Apache-2.0
"""The plan: what runs once, what runs for every sample, and which noise.

    inputs --prefix--> cut values --suffix, for every sample--> outputs

The prefix holds every step that no active noise reaches, the suffix the rest.
The order of noise sites, and so their numbers, comes from the graph alone:
which of them are active does not change the noise of the others.
"""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop import _keras
from keras_bayesdrop._fingerprint import version_of
from keras_bayesdrop._identity import identity
from keras_bayesdrop._programs import facts
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.plan.calls import Traced
from keras_bayesdrop.plan.calls import inference_call
from keras_bayesdrop.plan.calls import noisy_call
from keras_bayesdrop.plan.calls import trace_noise
from keras_bayesdrop.plan.chains import Fusion
from keras_bayesdrop.plan.chains import find_chains
from keras_bayesdrop.plan.graph import Graph
from keras_bayesdrop.plan.graph import Node
from keras_bayesdrop.plan.graph import read_graph
from keras_bayesdrop.plan.pieces import piece_of
from keras_bayesdrop.plan.probe import BATCHES
from keras_bayesdrop.plan.probe import Role
from keras_bayesdrop.plan.probe import Shape
from keras_bayesdrop.plan.probe import misplaced
from keras_bayesdrop.plan.probe import role_of
from keras_bayesdrop.plan.probe import specs_at
from keras_bayesdrop.plan.probe import value_shapes
from keras_bayesdrop.plan.steps import CallStep
from keras_bayesdrop.plan.steps import NoiseStep
from keras_bayesdrop.plan.steps import Step
from keras_bayesdrop.sites import LayerSelection
from keras_bayesdrop.sites import Site
from keras_bayesdrop.sites import inner_sites
from keras_bayesdrop.sites import noise_of
from keras_bayesdrop.sites import select_sites


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to run a model for many samples.

    Attributes:
        prefix: Steps that run once per row.
        suffix: Steps that run once per row and sample.
        inputs: Numbers of the input values.
        cut: Numbers of the values that cross from the prefix to the suffix.
        outputs: Numbers of the output values.
        specs: Per value, its `tf.TensorSpec` or symbolic tensor.
        rows: Numbers of values with one entry per row, on their first axis.
        batchless: Numbers of values that do not depend on the batch.
        entries: Numbers of values with several entries per row.
        sites: Every noise site, active or not, in order of the graph.
        chosen: Paths of the active sites.
        problems: Why samples cannot be drawn, if they cannot.
        flatten: Maps what a user passes to tensors for `inputs`.
        pack: Maps anything per output to the structure of the model.
        signature: Equal for plans that compile to the same program.
    """

    prefix: tuple[Step, ...]
    suffix: tuple[Step, ...]
    inputs: tuple[int, ...]
    cut: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[Any, ...]
    rows: frozenset[int]
    batchless: frozenset[int]
    entries: frozenset[int]
    sites: tuple[Site, ...]
    chosen: frozenset[str]
    problems: tuple[str, ...]
    flatten: Callable[[Any], list[Any]]
    pack: Callable[[Sequence[Any]], Any]
    signature: tuple[Any, ...]

    def require_samples(self) -> None:
        """Raises if samples cannot be drawn."""
        if self.problems:
            raise PlanError(self.problems[0])

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in an order in which they can run."""
        return self.prefix + self.suffix

    @functools.cached_property
    def fusion(self) -> Fusion:
        """The suffix with what the compiled op does in one call as one step."""
        return find_chains(
            self.suffix, self.specs, self.outputs, self.rows.__contains__
        )


@dataclasses.dataclass(frozen=True)
class Survey:
    """A model as it was found.

    Attributes:
        graph: Its graph, or `None` if its `call` is its own code.
        node_sites: Per node of the graph, the noise sites in it.
        sites: Every site once, in the order of the graph.
    """

    graph: Graph | None
    node_sites: tuple[tuple[Site, ...], ...]
    sites: tuple[Site, ...]


def survey(model: Any) -> Survey:
    """Reads the graph of a model and finds its noise."""
    graph = read_graph(model)
    operations = (
        [(model, "")]
        if graph is None
        else [(node.operation, node.path) for node in graph.nodes]
    )
    node_sites = tuple(tuple(inner_sites(*each)) for each in operations)
    found: dict[str, Site] = {}
    for sites in node_sites:
        for site in sites:
            found.setdefault(site.path, site)
    return Survey(graph, node_sites, tuple(found.values()))


def find_sites(model: Any) -> list[Site]:
    """Lists the noise sites of a model, each layer once, in graph order."""
    return list(survey(model).sites)


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
        surveyed: What `survey` found in the model, if that was asked before.

    Returns:
        The plan.
    """
    surveyed = surveyed or survey(model)
    graph, sites = surveyed.graph, surveyed.sites
    active = (
        select_sites(layers, list(sites))
        if sites or layers is not None
        else set()
    )
    chosen = frozenset(
        site.path for site in sites if site.path in active and site.noise.active
    )
    if graph is None:
        graph = _graph_of_one(model, example)
    version = version_of(model, [node.operation for node in graph.nodes])
    shapes = _shapes_of(model, graph, version)
    roles = [role_of(pair) for pair in shapes]
    steps, problems = _steps(graph, surveyed.node_sites, shapes, roles, chosen)
    prefix, suffix, cut = _split(graph, steps)
    problems += _misplaced_values(suffix, shapes, roles)
    signature = (
        chosen,
        tuple((site.path, site.noise, site.noise_shape) for site in sites),
        version,
        tuple(identity(node.operation) for node in graph.nodes),
        _structure_of(example) if _keras.graph_of(model) is None else "",
    )
    return Plan(
        prefix,
        suffix,
        graph.inputs,
        cut,
        graph.outputs,
        graph.specs,
        _with_role(roles, Role.ROWS),
        _with_role(roles, Role.CONSTANT),
        _with_role(roles, Role.ENTRIES) | _with_role(roles, Role.UNKNOWN),
        sites,
        chosen,
        tuple(problems),
        graph.flatten,
        graph.pack,
        signature,
    )


def _shapes_of(
    model: Any, graph: Graph, version: int
) -> list[tuple[Shape, Shape]]:
    key = (
        "shapes",
        version,
        tuple(identity(node.operation) for node in graph.nodes),
        tuple(tuple(spec.shape) for spec in graph.specs),
    )
    return list(facts.get(model, key, lambda: value_shapes(graph)))


def _with_role(roles: Sequence[Role], wanted: Role) -> frozenset[int]:
    return frozenset(n for n, role in enumerate(roles) if role is wanted)


def _graph_of_one(model: Any, example: Any) -> Graph:
    """Returns the graph of a model whose `call` is its own code."""
    leaves = [] if example is None else keras.tree.flatten(example)
    specs = [_keras.spec([None, *x.shape[1:]], x.dtype) for x in leaves]
    fill = _packer(example)
    structure: Any = []
    if example is not None:
        pairs = [
            ((BATCHES[0], *spec.shape[1:]), (BATCHES[1], *spec.shape[1:]))
            for spec in specs
        ]
        structure = _traced(model, fill, "", pairs, specs).outputs
    outputs = keras.tree.flatten(structure)
    inputs = tuple(range(len(specs)))
    numbers = tuple(range(len(specs), len(specs) + len(outputs)))
    return Graph(
        (Node("", model, inputs, numbers, fill),),
        inputs,
        numbers,
        (*specs, *outputs),
        lambda x: list(keras.tree.flatten(x)),
        lambda flat: keras.tree.pack_sequence_as(structure, list(flat)),
    )


def _structure_of(example: Any) -> str:
    return repr(keras.tree.map_structure(lambda leaf: None, example))


def _packer(example: Any) -> Callable[..., Any]:
    structure = keras.tree.map_structure(lambda leaf: None, example)

    def fill(values: Sequence[Any]) -> Any:
        packed = keras.tree.pack_sequence_as(structure, list(values))
        return (packed,), {}

    return fill


def _traced(
    operation: Any,
    fill: Callable[..., Any],
    path: str,
    shapes: Sequence[tuple[Shape, Shape]],
    specs: Sequence[Any],
) -> Traced:
    sites = tuple(
        (site.path, site.noise) for site in inner_sites(operation, path)
    )
    dtypes = [spec.dtype for spec in specs]
    # What the call is given, tensors aside: it may depend on that.
    arguments = repr(fill([None] * len(specs)))
    # A trace is too slow to repeat at every prediction.
    key = (
        "trace",
        version_of(operation),
        path,
        sites,
        tuple(shapes),
        tuple(map(str, dtypes)),
        arguments,
    )
    return facts.get(
        operation,
        key,
        lambda: trace_noise(operation, fill, path, specs_at(shapes, dtypes)),
    )


def _steps(
    graph: Graph,
    node_sites: Sequence[Sequence[Site]],
    shapes: Sequence[tuple[Shape, Shape]],
    roles: Sequence[Role],
    chosen: Collection[str],
) -> tuple[list[Step], list[str]]:
    """Turns nodes into steps and numbers their noise sites."""
    steps: list[Step] = []
    problems: list[str] = []
    number = 0
    for node, sites in zip(graph.nodes, node_sites, strict=True):
        kind = type(node.operation).__name__
        place = (node.path, kind, node.inputs, node.outputs)
        if _stateful(node.operation):
            problems.append(
                f"Layer `{node.path}` is stateful: what it predicts depends "
                "on the batches before. Expected stateful=False. Received: "
                "stateful=True"
            )
        if not sites:
            steps.append(
                CallStep(
                    *place,
                    inference_call(node.operation, node.fill),
                    piece=piece_of(node.operation),
                )
            )
        elif noise_of(node.operation) is not None:
            steps.append(
                NoiseStep(
                    *place,
                    sites[0].noise,
                    sites[0].noise_shape,
                    number,
                    sites[0].path in chosen,
                    roles[node.inputs[0]] is Role.ROWS,
                )
            )
            number += 1
        else:
            traced = Traced(0, None, "")
            if node.inputs and not _stateful(node.operation):
                traced = _traced(
                    node.operation,
                    node.fill,
                    node.path,
                    [shapes[value] for value in node.inputs],
                    [graph.specs[value] for value in node.inputs],
                )
            call = noisy_call(
                node.operation, node.fill, node.path, number, chosen
            )
            active = any(site.path in chosen for site in sites)
            steps.append(CallStep(*place, call, number, traced.draws, active))
            if active and traced.problem:
                problems.append(traced.problem)
            number += traced.draws
    return steps, problems


def _stateful(operation: Any) -> bool:
    """Whether a recurrent layer inside carries its state between batches."""
    return any(
        isinstance(layer, keras.layers.RNN) and layer.stateful
        for layer in _keras.all_layers(operation)
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


def _misplaced_values(
    suffix: Sequence[Step],
    shapes: Sequence[tuple[Shape, Shape]],
    roles: Sequence[Role],
) -> list[str]:
    """Returns why values of the suffix cannot hold several samples."""
    problems = []
    for step in suffix:
        for value in step.inputs:
            spread_by_noise = (
                isinstance(step, NoiseStep)
                and step.active
                and roles[value] is Role.CONSTANT
                and shapes[value][0][:1] != (1,)
            )
            if spread_by_noise or roles[value] is Role.ELSEWHERE:
                problems.append(misplaced(step.path, shapes[value]))
    return problems
