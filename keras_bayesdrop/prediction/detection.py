# SPDX-License-Identifier: Apache-2.0
"""Detects the heads of a model.

`decision.py` has the rule. It asks the last activation (`last_activation.py`)
and the compiled loss (`compiled_losses.py`). The values of the first batch are
the last witness (`witness.py`).
"""

from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.compiled_losses import meaning_of
from keras_bayesdrop.prediction.decision import AUTO as AUTO
from keras_bayesdrop.prediction.decision import Decision
from keras_bayesdrop.prediction.decision import asks_the_model
from keras_bayesdrop.prediction.decision import decide
from keras_bayesdrop.prediction.last_activation import UNKNOWN
from keras_bayesdrop.prediction.last_activation import LastActivation
from keras_bayesdrop.prediction.last_activation import last_activations
from keras_bayesdrop.prediction.structures import is_leaf
from keras_bayesdrop.prediction.structures import leaves_of
from keras_bayesdrop.prediction.structures import pair_leaves
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import Head

_EXPECTED = (
    "'auto', 'regression', 'heteroscedastic', 'classification', "
    "'noisy_logits', 'binary', or an object such as "
    "Regression(noise_precision=4.0)"
)


def check_heads(head: Any) -> None:
    """Raises if an argument `head` cannot be one, whatever the model."""
    if isinstance(head, str) and head == AUTO:
        return
    for leaf in leaves_of(head):
        if leaf != AUTO:
            heads.get(_known(leaf))


def resolve_heads(
    model: Any, count: int, head: Any, pack: Callable[[list[Any]], Any]
) -> list[Decision]:
    """Decides how each output of a model is read, and says why.

    Args:
        model: The Keras model.
        count: How many outputs it has.
        head: `"auto"`, a head, the name of one, or a structure of these like
            the outputs.
        pack: Packs one entry per output into the structure of the outputs.

    Returns:
        One decision per output, with `from_logits` of its head known. An
        output that cannot be read has one without a head, whose `require`
        raises.
    """
    choices = _per_output(head, count, pack)
    activations: list[LastActivation] = []
    if any(map(asks_the_model, choices)):
        activations = last_activations(model, count)
    if len(activations) != count:
        activations = [LastActivation(UNKNOWN, "the model")] * count
    return [
        decide(_known_or_auto(choice), meaning_of(loss), activation)
        for choice, loss, activation in zip(
            choices, _losses(model, count, pack), activations, strict=True
        )
    ]


def _known_or_auto(choice: Any) -> Any:
    return choice if choice == AUTO else _known(choice)


def _known(choice: Any) -> Any:
    """Returns a choice, or raises with all choices there are."""
    if choice is None or not isinstance(choice, (str, Head, dict)):
        raise invalid("head", choice, _EXPECTED)
    if isinstance(choice, str) and choice not in heads.HEADS:
        raise invalid("head", choice, _EXPECTED)
    return choice


def _per_output(
    value: Any, count: int, pack: Callable[[list[Any]], Any]
) -> list[Any]:
    """Spreads a head, or a structure like the outputs, over the outputs."""
    if len(leaves_of(value)) == 1 and leaves_of(value)[0] is value:
        return [value] * count
    structure = pack(list(range(count)))
    pairs: dict[int, Any] = {}
    if not pair_leaves(structure, value, pairs):
        raise BayesdropError(
            "`head` does not fit the outputs of the model. Expected one head, "
            f"or a structure like {structure}. Received: head={value!r}"
        )
    return [pairs[index] for index in range(count)]


def _losses(
    model: Any, count: int, pack: Callable[[list[Any]], Any]
) -> list[Any]:
    """Returns the compiled loss of each output, as Keras pairs them."""
    loss = getattr(model, "loss", None)
    if is_leaf(loss):
        return [loss] * count  # Keras applies a lone loss to every output.
    numbers = pack(list(range(count)))
    if isinstance(loss, (list, tuple)):
        if len(loss) == count and all(is_leaf(each) for each in loss):
            pairs = zip(keras.tree.flatten(numbers), loss, strict=True)
            return [each for _, each in sorted(pairs, key=lambda pair: pair[0])]
        if count == 1:
            return [_only(loss)]
    paired: dict[int, Any] = {}
    if pair_leaves(numbers, loss, paired):
        return [paired[index] for index in range(count)]
    names = getattr(model, "output_names", None) or []
    if isinstance(loss, dict) and len(names) == count:
        return [loss.get(name) for name in names]
    return [None] * count


def _only(losses: Any) -> Any:
    """Returns the first of several losses of one output, if they agree."""
    meanings = [meaning_of(loss) for loss in losses]
    known = {
        (each.meaning, each.from_logits, each.head)
        for each in meanings
        if each is not None and each.meaning is not None
    }
    if len(known) != 1:
        return None
    return next(
        loss
        for loss, each in zip(losses, meanings, strict=True)
        if each is not None and each.meaning is not None
    )
