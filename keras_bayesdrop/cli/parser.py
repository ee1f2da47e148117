# SPDX-License-Identifier: Apache-2.0
"""The arguments of the command line."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from keras_bayesdrop._command import PROGRAM
from keras_bayesdrop._core.version import __version__
from keras_bayesdrop.cli.bench import COMMAND as BENCH
from keras_bayesdrop.cli.explain import COMMAND as EXPLAIN
from keras_bayesdrop.cli.info import COMMAND as INFO
from keras_bayesdrop.cli.inspect import COMMAND as INSPECT
from keras_bayesdrop.cli.predict import COMMAND as PREDICT

COMMANDS = (PREDICT, INSPECT, EXPLAIN, INFO, BENCH)

_DESCRIPTION = "How sure is a Keras model? Uncertainty by Monte Carlo dropout."
_EPILOG = """\
exit codes: 0 fine, 1 a file or the model, 2 the arguments, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and where the options are listed; exits with 2.

        argparse would write the whole usage before it.
        """
        text = " ".join(message.split()).rstrip(".")
        hint = f"`{self.prog} --help` lists the options"
        self.exit(2, f"{PROGRAM}: error: {text}. {hint}\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments; exits with 2 if they are wrong, 0 after help.

    Returns:
        The options; `command` is the one to run.
    """
    everywhere = _Parser(add_help=False)
    everywhere.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error, and what TensorFlow logs",
    )
    parser = _Parser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[everywhere],
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[everywhere],
            allow_abbrev=False,
        )
        command.add_arguments(sub)
        sub.set_defaults(command=command, parser=sub)
    options = parser.parse_args(arguments)
    options.debug = getattr(options, "debug", False)
    options.command.check(options)
    return options
