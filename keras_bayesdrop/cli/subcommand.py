# SPDX-License-Identifier: Apache-2.0
"""What a file with a command in it defines."""

import argparse
import dataclasses
from collections.abc import Callable


def _nothing(_: argparse.Namespace) -> None:
    """Any options go together."""


@dataclasses.dataclass(frozen=True)
class Subcommand:
    """A command, such as `predict`.

    Attributes:
        name: What follows `keras-bayesdrop`.
        help: What it does, in a sentence.
        add_arguments: Adds its arguments to a parser.
        run: Does it.
        check: Ends with a usage error if options do not go together.
        epilog: What its help says at the end.
    """

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    check: Callable[[argparse.Namespace], None] = _nothing
    epilog: str = ""
