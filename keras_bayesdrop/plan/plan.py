# SPDX-License-Identifier: Apache-2.0
"""The plan: what runs once, what runs for every sample, and which noise.

    inputs --prefix--> cut values --suffix, for every sample--> outputs

The prefix holds every step that no active noise reaches, the suffix the rest.
The order of noise sites, and so their numbers, comes from the graph alone:
which of them are active does not change the noise of the others.
"""

import dataclasses
import weakref
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop import _keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.plan.calls import count_draws
from keras_bayesdrop.plan.calls import inference_call
from keras_bayesdrop.plan.calls import noisy_call
from keras_bayesdrop.plan.graph import Graph
from keras_bayesdrop.plan.graph import Node
from keras_bayesdrop.plan.graph import read_graph
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
        batchless: Numbers of values without a batch axis.
        sites: Every noise site, active or not, in order of the graph.
        chosen: Paths of the active sites.
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
    batchless: frozenset[int]
    sites: tuple[Site, ...]
    chosen: frozenset[str]
    flatten: Callable[[Any], list[Any]]
    pack: Callable[[Sequence[Any]], Any]
    signature: tuple[Any, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in an order in which they can run."""
        return self.prefix + self.suffix


def find_sites(model: Any) -> list[Site]:
    """Lists the noise sites of a model, each layer once, in graph order."""
    graph = read_graph(model)
    if graph is None:
        return inner_sites(model, "")
    found: dict[str, Site] = {}
    for node in graph.nodes:
        for site in inner_sites(node.operation, node.path):
            found.setdefault(site.path, site)
    return list(found.values())


def build_plan(
    model: Any, layers: LayerSelection = None, example: Any = None
) -> Plan:
    """Cuts a model into what runs once and what runs for every sample.

    Args:
        model: A built Keras model.
        layers: Which noise sites are active, see `select_sites`.
        example: Structure of tensors (or specs) like the inputs. Needed, for
            a model whose `call` is its own code, to know its outputs.

    Returns:
        The plan.
    """
    sites = find_sites(model)
    active = (
        select_sites(layers, sites) if sites or layers is not None else set()
    )
    chosen = frozenset(
        site.path for site in sites if site.path in active and site.noise.active
    )
    graph = read_graph(model)
    if graph is None:
        graph = _graph_of_one(model, example)
    steps = _steps(graph, chosen)
    prefix, suffix, cut = _split(graph, steps)
    signature = (
        chosen,
        tuple((site.path, site.noise, site.noise_shape) for site in sites),
        tuple(weakref.ref(node.operation) for node in graph.nodes),
    )
    return Plan(
        prefix,
        suffix,
        graph.inputs,
        cut,
        graph.outputs,
        graph.specs,
        _batchless(graph),
        tuple(sites),
        chosen,
        graph.flatten,
        graph.pack,
        signature,
    )


def _graph_of_one(model: Any, example: Any) -> Graph:
    """Returns the graph of a model whose `call` is its own code."""
    if example is None:
        specs: tuple[Any, ...] = ()
        structure: Any = []
    else:
        specs = tuple(
            _batch_free(_keras.value_spec(leaf))
            for leaf in keras.tree.flatten(example)
        )
        structure = _draws_of(model, _packer(example), "", specs)[1]
    outputs = keras.tree.flatten(structure)
    inputs = tuple(range(len(specs)))
    numbers = tuple(range(len(specs), len(specs) + len(outputs)))
    node = Node("", model, inputs, numbers, _packer(example))
    return Graph(
        (node,),
        inputs,
        numbers,
        (*specs, *outputs),
        lambda x: list(keras.tree.flatten(x)),
        lambda flat: keras.tree.pack_sequence_as(structure, list(flat)),
    )


def _packer(example: Any) -> Callable[..., Any]:
    structure = keras.tree.map_structure(lambda leaf: None, example)

    def fill(values: Sequence[Any]) -> Any:
        packed = keras.tree.pack_sequence_as(structure, list(values))
        return (packed,), {}

    return fill


def _batch_free(spec: Any) -> Any:
    return type(spec)([None, *spec.shape[1:]], spec.dtype)


# How often the noise inside a layer draws, per layer and input specs: found by
# a trace, which is too slow to repeat at every prediction.
_draws_cache: weakref.WeakKeyDictionary[Any, dict[Any, tuple[int, Any]]] = (
    weakref.WeakKeyDictionary()
)


def _draws_of(
    operation: Any, fill: Callable[..., Any], path: str, specs: Sequence[Any]
) -> tuple[int, Any]:
    sites = tuple(
        (site.path, site.noise) for site in inner_sites(operation, path)
    )
    known = _draws_cache.setdefault(operation, {})
    key = (path, sites, tuple((tuple(s.shape), s.dtype) for s in specs))
    if key not in known:
        known[key] = count_draws(operation, fill, path, specs)
    return known[key]


def _steps(graph: Graph, chosen: Collection[str]) -> list[Step]:
    """Turns nodes into steps and numbers their noise sites."""
    steps: list[Step] = []
    number = 0
    # Values whose first axis holds one entry a row: so it is in the inputs,
    # and behind Keras' own layers; other code may fold axes into the batch.
    whole = set(graph.inputs)
    for node in graph.nodes:
        kind = type(node.operation).__name__
        sites = inner_sites(node.operation, node.path)
        place = (node.path, kind, node.inputs, node.outputs)
        kept_whole = all(value in whole for value in node.inputs)
        if kept_whole and _keeps_rows(node.operation):
            whole.update(node.outputs)
        if not sites:
            steps.append(
                CallStep(*place, inference_call(node.operation, node.fill))
            )
        elif noise_of(node.operation) is not None:
            steps.append(
                NoiseStep(
                    *place,
                    sites[0].noise,
                    sites[0].noise_shape,
                    number,
                    sites[0].path in chosen,
                    kept_whole,
                )
            )
            number += 1
        else:
            specs = [
                _batch_free(_keras.value_spec(graph.specs[value]))
                for value in node.inputs
            ]
            count = (
                _draws_of(node.operation, node.fill, node.path, specs)[0]
                if specs
                else 0
            )
            call = noisy_call(
                node.operation, node.fill, node.path, number, chosen
            )
            active = any(site.path in chosen for site in sites)
            steps.append(CallStep(*place, call, number, count, active))
            number += count
    return steps


def _keeps_rows(operation: Any) -> bool:
    return (
        isinstance(operation, keras.Layer)
        and not isinstance(operation, keras.layers.Lambda)
        and type(operation).__module__.split(".")[0]
        in ("keras", "keras_bayesdrop")
    )


def _batchless(graph: Graph) -> frozenset[int]:
    """Returns the values that no batch axis leads."""
    batch = {graph.specs[value].shape[0] for value in graph.inputs}
    return frozenset(
        number
        for number, spec in enumerate(graph.specs)
        if len(spec.shape) == 0
        or (spec.shape[0] is not None and spec.shape[0] not in batch)
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
    _check_batch_axes(graph, suffix)
    needed = [v for step in suffix for v in step.inputs] + list(graph.outputs)
    cut = tuple(dict.fromkeys(v for v in needed if v not in random))
    return tuple(prefix), tuple(suffix), cut


def _check_batch_axes(graph: Graph, suffix: Sequence[Step]) -> None:
    """Raises for noise on a value that belongs to no row."""
    batchless = _batchless(graph)
    for step in suffix:
        for value in step.inputs:
            shape = tuple(graph.specs[value].shape)
            if step.random and value in batchless and shape[:1] != (1,):
                raise PlanError(
                    f"The noise of layer `{step.path}` falls on a value "
                    "without a batch axis. Expected the first axis of its "
                    "input to be the batch, or of length 1. Received: "
                    f"shape={shape}"
                )
