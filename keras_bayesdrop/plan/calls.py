# SPDX-License-Identifier: Apache-2.0
"""Calling a Keras operation for several samples without changing it."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.observe import Draw
from keras_bayesdrop.graph.observe import Observation
from keras_bayesdrop.graph.probe import BATCHES
from keras_bayesdrop.graph.probe import OPEN
from keras_bayesdrop.graph.sites import Loop
from keras_bayesdrop.graph.sites import NoiseInside
from keras_bayesdrop.graph.sites import Site
from keras_bayesdrop.graph.sites import holds_time_distributed
from keras_bayesdrop.graph.sites import redirected
from keras_bayesdrop.graph.sites.handmade import from_words
from keras_bayesdrop.graph.sites.handmade import shape_of
from keras_bayesdrop.graph.sites.handmade import without_noise
from keras_bayesdrop.graph.traces import Fill
from keras_bayesdrop.graph.traces import training_off
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise.draws import Draws

Call = Callable[[Sequence[tf.Tensor], Draws | None], list[tf.Tensor]]


def quiet_call(operation: Any, fill: Fill, path: str) -> Call:
    """Makes a step's `call` of an operation without noise."""
    plain = inference_call(operation, fill)
    nothing = Observation((), (), (), (), (), None)

    def call(
        values: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        if not holds_time_distributed(operation):
            return plain(values, draws)
        off = _Drawer(operation, path, nothing, (0, 0), (), None)
        off.step_by_step = True
        with redirected(operation, path, off, {}):
            return plain(values, draws)

    return call


def inference_call(operation: Any, fill: Fill) -> Call:
    """Makes a call of an operation in inference mode."""
    training = training_off(operation)

    def call(
        values: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        args, kwargs = fill(values)
        with private_keras.losses_kept(operation):
            outputs = operation(*args, **{**kwargs, **training})
        return list(keras.tree.flatten(outputs))

    return call


def noisy_call(
    operation: Any,
    fill: Fill,
    path: str,
    seen: Observation,
    first_sites: tuple[int, int],
    chosen: Collection[str],
) -> Call:
    """Makes a step's `call` of an operation with noise inside.

    The draws inside are numbered from the first of `first_sites` in their
    order, those on request from the second; those not `chosen`, or all of them
    without draws, are the identity.
    """
    plain = inference_call(operation, fill)
    modes = {
        where: training
        for where, training in seen.modes
        if not training or _is_wanted(where, seen, chosen)
    }

    def call(
        values: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        if draws is None:
            off = _Drawer(operation, path, seen, first_sites, (), None)
            off.step_by_step = True
            with redirected(operation, path, off, {}):
                return plain(values, draws)
        noise = _Drawer(operation, path, seen, first_sites, chosen, draws)
        noise.step_by_step = draws.rows_mix
        with redirected(operation, path, noise, modes):
            return plain(values, draws)

    return call


def _is_wanted(where: str, seen: Observation, chosen: Collection[str]) -> bool:
    """Returns whether a layer runs in training mode because of its noise."""
    by_hand = {path for path, _ in seen.by_hand}
    return where not in by_hand or where in chosen


class _Drawer(NoiseInside):
    """Draws what an operation draws from counters, in the same order."""

    def __init__(
        self,
        operation: Any,
        path: str,
        seen: Observation,
        first_sites: tuple[int, int],
        chosen: Collection[str],
        draws: Draws | None,
    ) -> None:
        super().__init__()
        self._path = path
        self._operation = operation
        self._seen = seen
        self._chosen = chosen
        self._draws = draws
        self._first_sites = first_sites
        self._next = 0

    def at_site(self, site: Site, x: tf.Tensor, loop: Loop | None) -> tf.Tensor:
        """Perturbs `x` by the noise of a layer that is a noise site."""
        if self._draws is None or site.path not in self._chosen:
            self._skip(site.path, loop)
            return site.noise.expected(x)
        draws = self._draws
        if loop is not None and site.noise.one_draw_per_loop:
            number, draw = loop.shared(lambda: self._take(site.path))
            if draw.axis != 0 and not isinstance(site.noise, WeightNoise):
                return draws.perturb_whole(
                    x, site.noise, site.noise_shape, number, draw.axis
                )
            return draws.perturb(
                x,
                site.noise,
                site.noise_shape,
                number,
                folded=True,
                whole_rows=False,
            )
        if loop is not None:

            def all_steps() -> tuple[int | None, tf.Tensor]:
                number, draw = self._take(site.path)
                dims = _loop_dims(list(x.shape), draw, draws, loop)
                steps, axis = loop.all_steps, draw.axis
                return axis, draws.loop_words(
                    dims, site.noise_shape, number, steps, axis
                )

            axis, words = loop.shared(all_steps)
            step_words = words[loop.number]
            if axis != 0:
                return draws.perturb_whole(
                    x, site.noise, site.noise_shape, 0, axis, step_words
                )
            return draws.perturb(
                x,
                site.noise,
                site.noise_shape,
                0,
                folded=True,
                whole_rows=False,
                words=step_words,
            )
        number, draw = self._take(site.path)
        if draw.axis != 0:
            return draws.perturb_whole(
                x, site.noise, site.noise_shape, number, draw.axis
            )
        return draws.perturb(
            x,
            site.noise,
            site.noise_shape,
            number,
            folded=True,
            whole_rows=False,
            steps_apart=self.steps_apart,
        )

    def by_hand(
        self,
        site: Site | None,
        function: str,
        arguments: dict[str, Any],
        loop: Loop | None,
    ) -> tf.Tensor:
        """Returns the result of a random function that a layer calls."""
        path = site.path if site is not None else self._path
        if self._draws is None or path not in self._chosen:
            self._skip(path, loop)
            return without_noise(function, arguments)
        draws = self._draws
        dims = shape_of(function, arguments)
        if loop is not None:

            def all_steps() -> tf.Tensor:
                number, draw = self._take(path)
                return draws.words_of_shape(
                    _loop_dims(dims, draw, draws, loop),
                    number,
                    axis=draw.axis,
                    steps=loop.all_steps,
                )

            words = loop.shared(all_steps)[loop.number]
            return from_words(function, arguments, words)
        number, draw = self._take(path)
        words = draws.words_of_shape(dims, number, axis=draw.axis)
        return from_words(function, arguments, words)

    def _take(self, path: str) -> tuple[int, Draw]:
        """Returns number and description of the draw that happens now.

        Draws that are off may not happen at all: layers that draw in training
        mode only then stay in inference mode.
        """
        draws = self._seen.draws
        position = self._next
        while position < len(draws) and draws[position].path != path:
            if draws[position].path in self._chosen:
                break
            position += 1
        if position >= len(draws) or draws[position].path != path:
            raise PlanError(
                f"`{self._operation.name}` draws other noise now than when it "
                "was first traced. Expected the same draws at every call. "
                f"Received: a draw of `{path}`, where `{path}` was not to draw"
            )
        self._next = position + 1
        draw = draws[position]
        before = sum(
            each.on_request == draw.on_request for each in draws[:position]
        )
        first = self._first_sites[1 if draw.on_request else 0]
        return first + before, draw

    def _skip(self, path: str, loop: Loop | None) -> None:
        """Passes over a draw that is off."""
        if self._draws is None:
            return
        if loop is not None:
            loop.shared(lambda: self._take(path))
        else:
            self._take(path)


def _loop_dims(
    dims: Sequence[Any], draw: Draw, draws: Draws, loop: Loop
) -> list[Any]:
    """Returns the shape of a draw in a loop, as it is outside of the loop.

    A dimension that only the body of the loop knows is taken from the trace:
    it counts rows and samples, or it is the same for every batch.
    """
    known = [dim if isinstance(dim, int) else None for dim in dims]
    for place, dim in enumerate(known):
        if dim is not None:
            continue
        one, other = (shape[place] for shape in draw.shapes)
        if place == draw.axis:
            per_row = ((other or 0) - (one or 0)) // (BATCHES[1] - BATCHES[0])
            per_row = max(1, per_row // loop.steps_in_batch)
            known[place] = draws.num_rows * draws.num_samples * per_row
        elif place == 0 and one == other and one not in (None, OPEN):
            known[place] = one
        else:
            raise PlanError(
                f"`{draw.path}` draws in a loop over time, and the size of "
                "what it draws is not known. Expected a known number of "
                f"units. Received: shape {known}"
            )
    return known
