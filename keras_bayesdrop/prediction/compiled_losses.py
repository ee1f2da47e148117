# SPDX-License-Identifier: Apache-2.0
"""Tells from a compiled loss what the output of a model means."""

import dataclasses
import functools
import inspect
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.losses import HeteroscedasticGaussianNLL
from keras_bayesdrop.losses import NoisyLogitsCrossentropy
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import Head

CLASSES = "classification"
LABELS = "binary"
# A distribution over the last axis, which need not be over classes.
DISTRIBUTION = "distribution"
# Probabilities of classes or of labels.
PROBABILITIES = "probabilities"
NUMBERS = "regression"

# By the name of the loss without case and underscores.
_MEANINGS = {
    "categoricalcrossentropy": CLASSES,
    "sparsecategoricalcrossentropy": CLASSES,
    "categoricalfocalcrossentropy": CLASSES,
    "categoricalgeneralizedcrossentropy": CLASSES,
    "ctc": CLASSES,
    "binarycrossentropy": LABELS,
    "binaryfocalcrossentropy": LABELS,
    "kldivergence": DISTRIBUTION,
    "dice": PROBABILITIES,
    "tversky": PROBABILITIES,
    "meansquarederror": NUMBERS,
    "meanabsoluteerror": NUMBERS,
    "meanabsolutepercentageerror": NUMBERS,
    "meansquaredlogarithmicerror": NUMBERS,
    "huber": NUMBERS,
    "logcosh": NUMBERS,
    "poisson": NUMBERS,
    "cosinesimilarity": NUMBERS,
    "hinge": NUMBERS,
    "squaredhinge": NUMBERS,
    "categoricalhinge": NUMBERS,
    "circle": NUMBERS,
}
# Losses that take logits, and have no argument to say so.
_OF_LOGITS = {"ctc"}


@dataclasses.dataclass(frozen=True)
class LossMeaning:
    """The meaning that a loss gives to an output.

    Attributes:
        name: Name of the loss, for messages.
        meaning: One of the constants of this module; `None` if not known.
        from_logits: Whether the loss applies the softmax or sigmoid itself.
        head: The head that the loss defines completely, or `None`.
    """

    name: str
    meaning: str | None = None
    from_logits: bool = False
    head: Head | None = None

    @property
    def needs_probabilities(self) -> bool:
        """True if the loss is defined for probabilities only."""
        takes = (CLASSES, LABELS, DISTRIBUTION, PROBABILITIES)
        return self.meaning in takes and not self.from_logits


def meaning_of(loss: Any) -> LossMeaning | None:
    """Returns the meaning of a loss; `None` if there is no loss.

    Args:
        loss: What `compile` takes for one output: a string, a class, an
            object, a function, a partial function, a serialised loss.
    """
    if loss is None:
        return None
    text = loss if isinstance(loss, str) else None
    loss = _as_object(loss)
    head: Head
    if isinstance(loss, GaussianNLL):
        head = heads.Regression(noise_precision=loss.noise_precision)
        return LossMeaning(type(loss).__name__, NUMBERS, head=head)
    if isinstance(loss, HeteroscedasticGaussianNLL):
        head = heads.Heteroscedastic(log_variance_limit=loss.log_variance_limit)
        return LossMeaning(type(loss).__name__, NUMBERS, head=head)
    if isinstance(loss, NoisyLogitsCrossentropy):
        head = heads.NoisyLogits(log_variance_limit=loss.log_variance_limit)
        return LossMeaning(type(loss).__name__, CLASSES, True, head)
    names = _names(loss)
    known = next((n for n in map(_plain, names) if n in _MEANINGS), None)
    return LossMeaning(
        text or names[0],
        None if known is None else _MEANINGS[known],
        known in _OF_LOGITS or _takes_logits(loss),
    )


def _as_object(loss: Any) -> Any:
    """Returns the loss that a string, a class or a config stands for."""
    if isinstance(loss, (str, dict)) or inspect.isclass(loss):
        try:
            return keras.losses.get(loss)
        # A name that is registered nowhere; `fit` would raise.
        except (ValueError, TypeError):
            return loss
    return loss


def _names(loss: Any) -> list[str]:
    """Returns the names of a loss, what it calls and inherits from."""
    if isinstance(loss, str):
        return [loss]
    if isinstance(loss, functools.partial):
        return _names(loss.func)
    if not isinstance(loss, keras.losses.Loss):
        name = getattr(loss, "__name__", None)
        return [str(name or type(loss).__name__)]
    classes = [cls.__name__ for cls in type(loss).__mro__]
    function, _ = private_keras.function_of_loss(loss)
    called = [] if function is None else _names(function)
    return [*classes, *called, str(loss.name)]


def _takes_logits(loss: Any) -> bool:
    if isinstance(loss, functools.partial):
        logits = loss.keywords.get("from_logits")
        return _takes_logits(loss.func) if logits is None else bool(logits)
    if getattr(loss, "from_logits", False):
        return True
    return bool(private_keras.function_of_loss(loss)[1].get("from_logits"))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
