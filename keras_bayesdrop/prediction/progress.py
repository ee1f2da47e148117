# SPDX-License-Identifier: Apache-2.0
"""The progress bar and the callbacks of a prediction."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core.validate import invalid

_NONE = object()  # The model had no such attribute.

# Per model, by `id`: how many predictions with callbacks are under way, and
# what its `stop_predicting` was before the first.
_under_way: dict[int, tuple[int, Any]] = {}
_lock = threading.Lock()


class Progress:
    """A Keras progress bar over the steps, and Keras callbacks over batches.

    Args:
        model: The model, handed to the callbacks.
        callbacks: Keras callbacks or `None`.
        verbose: 0, 1, 2 or `"auto"`.
    """

    def __init__(self, model: Any, callbacks: Any, verbose: Any) -> None:
        known = isinstance(verbose, (str, int)) or np.ndim(verbose) == 0
        if not known or verbose not in ("auto", 0, 1, 2):
            raise invalid("verbose", verbose, "0, 1, 2 or 'auto'")
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self._model = model
        self._callbacks = None
        if callbacks is not None:
            _check_callbacks(callbacks)
            self._callbacks = (
                callbacks
                if isinstance(callbacks, keras.callbacks.CallbackList)
                else keras.callbacks.CallbackList(callbacks, model=model)
            )
        self._bar: Any = None
        self._known_steps = 0
        self._steps = 0
        self._batch = 0

    @property
    def stopped(self) -> bool:
        """Returns whether a callback asked to stop.

        As in Keras, that stops all predictions of the model under way.
        """
        return self._callbacks is not None and bool(self._model.stop_predicting)

    def __enter__(self) -> "Progress":
        """Announces the beginning."""
        if self._callbacks is not None:
            self._begin()
            try:
                self._callbacks.on_predict_begin()
            except BaseException:
                self._restore()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Announces the end, and leaves the model as it was."""
        if self._bar is not None and kind is None:
            self._bar.update(self._steps, finalize=True)
        if self._callbacks is not None:
            try:
                if kind is None:
                    self._callbacks.on_predict_end()
            finally:
                self._restore()

    def _begin(self) -> None:
        key = id(self._model)
        with _lock:
            count, before = _under_way.get(key, (0, None))
            if not count:
                before = vars(self._model).get("stop_predicting", _NONE)
                self._model.stop_predicting = False
            _under_way[key] = (count + 1, before)

    def _restore(self) -> None:
        """Puts `stop_predicting` back, if no other thread needs it."""
        key = id(self._model)
        with _lock:
            count, before = _under_way.pop(key)
            if count > 1:
                _under_way[key] = (count - 1, before)
            elif before is _NONE:
                del self._model.stop_predicting
            else:
                self._model.stop_predicting = before

    def expect(self, steps: int) -> None:
        """Says how many steps there will be, if that is known."""
        self._known_steps = steps

    def begin_batch(self) -> None:
        """Announces a batch of rows."""
        if self.verbose and self._bar is None:
            target = self._known_steps or None
            self._bar = keras.utils.Progbar(target, verbose=self.verbose)
        if self._callbacks is not None:
            self._callbacks.on_predict_batch_begin(self._batch)

    def step(self) -> None:
        """Announces a step: some samples of some rows."""
        self._steps += 1
        if self._bar is not None:
            self._bar.update(self._steps, finalize=False)

    def end_batch(self, outputs: Callable[[], Any]) -> None:
        """Announces that a batch is done; `outputs` makes what to hand on."""
        if self._callbacks is not None:
            self._callbacks.on_predict_batch_end(
                self._batch, {"outputs": outputs()}
            )
        self._batch += 1


def _check_callbacks(callbacks: Any) -> None:
    """Raises unless these are Keras callbacks."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return
    for callback in keras.tree.flatten(callbacks):
        if not isinstance(callback, keras.callbacks.Callback):
            raise invalid(
                "callbacks",
                callback,
                "a `keras.callbacks.Callback` or a list of them",
            )
