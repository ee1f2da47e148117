# SPDX-License-Identifier: Apache-2.0
"""Traces an operation with its noise taken over, to see what it draws."""

import contextlib
import dataclasses
import random
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.loans import lent
from keras_bayesdrop.graph.probe import Shape
from keras_bayesdrop.graph.sites import NoiseInside
from keras_bayesdrop.graph.sites import Site
from keras_bayesdrop.graph.sites import hand_made_site
from keras_bayesdrop.graph.sites import redirected
from keras_bayesdrop.graph.sites.handmade import SUPPORTED
from keras_bayesdrop.graph.sites.handmade import shape_of
from keras_bayesdrop.graph.sites.handmade import static_shape
from keras_bayesdrop.graph.sites.handmade import without_noise
from keras_bayesdrop.graph.sites.inside import Loop
from keras_bayesdrop.noise import WeightNoise

Fill = Callable[..., Any]

# TensorFlow's ops that draw, and those that run Python code, in which anything
# can be drawn.
_RANDOM_PREFIXES = (
    "Multinomial",
    "NonDeterministicInts",
    "ParameterizedTruncatedNormal",
    "Random",
    "RngReadAndSkip",
    "SampleDistortedBoundingBox",
    "StatefulRandomBinomial",
    "StatefulStandardNormal",
    "StatefulTruncatedNormal",
    "StatefulUniform",
    "StatelessMultinomial",
    "StatelessParameterizedTruncatedNormal",
    "StatelessRandom",
    "StatelessSampleDistortedBoundingBox",
    "StatelessShuffle",
    "StatelessTruncatedNormal",
    "TruncatedNormal",
)
_PYTHON = ("EagerPyFunc", "PyFunc", "PyFuncStateless")
# Graphs of TensorFlow's branches; words may be drawn in them.
_BRANCHES = ("cond_true", "cond_false", "branch", "switch_case")


@dataclasses.dataclass(frozen=True)
class Event:
    """A draw, as a trace saw it.

    Attributes:
        site: Where it belongs.
        function: The function of `keras.random`, or `""` for a noise layer.
        shape: Of the input of a noise layer, or of the numbers drawn.
        problem: Why it cannot be sampled, or `""`.
        used: Whether the outputs depend on it. A cell makes masks in inference
            mode too, and does not use them.
    """

    site: Site
    function: str
    shape: Shape
    problem: str
    used: bool = True

    @property
    def key(self) -> tuple[str, str, bool]:
        """The part of an event that is the same in every trace."""
        return self.site.path, self.function, self.used


@dataclasses.dataclass(frozen=True)
class Trace:
    """The draws and the outputs of one trace of an operation.

    Attributes:
        events: Draws, in their order.
        shapes: Of the outputs, flat.
        structure: Structure of `tf.TensorSpec` of the outputs.
        foreign: Noise that nothing can take over, in words.
        run: The traced function.
    """

    events: tuple[Event, ...]
    shapes: tuple[Shape, ...]
    structure: Any
    foreign: tuple[str, ...]
    run: Any


class _Recorder(NoiseInside):
    """Writes draws down, and gives every site its expected value."""

    def __init__(self, operation: Any, path: str) -> None:
        super().__init__()
        self.events: list[Event] = []
        # Per event, what it gave, where that can be followed to the outputs.
        self.results: list[Any] = []
        self.graph: Any = None
        self._whole = hand_made_site(operation, path, ())

    def at_site(self, site: Site, x: tf.Tensor, loop: Loop | None) -> tf.Tensor:
        """Writes a noise layer's draw down."""
        problem = self._nested(site.path, loop)
        if loop is not None and isinstance(site.noise, WeightNoise):
            problem = (
                f"Layer `{site.path}` draws its weights anew at every step of "
                "a loop. Expected noise on units there. Received: a "
                f"{type(site.layer).__name__}"
            )
        result = _marked(site.noise.expected(x))
        self._add(site, "", tuple(x.shape), loop, problem, result)
        return result

    def by_hand(
        self,
        site: Site | None,
        function: str,
        arguments: dict[str, Any],
        loop: Loop | None,
    ) -> tf.Tensor:
        """Writes a draw of a layer's own code down."""
        site = site or self._whole
        problem = self._nested(site.path, loop)
        if function not in SUPPORTED:
            problem = (
                f"Layer `{site.path}` ({type(site.layer).__name__}) draws by "
                f"`keras.random.{function}`, which cannot be made of "
                f"counters. Expected one of {', '.join(SUPPORTED)}. Received: "
                f"{function}"
            )
        if isinstance(arguments.get("seed"), int):
            problem = (
                f"Layer `{site.path}` ({type(site.layer).__name__}) draws by "
                f"`keras.random.{function}` with a number as the seed: the "
                "same numbers at every call. Expected a "
                "`keras.random.SeedGenerator`, or seed=None. Received: "
                f"seed={arguments['seed']}"
            )
        shape = static_shape(shape_of(function, arguments))
        result = _marked(without_noise(function, arguments))
        self._add(site, function, shape, loop, problem, result)
        return result

    def _add(
        self,
        site: Site,
        function: str,
        shape: Shape,
        loop: Loop | None,
        problem: str,
        result: tf.Tensor,
    ) -> None:
        event = Event(site, function, shape, problem)

        def add() -> None:
            self.events.append(event)
            self.results.append(result if loop is None else None)

        if loop is None:
            add()
        else:
            loop.shared(add)

    def events_of(self, outputs: Sequence[tf.Tensor]) -> tuple[Event, ...]:
        """Returns the draws, and whether the outputs depend on each."""
        needed = _ancestors(outputs)
        return tuple(
            dataclasses.replace(event, used=result.op in needed)
            if result is not None and result.graph is self.graph
            else event
            for event, result in zip(self.events, self.results, strict=True)
        )

    def _nested(self, path: str, loop: Loop | None) -> str:
        """Returns why a draw cannot be followed to where it happens."""
        graph = tf.compat.v1.get_default_graph()
        until = self.graph if loop is None or loop.unrolled else loop.body
        while graph is not None and graph is not until:
            if not any(name in graph.name for name in _BRANCHES):
                return (
                    f"Layer `{path}` draws inside a loop or a `tf.function` "
                    "of its own, where steps cannot be told apart. Expected "
                    "noise outside of it, or in the cell of a "
                    f"`keras.layers.RNN`. Received: a draw in `{graph.name}`"
                )
            graph = getattr(graph, "outer_graph", None)
        return ""


