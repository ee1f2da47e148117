# SPDX-License-Identifier: Apache-2.0
"""Noise that a layer keeps inside: cells, attention, layers of layers.

Such noise is reached by lending its owner another method while the layer is
called: a dropout layer another `call`, a recurrent cell another
`get_dropout_mask`, an attention layer another `_apply_scores`. A loan is seen
only by the thread that made it, and is always taken back.
"""

import contextlib
import dataclasses
import types
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.observer import observing
from keras_bayesdrop.graph.loans import lent
from keras_bayesdrop.graph.loans import original_of
from keras_bayesdrop.graph.sites.classify import noise_of
from keras_bayesdrop.graph.sites.handmade import HandMade
from keras_bayesdrop.graph.sites.inside import NoiseInside
from keras_bayesdrop.graph.sites.site import Site
from keras_bayesdrop.graph.sites.tree import children
from keras_bayesdrop.graph.sites.tree import is_known
from keras_bayesdrop.graph.sites.tree import layer_tree
from keras_bayesdrop.noise import Bernoulli

Loan = tuple[Any, str, Callable[..., Any]]

_MASKS_OF_A_CELL = ("dropout", "recurrent_dropout")


@dataclasses.dataclass(frozen=True)
class _Owner:
    """A layer with noise of its own, and how to redirect that noise."""

    sites: list[Site]
    loans: Callable[[NoiseInside], list[Loan]]


def inner_sites(layer: Any, path: str) -> list[Site]:
    """Lists the noise sites inside a layer, itself included.

    Args:
        layer: A Keras layer.
        path: Names from the model down to the layer.

    Returns:
        The sites in the order in which the layers are owned. A layer that is
        called several times is listed once.
    """
    return [site for owner in _owners(layer, path) for site in owner.sites]


@contextlib.contextmanager
def redirected(
    layer: Any,
    path: str,
    noise: NoiseInside,
    modes: Mapping[str, bool] | None = None,
) -> Iterator[None]:
    """Sends the noise inside `layer` through `noise` while open.

    Args:
        layer: A Keras layer.
        path: Names from the model down to the layer.
        noise: Takes every draw, in the order in which they happen.
        modes: By path, the `training` that a layer is called with, whatever
            its caller says.

    Yields:
        Nothing.
    """
    modes = modes or {}
    tree = list(layer_tree(layer, path))
    with contextlib.ExitStack() as stack:
        taken: set[int] = set()
        for owner in _owners(layer, path):
            for loan in owner.loans(noise):
                taken.add(id(loan[0]) if loan[1] == "call" else 0)
                stack.enter_context(lent(*loan))
        if not modes and all(is_known(each) for each, _ in tree):
            yield
            return
        for each, inside in tree:
            if isinstance(each, keras.layers.RNN):
                stack.enter_context(lent(*_configure(each, noise)))
            if id(each) in taken or not isinstance(each, keras.Layer):
                continue
            if not is_known(each) or inside in modes:
                loan = _framed(each, inside, noise, modes.get(inside))
                stack.enter_context(lent(*loan))
        stack.enter_context(observing(noise))
        yield


def holds_time_distributed(layer: Any) -> bool:
    """Returns whether a layer is, or holds, a `TimeDistributed`."""
    return any(
        isinstance(each, keras.layers.TimeDistributed)
        for each in private_keras.all_layers(layer)
    )


def hand_made_site(layer: Any, path: str, functions: Sequence[str]) -> Site:
    """Returns the site of what a layer draws in its own code."""
    names = tuple(sorted(set(functions)))
    return Site(path, layer, HandMade(names, type(layer).__name__))


