# SPDX-License-Identifier: Apache-2.0
"""Observes what an operation draws, and in which mode its layers must run.

An operation is traced in inference mode and, layer by layer, in training mode.
Noise that is drawn in inference mode is sampled as it is. Noise that is drawn
in training mode only is sampled by calling its layer in training mode, if that
is harmless:

    noise layers behind `if training:`   with every noise at its expected value
                                         the operation computes the same in
                                         both modes
    draws in a layer's own code          the layer owns no other layers, and no
                                         state that training moves

Layers below one that is called in training mode stay in inference mode.
Everything else is reported as `Hidden`.
"""

import collections
import dataclasses
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.cache import facts
from keras_bayesdrop.graph.compare import same_outputs
from keras_bayesdrop.graph.fingerprint import version_of
from keras_bayesdrop.graph.probe import BATCHES
from keras_bayesdrop.graph.probe import Shape
from keras_bayesdrop.graph.probe import rows_axis
from keras_bayesdrop.graph.probe import specs_at
from keras_bayesdrop.graph.sites import foreign_cells
from keras_bayesdrop.graph.sites import inner_sites
from keras_bayesdrop.graph.sites import is_augmentation
from keras_bayesdrop.graph.sites import is_known
from keras_bayesdrop.graph.sites import layer_tree
from keras_bayesdrop.graph.sites import left_to_owners
from keras_bayesdrop.graph.traces import Event
from keras_bayesdrop.graph.traces import Fill
from keras_bayesdrop.graph.traces import Trace
from keras_bayesdrop.graph.traces import cannot_compile
from keras_bayesdrop.graph.traces import first_line
from keras_bayesdrop.graph.traces import trace

Specs = Sequence[tf.TensorSpec]


@dataclasses.dataclass(frozen=True)
class Hidden:
    """Noise that cannot be taken over.

    Attributes:
        path: Where it is.
        why: In words.
        always: Whether it is drawn in inference mode too.
    """

    path: str
    why: str
    always: bool


@dataclasses.dataclass(frozen=True)
class Draw:
    """One draw of an operation.

    Attributes:
        path: Of the site that it belongs to.
        shapes: Of what is drawn, at both batch sizes.
        axis: The axis that holds the rows; `None` if none does.
        on_request: Whether it is drawn only if its layer is asked for.
        problem: Why it cannot be sampled, or `""`.
        used: Whether the outputs depend on it.
    """

    path: str
    shapes: tuple[Shape, Shape]
    axis: int | None
    on_request: bool
    problem: str
    used: bool = True


@dataclasses.dataclass(frozen=True)
class Observation:
    """The draws that traces of an operation show.

    Attributes:
        draws: In their order.
        by_hand: Paths of layers whose code draws, and by which functions.
        modes: By path, the `training` that layers inside have to be called
            with; pairs, in order.
        hidden: Noise that cannot be taken over.
        shapes: Per output, its shape at both batch sizes.
        structure: Structure of `tf.TensorSpec` of the outputs.
    """

    draws: tuple[Draw, ...]
    by_hand: tuple[tuple[str, tuple[str, ...]], ...]
    modes: tuple[tuple[str, bool], ...]
    hidden: tuple[Hidden, ...]
    shapes: tuple[tuple[Shape, Shape], ...]
    structure: Any


