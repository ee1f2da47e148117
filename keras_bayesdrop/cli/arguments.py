# SPDX-License-Identifier: Apache-2.0
"""Types of arguments, and the arguments that several commands have.

The choices are written out: the modules that define them import TensorFlow. A
test compares the two.
"""

import argparse
import math
from collections.abc import Callable

ENGINES = ("auto", "fused", "reference")
MASKS = ("shared", "independent")
METHODS = ("sampling", "moments", "rao_blackwell")
HEADS = ("auto", "regression", "classification", "binary")


def at_least(least: int) -> Callable[[str], int]:
    """Returns the type of an integer that is not below `least`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"expected an integer of at least {least}, received {text!r}"
            )
        return value

    return convert


def whole(text: str) -> int:
    """Type of any integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected an integer, received {text!r}"
        ) from None


def positive(text: str) -> float:
    """Type of a positive, finite float."""
    value = _float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(
            f"expected a positive number, received {text!r}"
        )
    return value


def size(text: str) -> int:
    """Type of a number of bytes, such as `2000000000` or `2e9`."""
    value = _float(text)
    if not (value >= 1 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes such as 2e9, received {text!r}"
        )
    return int(value)


def level(text: str) -> float:
    """Type of a quantile level: a float in `[0, 1]`."""
    value = _float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            f"expected a number from 0 to 1, received {text!r}"
        )
    return value


def inner_level(text: str) -> float:
    """Type of the probability of an interval: a float in `(0, 1)`."""
    value = _float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(
            f"expected a number between 0 and 1, received {text!r}"
        )
    return value


def add_model(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Adds the model file, and what helps to load it."""
    parser.add_argument(
        "model",
        metavar="model.keras",
        nargs="?" if optional else None,
        help="a model that `model.save` wrote; loaded in Keras' safe mode",
    )
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="Python module with your own layers, imported before loading; "
        "looked for in the current folder too",
    )
    parser.add_argument(
        "--max-bytes",
        type=size,
        metavar="BYTES",
        help="refuse files that would take more memory than this, such as "
        "8e9; default: half of the memory that is available, and no more than "
        "1 GiB or 100 times the size of the file",
    )


def add_engine(parser: argparse._ActionsContainer) -> None:
    """Adds the choice of the engine."""
    parser.add_argument(
        "--engine", choices=ENGINES, default="auto", help="default: auto"
    )


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan  # Fails every comparison.