def _framed(
    layer: Any, path: str, noise: NoiseInside, training: bool | None
) -> Loan:
    """A layer says when its `call` begins and ends."""
    original = original_of(layer, "call")
    if isinstance(original, tf.types.experimental.PolymorphicFunction):
        # What is traced here must not stay with the caller's `tf.function`.
        original = types.MethodType(type(layer).call.python_function, layer)
    site = hand_made_site(layer, path, ())
    position = private_keras.position_of(layer, "training")

    def call(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(noise.frame(site, training))
            if training is not None:
                stack.enter_context(
                    private_keras.training_mode(layer, training)
                )
                if position is not None and len(args) > position:
                    before, after = args[:position], args[position + 1 :]
                    args = (*before, training, *after)
                elif position is not None:
                    kwargs["training"] = training
            return original(*args, **kwargs)

    return layer, "call", call


def _configure(layer: Any, noise: NoiseInside) -> Loan:
    """A recurrent layer says when it makes the masks of its cells."""
    name = "_maybe_config_dropout_masks"
    original = original_of(layer, name)

    def configure(*args: Any, **kwargs: Any) -> Any:
        with noise.configuring():
            return original(*args, **kwargs)

    return layer, name, configure


def _owners(layer: Any, path: str) -> list[_Owner]:
    """Finds the owners of noise, every layer once."""
    seen: set[int] = set()

    def visit(layer: Any, path: str) -> Iterator[_Owner]:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        owner = (
            _noise_layer(layer, path)
            or _attention(layer, path)
            or _recurrent(layer, path)
        )
        if owner is not None:
            yield owner
            recurrent = isinstance(layer, keras.layers.RNN)
            if not recurrent or not _has_foreign_cells(layer):
                return
        if isinstance(layer, keras.layers.TimeDistributed):
            yield _time_distributed(layer, path)
        for child, inside in children(layer, path):
            yield from visit(child, inside)

    return list(visit(layer, path))


def _noise_layer(layer: Any, path: str) -> _Owner | None:
    """A dropout layer perturbs, whatever `training` says."""
    noise = noise_of(layer)
    if noise is None:
        return None
    site = Site(path, layer, *noise)

    def loans(noise: NoiseInside) -> list[Loan]:
        def call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
            return noise.perturb(site, inputs)

        return [(layer, "call", call)]

    return _Owner([site], loans)


def _attention(layer: Any, path: str) -> _Owner | None:
    """Attention perturbs its weights, after the softmax."""
    if not isinstance(layer, keras.layers.Attention) or layer.dropout <= 0:
        return None
    site = Site(path, layer, Bernoulli(float(layer.dropout)))

    def loans(noise: NoiseInside) -> list[Loan]:
        original = original_of(layer, "_apply_scores")

        def apply_scores(
            scores: Any, value: Any, *args: Any, **kwargs: Any
        ) -> Any:
            kwargs["training"] = False
            _, weights = original(scores, value, *args, **kwargs)
            weights = noise.perturb(site, weights)
            return keras.ops.matmul(weights, value), weights

        return [(layer, "_apply_scores", apply_scores)]

    return _Owner([site], loans)


def _recurrent(layer: Any, path: str) -> _Owner | None:
    """A recurrent layer has one mask per sequence, the same at every step.

    Cells apply their masks in training mode only, so the loop runs in it. A
    cell written by somebody else may do anything in training mode: it is
    called in it only if that is seen to be harmless.
    """
    if not isinstance(layer, keras.layers.RNN):
        return None
    stacked = isinstance(layer.cell, keras.layers.StackedRNNCells)
    cells = _cells(layer)
    sites = {
        (index, part): Site(
            f"{path}/{cell.name}/{part}" if stacked else f"{path}/{part}",
            layer,
            Bernoulli(float(getattr(cell, part))),
        )
        for index, cell in enumerate(cells)
        for part in _MASKS_OF_A_CELL
        if hasattr(cell, f"get_{part}_mask") and getattr(cell, part, 0) > 0
    }
    if not sites:
        return None
    mode = {} if _has_foreign_cells(layer) else {"training": True}

    def loans(noise: NoiseInside) -> list[Loan]:
        kept: dict[tuple[int, str], Any] = {}  # masks of the call under way
        original = original_of(layer, "call")

        def call(sequences: Any, *args: Any, **kwargs: Any) -> Any:
            kept.clear()
            # Cells that are told to train tell the siblings of their layer.
            with private_keras.training_mode(layer, bool(mode)):
                return original(sequences, *args, **{**kwargs, **mode})

        def mask_of(key: tuple[int, str]) -> Callable[[Any], Any]:
            count = getattr(cells[key[0]], "dropout_mask_count", None)

            def get_mask(step_input: Any) -> Any:
                if key not in kept:
                    ones = tf.ones_like(step_input)
                    masks = [
                        noise.perturb(sites[key], ones)
                        for _ in range(count or 1)
                    ]
                    kept[key] = masks[0] if count is None else masks
                return kept[key]

            return get_mask

        masks: list[Loan] = [
            (cells[index], f"get_{part}_mask", mask_of((index, part)))
            for index, part in sites
        ]
        return [(layer, "call", call), *masks]

    return _Owner(list(sites.values()), loans)


def left_to_owners(layer: Any, path: str) -> set[str]:
    """Returns the paths of layers whose mode is up to their owner.

    A recurrent layer of Keras runs its cells in training mode, for the sake
    of their masks.
    """
    return {
        inside
        for each, where in layer_tree(layer, path)
        if isinstance(each, keras.layers.RNN)
        and not _has_foreign_cells(each)
        and _recurrent(each, where) is not None
        for _, inside in layer_tree(each, where)
    }


def foreign_cells(layer: Any, path: str) -> set[str]:
    """Returns the paths of cells that are looped over with foreign ones.

    Their recurrent layer stays in inference mode, and they with it.
    """
    paths = {id(each): where for each, where in layer_tree(layer, path)}
    return {
        paths[id(cell)]
        for each, _ in layer_tree(layer, path)
        if isinstance(each, keras.layers.RNN) and _has_foreign_cells(each)
        for cell in _cells(each)
        if id(cell) in paths
    }


def _cells(layer: Any) -> list[Any]:
    stacked = isinstance(layer.cell, keras.layers.StackedRNNCells)
    return list(layer.cell.cells) if stacked else [layer.cell]


def _has_foreign_cells(layer: Any) -> bool:
    return not all(
        _made_by_keras(each) for each in [layer.cell, *_cells(layer)]
    )


def _time_distributed(layer: Any, path: str) -> _Owner:
    """Takes all steps at once, moved into the batch.

    Keras loops over a time axis of known length. Over an open one it maps in
    parallel, with one mask for all steps, and over as many steps as there are
    rows (Keras 3.15). Here every step has noise of its own, known length or
    not. Steps are taken one after the other where the rows of a step may
    depend on each other; the noise is the same.
    """
    inner = layer.layer
    is_noisy = bool(inner_sites(inner, path)) or not is_known(inner)

    def loans(noise: NoiseInside) -> list[Loan]:
        original = original_of(layer, "call")

        def call(inputs: Any, training: Any = None, mask: Any = None) -> Any:
            length = inputs.shape[1]
            if length is not None and not is_noisy:
                return original(inputs, training=training, mask=mask)
            kwargs: dict[str, Any] = {}
            if private_keras.accepts(inner, "training"):
                kwargs["training"] = training
            if not private_keras.accepts(inner, "mask"):
                mask = None
            if length is not None and noise.step_by_step:

                def call_step(step: int) -> Any:
                    if mask is not None:
                        kwargs["mask"] = mask[:, step]
                    return inner.call(inputs[:, step], **kwargs)

                return tf.stack(noise.each_step(length, call_step), axis=1)
            if mask is not None:
                kwargs["mask"] = _merge_time(mask)
            with noise.apart():
                outputs = inner.call(_merge_time(inputs), **kwargs)
            steps = tf.concat([tf.shape(inputs)[:2], tf.shape(outputs)[1:]], 0)
            result = tf.reshape(outputs, steps)
            result.set_shape([*inputs.shape[:2], *outputs.shape[1:]])
            return result

        return [(layer, "call", call)]

    return _Owner([], loans)


def _merge_time(x: tf.Tensor) -> tf.Tensor:
    """Returns [batch * time, ...] of [batch, time, ...]."""
    merged = tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0))
    merged.set_shape([None, *x.shape[2:]])
    if None not in x.shape[:2]:
        merged.set_shape([x.shape[0] * x.shape[1], *x.shape[2:]])
    return merged


def _made_by_keras(cell: Any) -> bool:
    """Returns whether the `call` of a cell is Keras' own code."""
    writer = next(cls for cls in type(cell).__mro__ if "call" in vars(cls))
    return private_keras.is_ours(writer)