def observe(
    operation: Any,
    fill: Fill,
    path: str,
    specs: Sequence[Specs],
    batches: tuple[int, int] = BATCHES,
    asked: Collection[str] = (),
) -> Observation:
    """Traces an operation to see what it draws.

    Args:
        operation: Keras layer or model.
        fill: Maps tensors to the arguments of the call.
        path: Names from the model down to the operation.
        specs: Specs of the tensors, per batch size.
        batches: The batch sizes. If they are the same, the model has no other.
        asked: Paths of augmentation layers that are to draw.

    Returns:
        The draws, the modes, and what is out of reach.
    """

    def run(modes: dict[str, bool], which: int = 0) -> Trace:
        try:
            return trace(operation, fill, path, specs[which], modes)
        except (
            NotImplementedError,
            tf.errors.OperatorNotAllowedInGraphError,
        ) as error:
            raise cannot_compile(operation, error) from error

    # Traces are made outside of any graph that is being built.
    with tf.init_scope():
        modes, hidden = _training_modes(operation, path, run, specs[0], asked)
        first, second = run(modes), run(modes, -1)
    hidden += [Hidden(path, why, True) for why in _of_op(operation, first)]
    draws = _draws(first, second, operation, path, batches)
    by_hand: dict[str, list[str]] = {}
    for event in first.events:
        if event.function:
            by_hand.setdefault(event.site.path, []).append(event.function)
    return Observation(
        draws,
        tuple((where, tuple(names)) for where, names in by_hand.items()),
        tuple(modes.items()),
        tuple(hidden),
        tuple(zip(first.shapes, second.shapes, strict=True)),
        first.structure,
    )


def observed(
    operation: Any,
    fill: Fill,
    path: str,
    shapes: Sequence[tuple[Shape, Shape]],
    dtypes: Sequence[Any],
    batches: tuple[int, int],
    asked: Collection[str],
    version: int | None = None,
) -> Observation:
    """Observes an operation, or remembers what was seen before."""
    sites = tuple(
        (site.path, site.noise) for site in inner_sites(operation, path)
    )
    # Arguments of the call besides tensors may change what it draws.
    arguments = repr(fill([None] * len(shapes)))
    mine = frozenset(
        where for _, where in layer_tree(operation, path) if where in asked
    )
    key = (
        "draws",
        version_of(operation) if version is None else version,
        path,
        sites,
        tuple(shapes),
        tuple(map(str, dtypes)),
        arguments,
        batches,
        mine,
    )
    # A trace is too slow to repeat at every prediction.
    return facts.get(
        operation,
        key,
        lambda: observe(
            operation, fill, path, specs_at(shapes, dtypes), batches, mine
        ),
    )


def needs_look(operation: Any) -> bool:
    """Returns whether only a trace can tell what an operation draws."""
    if not isinstance(operation, keras.Layer):
        return not is_known(operation)
    return not all(is_known(layer) for layer, _ in layer_tree(operation, ""))


def _training_modes(
    operation: Any, path: str, run: Any, specs: Specs, asked: Collection[str]
) -> tuple[dict[str, bool], list[Hidden]]:
    """Finds the layers that have to be called in training mode."""
    tree = list(layer_tree(operation, path))
    cells = foreign_cells(operation, path)
    owned = left_to_owners(operation, path)
    below = {
        where: [each for each in _below(layer, where) if each not in owned]
        for layer, where in tree
    }
    candidates = [
        (layer, where)
        for layer, where in tree
        if private_keras.accepts(layer, "training")
        and (
            where in asked
            if is_augmentation(layer)
            else where in cells or not is_known(layer)
        )
    ]
    if not candidates:
        return {}, []
    plain = run({})

    def modes(chosen: Collection[str]) -> dict[str, bool]:
        """Training mode for some layers, and inference mode below them."""
        pinned = {inside: False for where in chosen for inside in below[where]}
        return {**pinned, **dict.fromkeys(chosen, True)}

    everything = [where for _, where in candidates]
    try:
        full = run(modes(everything))
    except Exception as error:
        return {}, [
            Hidden(
                path or operation.name,
                f"`{type(operation).__name__}.call` fails with training=True, "
                f"so its noise cannot be seen ({type(error).__name__}: "
                f"{first_line(error)})",
                False,
            )
        ]
    if _keys(full) == _keys(plain) and full.foreign == plain.foreign:
        return {}, []
    hidden = [
        Hidden(path or operation.name, f"it draws by {why}", False)
        for why in full.foreign
        if why not in plain.foreign
    ]
    # Leaves that draw by hand, in training mode only.
    known = _keys(plain)
    by_hand = {
        event.site.path
        for event in full.events
        if event.function and event.key not in known
    }
    leaves = [
        where
        for layer, where in candidates
        if where in by_hand and not _why_not_alone(layer)
    ]
    others = [where for where in everything if where not in leaves]
    harmless = _harmless(others, plain, run, modes, specs)
    final = modes([*leaves, *harmless])
    chosen = run(final) if final else plain
    reached = collections.Counter(_keys(chosen))
    owners = {where: layer for layer, where in tree}
    for event in full.events:
        reached[event.key] -= 1
        if (
            not event.used
            or reached[event.key] >= 0
            or any(each.path == event.site.path for each in hidden)
        ):
            continue
        hidden.append(
            Hidden(
                event.site.path,
                _why_out_of_reach(event, owners.get(event.site.path)),
                False,
            )
        )
    return final, hidden


