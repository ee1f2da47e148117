# SPDX-License-Identifier: Apache-2.0
"""Follows the noise inside one call of an operation: frames and loops.

A draw belongs to the layer whose `call` is under way. A draw in the body of
Keras' loop over time is one site for all steps, [rows, steps, units], although
the body is traced once. Keras runs the body once more before the loop, to see
the shape of its output: these draws are the same site.
"""

import abc
import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.sites.handmade import is_certain
from keras_bayesdrop.graph.sites.handmade import without_noise
from keras_bayesdrop.graph.sites.site import Site

_ENDLESS = 2**31 - 1


@dataclasses.dataclass
class Loop:
    """A loop over time that is under way.

    Attributes:
        steps: Number of steps, int or scalar tensor.
        unrolled: Whether Python makes the steps, one after another.
        outer: The loop around this one, or `None`.
        in_batch: Whether other calls of the operation have these steps in the
            batch, all at once.
        step: Number of the step under way, int or scalar tensor.
        draws: Draws so far in the step under way.
        kept: Per draw of a step, what all steps share of it.
        graph: The graph around the loop, or `None` in eager mode.
        body: The graph of its body, likewise.
    """

    steps: Any
    unrolled: bool
    outer: "Loop | None" = None
    in_batch: bool = False
    step: Any = None
    draws: int = 0
    kept: dict[int, Any] = dataclasses.field(default_factory=dict)
    graph: Any = None
    body: Any = None

    @property
    def all_steps(self) -> Any:
        """Number of steps, counted over the loops around this one too."""
        if self.outer is None:
            return self.steps
        return self.outer.all_steps * self.steps

    @property
    def steps_in_batch(self) -> Any:
        """Entries per row that other calls have for one entry here."""
        outer = 1 if self.outer is None else self.outer.steps_in_batch
        return outer * self.steps if self.in_batch else outer

    @property
    def number(self) -> Any:
        """Number of the step under way among `all_steps`."""
        if self.outer is None:
            return self.step
        return self.outer.number * self.steps + self.step

    def shared(self, make: Callable[[], Any]) -> Any:
        """Returns what `make` made for this draw, at whichever step."""
        key = self.draws
        self.draws += 1
        if key not in self.kept:
            if self.outer is not None:
                self.kept[key] = self.outer.shared(make)
            else:
                with self._outside():
                    self.kept[key] = make()
        return self.kept[key]

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        if self.graph is None:
            yield
            return
        with self.graph.as_default():
            yield


class NoiseInside(abc.ABC):
    """Takes over the noise of one call of an operation."""

    def __init__(self) -> None:
        self._frames: list[Site] = []
        self._loops: list[Loop] = []
        self._modes: list[bool] = []
        self._configuring: int | None = None
        self.steps_apart = False
        # Whether `TimeDistributed` is to call its layer step by step, as Keras
        # does: rows of a step may depend on each other.
        self.step_by_step = False

    @abc.abstractmethod
    def at_site(self, site: Site, x: tf.Tensor, loop: Loop | None) -> tf.Tensor:
        """Perturbs `x` by the noise of a layer that is a noise site."""

    @abc.abstractmethod
    def by_hand(
        self,
        site: Site | None,
        function: str,
        arguments: dict[str, Any],
        loop: Loop | None,
    ) -> tf.Tensor:
        """Returns the result of a random function that a layer calls."""

    def perturb(self, site: Site, x: tf.Tensor) -> tf.Tensor:
        """Perturbs `x` by the noise of a layer that is a noise site."""
        # A noise layer that is called with `training=True` tells its siblings
        # to train, through Keras' context.
        private_keras.set_training(site.layer, self._training)
        if self._is_discarded:
            return site.noise.expected(x)
        return self.at_site(site, x, self._loop)

    def draw(self, function: str, arguments: dict[str, Any]) -> Any:
        """Returns the result of a random function that a layer calls."""
        certain = is_certain(function, arguments)
        if certain is not None:
            return certain
        if self._is_discarded:
            return without_noise(function, arguments)
        site = self._frames[-1] if self._frames else None
        return self.by_hand(site, function, arguments, self._loop)

    @contextlib.contextmanager
    def frame(self, site: Site, training: bool | None) -> Iterator[None]:
        """Says that draws belong to the layer of `site` while open.

        Args:
            site: Of the layer whose `call` is under way.
            training: The mode that it is called in, if that is ours to say.
        """
        self._frames.append(site)
        self._modes.append(self._training if training is None else training)
        try:
            yield
        finally:
            self._frames.pop()
            self._modes.pop()

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Says that entries of a row are steps, each with noise of its own."""
        before, self.steps_apart = self.steps_apart, True
        try:
            yield
        finally:
            self.steps_apart = before

    @property
    def _training(self) -> bool:
        return self._modes[-1] if self._modes else False

    @contextlib.contextmanager
    def configuring(self) -> Iterator[None]:
        """Says that cells called while open are called for nothing.

        A recurrent layer makes the masks of its cells before it loops. Of
        stacked cells it calls each to get the input of the next, and throws
        all but the masks away.
        """
        before = self._configuring
        self._configuring = len(self._frames)
        try:
            yield
        finally:
            self._configuring = before

    def loop(self, run: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Runs Keras' loop over time with the number of its step at hand."""
        inputs = arguments["inputs"]
        major = bool(arguments["time_major"])
        first = tf.convert_to_tensor(keras.tree.flatten(inputs)[0])
        axis = 0 if major else 1
        steps = first.shape[axis]
        if steps is None:
            steps = tf.shape(first)[axis]
        # As one more input, [1, steps, 1]: the loop reads, flips and unrolls
        # it like the others.
        numbers = tf.reshape(
            tf.range(steps), [-1, 1, 1] if major else [1, -1, 1]
        )
        graph = None
        if not tf.executing_eagerly():
            graph = tf.compat.v1.get_default_graph()
        under_way = Loop(
            steps, bool(arguments["unroll"]), self._loop, graph=graph
        )
        original = arguments["step_function"]

        def step(both: Any, states: Any) -> Any:
            x, number = both
            under_way.step = tf.reshape(number, [])
            if graph is not None:
                under_way.body = tf.compat.v1.get_default_graph()
            under_way.draws = 0
            self._loops.append(under_way)
            try:
                return original(x, states)
            finally:
                self._loops.pop()

        return run(
            **{
                **arguments,
                "step_function": step,
                "inputs": (inputs, numbers),
                # Keras would ask the inputs, which are now two. The loop ends
                # by the length of the first of them.
                "input_length": arguments["input_length"] or _ENDLESS,
            }
        )

    def each_step(self, steps: int, call: Callable[[int], Any]) -> list[Any]:
        """Calls a layer for every step of a loop that Python makes.

        Args:
            steps: Number of steps.
            call: Maps the number of a step to what the layer returns.

        Returns:
            What it returns, per step.
        """
        graph = None
        if not tf.executing_eagerly():
            graph = tf.compat.v1.get_default_graph()
        under_way = Loop(steps, True, self._loop, True, graph=graph)
        outputs = []
        self._loops.append(under_way)
        try:
            for number in range(steps):
                under_way.step, under_way.draws = number, 0
                outputs.append(call(number))
        finally:
            self._loops.pop()
        return outputs

    @property
    def _loop(self) -> Loop | None:
        return self._loops[-1] if self._loops else None

    @property
    def _is_discarded(self) -> bool:
        # Inside a cell that was called for nothing.
        started = self._configuring
        return started is not None and len(self._frames) > started