def trace(
    operation: Any,
    fill: Fill,
    path: str,
    specs: Sequence[tf.TensorSpec],
    modes: Mapping[str, bool],
) -> Trace:
    """Traces an operation once, in inference mode but for `modes`.

    Args:
        operation: Keras layer or model.
        fill: Maps tensors to the arguments of the call.
        path: Names from the model down to the operation.
        specs: Of the tensors.
        modes: By path, the `training` that a layer inside is called with.

    Returns:
        Draws, shapes, and the traced function.
    """
    training = training_off(operation)
    noise = _Recorder(operation, path)
    structure: Any = None

    def run(*values: tf.Tensor) -> list[tf.Tensor]:
        nonlocal noise, structure
        noise = _Recorder(operation, path)
        noise.graph = tf.compat.v1.get_default_graph()
        args, kwargs = fill(values)
        with (
            keras.StatelessScope(),
            private_keras.losses_kept(operation),
            redirected(operation, path, noise, modes),
            _nothing_built(operation) if modes else contextlib.nullcontext(),
        ):
            outputs = operation(*args, **{**kwargs, **training})
        structure = keras.tree.map_structure(_spec, outputs)
        return list(keras.tree.flatten(outputs))

    # Another thread may have moved the generators meanwhile: a layer that
    # does so, does it every time.
    moved = True
    for _ in range(3):
        before = _global_generators()
        traced = tf.function(run, autograph=False).get_concrete_function(*specs)
        moved = _global_generators() != before
        if not moved:
            break
    foreign = _foreign_noise(traced.graph)
    if moved:
        foreign += ("NumPy's or Python's global random generator",)
    return Trace(
        noise.events_of(traced.graph.outputs),
        tuple(
            () if x is None else tuple(x.shape)
            for x in traced.structured_outputs
        ),
        structure,
        foreign,
        traced,
    )


@contextlib.contextmanager
def _nothing_built(operation: Any) -> Iterator[None]:
    """Lets no layer make variables that it does not have yet."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a layer inside is built in training mode only")

    with contextlib.ExitStack() as stack:
        for layer in private_keras.all_layers(operation):
            if isinstance(layer, keras.Layer) and not layer.built:
                stack.enter_context(lent(layer, "add_weight", refuse))
        yield


def _spec(x: Any) -> tf.TensorSpec:
    """Returns the spec of an output; some layers return `None` for one."""
    if x is None:
        return private_keras.spec([], "float32")
    return private_keras.spec([None, *x.shape[1:]], x.dtype)


def _marked(x: tf.Tensor) -> tf.Tensor:
    """Returns `x` as the output of an op of its own, with its Keras mask."""
    marked = tf.identity(x)
    mask = private_keras.get_mask(x)
    if mask is not None:
        private_keras.set_mask(marked, mask)
    return marked


def _ancestors(outputs: Sequence[tf.Tensor]) -> set[Any]:
    """Returns every op that tensors depend on."""
    needed: set[Any] = set()
    stack = [tensor.op for tensor in outputs]
    while stack:
        op = stack.pop()
        if op in needed:
            continue
        needed.add(op)
        stack.extend(tensor.op for tensor in op.inputs)
        stack.extend(op.control_inputs)
    return needed


def cannot_compile(operation: Any, error: Exception) -> PlanError:
    """Returns the error for code that looks at the values of tensors."""
    return PlanError(
        f"`{operation.name}` cannot be compiled: its `call` looks at the "
        "values of tensors. Expected code that `tf.function` can trace. "
        f"Received: {type(error).__name__}: {error}"
    )


def first_line(error: Any) -> str:
    """Returns the beginning of a message, for use in another.

    Keras puts what it was doing in front of a message, which it prints bold.
    """
    bold = re.search("\\x1b\\[1m(.*?)(\\n|\\x1b|$)", str(error))
    if bold is not None:
        return bold[1][:200]
    return (str(error).splitlines() or [""])[0][:200]


def training_off(operation: Any) -> dict[str, bool]:
    """Returns the argument that keeps a call in inference mode."""
    return (
        {"training": False}
        if private_keras.accepts(operation, "training")
        else {}
    )


def _foreign_noise(graph: Any) -> tuple[str, ...]:
    """Lists what draws in a graph by itself, functions inside included."""
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes.extend(function.node_def)
    noise = []
    for node in nodes:
        if node.op in _PYTHON:
            noise.append(f"Python code (`{node.op}` at `{node.name}`)")
        elif node.op.startswith(_RANDOM_PREFIXES):
            noise.append(f"`{node.op}` at `{node.name}`")
    return tuple(dict.fromkeys(noise))


def _global_generators() -> tuple[Any, ...]:
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return (
        kind,
        keys.tobytes(),  # type: ignore[union-attr]
        position,
        has_gauss,
        cached,
        random.getstate(),
    )