def _harmless(
    others: list[str], plain: Trace, run: Any, modes: Any, specs: Specs
) -> list[str]:
    """Returns the layers whose training mode adds noise and nothing else."""

    def adds_only_noise(chosen: list[str]) -> bool:
        trial = run(modes(chosen))
        if _keys(trial) == _keys(plain):
            return False  # Nothing to gain.
        new = [e for e in trial.events if e.key not in _keys(plain)]
        if any(event.function for event in new):
            return False
        return same_outputs(plain, trial, specs)

    if not others:
        return []
    if adds_only_noise(others):
        return others
    if len(others) == 1:
        return []
    alone = [where for where in others if adds_only_noise([where])]
    return alone if alone and adds_only_noise(alone) else []


def _why_not_alone(layer: Any) -> str:
    """Returns why the training mode of a layer may do more than draw."""
    if private_keras.sublayers(layer):
        return "it owns other layers, which training mode may change too"
    seeds = {id(variable) for variable in private_keras.seed_variables(layer)}
    moving = [
        variable
        for variable in getattr(layer, "_non_trainable_variables", ())
        if id(variable) not in seeds
    ]
    if moving:
        return "it has state that training mode may change too"
    return ""


def _why_out_of_reach(event: Event, layer: Any) -> str:
    code = f"`{type(event.site.layer).__name__}.call`"
    if event.function:
        reason = _why_not_alone(layer) if layer is not None else ""
        return f"{code} draws by `{event.function}` in training mode only" + (
            f", and {reason}" if reason else ""
        )
    return (
        "it draws in training mode only, and training mode changes more than "
        "the noise"
    )


def _below(layer: Any, path: str) -> list[str]:
    return [where for _, where in layer_tree(layer, path)][1:]


def _keys(seen: Trace) -> list[tuple[str, str, bool]]:
    return [event.key for event in seen.events]


def _of_op(operation: Any, seen: Trace) -> list[str]:
    code = f"`{type(operation).__name__}.call`"
    return [f"{code} draws by {why}" for why in seen.foreign]


def _draws(
    first: Trace,
    second: Trace,
    operation: Any,
    path: str,
    batches: tuple[int, int],
) -> tuple[Draw, ...]:
    """Puts the draws of two traces side by side."""
    same = _keys(first) == _keys(second)
    draws = []
    for number, event in enumerate(first.events):
        other = second.events[number] if same else event
        shapes = (event.shape, other.shape)
        problem = event.problem
        if not same:
            problem = (
                f"`{path or operation.name}` draws another number of times "
                "for another batch size. Expected the same draws for every "
                f"batch. Received: {len(first.events)} and "
                f"{len(second.events)} draws"
            )
        draws.append(
            Draw(
                event.site.path,
                shapes,
                rows_axis(shapes, batches),
                is_augmentation(event.site.layer),
                problem,
                event.used,
            )
        )
    return tuple(draws)
