# SPDX-License-Identifier: Apache-2.0
"""Heads that take two outputs, in a structure like the outputs of a model.

The result of such a head stands in the place of its mean or logits, and the
place of its log variance is gone. A dict or list that held the two alone
becomes the result.
"""

from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.detection import AUTO
from keras_bayesdrop.prediction.sampling.output_files import by_name
from keras_bayesdrop.prediction.structures import is_serialised
from keras_bayesdrop.prediction.structures import leaves_of
from keras_bayesdrop.prediction.structures import pair_leaves
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import LearnedNoise


class Pair(NamedTuple):
    """A head that takes two outputs, and their numbers."""

    head: LearnedNoise
    location: int
    log_variance: int


def spread_heads(
    model: Any, structure: Any, head: Any
) -> tuple[list[Pair], Any, dict[int, Any]]:
    """Spreads heads of which some take two outputs over all outputs.

    Args:
        model: The Keras model, for the names of its outputs.
        structure: The numbers of the outputs, in their structure.
        head: A head, or a structure of heads like the results.

    Returns:
        The pairs; if there are any also the structure of the results, and
        what was asked for each output: its head, that of its pair, or
        `"auto"`.
    """
    named = [
        each
        for each in map(_two_output_head, leaves_of(head))
        if each is not None
    ]
    if not named:
        return [], structure, {}
    pairs = [_find(model, structure, each) for each in named]
    numbers = [n for pair in pairs for n in (pair.location, pair.log_variance)]
    if len(set(numbers)) < len(numbers):
        raise BayesdropError(
            "Two heads take the same output. Expected a head for each output. "
            f"Received: head={head!r}"
        )
    results = _results(structure, pairs)
    asked: dict[int, Any] = {}
    if _two_output_head(head) is not None:
        asked = dict.fromkeys(leaves_of(structure), AUTO)
    elif not pair_leaves(results, head, asked) or any(
        _two_output_head(asked[pair.location]) != pair.head for pair in pairs
    ):
        raise BayesdropError(
            "`head` does not fit the outputs of the model. Expected a "
            f"structure like {results}, with a head that takes two outputs in "
            f"the place of its {pairs[0].head.location}. Received: "
            f"head={head!r}"
        )
    for pair in pairs:
        asked[pair.location] = asked[pair.log_variance] = pair.head
    return pairs, results, asked


def fill(structure: Any, values: Mapping[int, Any]) -> Any:
    """Returns a structure with values in the place of its numbers."""
    if isinstance(structure, dict):
        return {key: fill(each, values) for key, each in structure.items()}
    if isinstance(structure, (list, tuple)):
        filled = [fill(each, values) for each in structure]
        return tuple(filled) if isinstance(structure, tuple) else filled
    return values[structure]


def _two_output_head(leaf: Any) -> LearnedNoise | None:
    """Returns a head that takes two outputs, if a leaf is one."""
    if is_serialised(leaf):
        leaf = heads.get(leaf)
    two = isinstance(leaf, LearnedNoise) and leaf.takes_two
    return leaf if two else None


def _find(model: Any, structure: Any, head: LearnedNoise) -> Pair:
    """Returns the numbers of the outputs that a head names."""
    names: dict[Any, int] = dict(by_name(model, structure))
    if isinstance(structure, (list, tuple)):
        # Positions, beside the names that the model has for its outputs.
        names |= {
            position: number
            for position, number in enumerate(structure)
            if isinstance(number, int)
        }
    numbers = [names.get(source) for source in head.sources]
    if isinstance(structure, int) or None in numbers:
        known = [] if isinstance(structure, int) else list(names)
        raise BayesdropError(
            f"{head} names outputs that the model does not have. Expected two "
            f"of {known}. Received: {head.named_sources}"
        )
    return Pair(head, *numbers)  # type: ignore[arg-type]


def _results(structure: Any, pairs: list[Pair]) -> Any:
    """Returns the numbers of the means and other outputs, in structure."""
    kept = _without(
        structure,
        {pair.log_variance for pair in pairs},
        {pair.location for pair in pairs},
    )
    leaves = leaves_of(kept)
    return leaves[0] if len(leaves) == 1 else kept


def _without(
    structure: Any, gone: Collection[int], means: Collection[int]
) -> Any:
    """Returns a structure without some of its numbers.

    A container that held a mean and its log variance alone becomes the mean;
    an empty one is left out.
    """
    if isinstance(structure, int):
        return None if structure in gone else structure
    is_dict = isinstance(structure, dict)
    items = structure.items() if is_dict else enumerate(structure)
    kept = {}
    for key, each in items:
        rest = _without(each, gone, means)
        if rest is not None:
            kept[key] = rest
    if not kept:
        return None
    (first, *others) = kept.values()
    fewer = len(kept) < len(structure)
    if fewer and not others and isinstance(first, int) and first in means:
        return first
    if is_dict:
        return kept
    entries = list(kept.values())
    return tuple(entries) if isinstance(structure, tuple) else entries
