# SPDX-License-Identifier: Apache-2.0
"""The command `keras-bayesdrop`: parses its arguments, then runs.

This module lies outside the package, because importing the package imports
TensorFlow, which takes seconds and writes to the terminal. Help and usage
errors come from here, before that. `keras_bayesdrop_options` has the options,
and `keras_bayesdrop.cli` runs the commands.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop_options import COMMANDS as COMMANDS
from keras_bayesdrop_options import ENGINES as ENGINES
from keras_bayesdrop_options import HEADS as HEADS
from keras_bayesdrop_options import MASKS as MASKS
from keras_bayesdrop_options import METHODS as METHODS
from keras_bayesdrop_options import PROGRAM as PROGRAM
from keras_bayesdrop_options import Help
from keras_bayesdrop_options import Parser
from keras_bayesdrop_options import check_evaluate
from keras_bayesdrop_options import check_predict

_DESCRIPTION = "How sure is a Keras model? Uncertainty by Monte Carlo dropout."
_EPILOG = "exit codes: 0 success, 1 failure, 2 wrong arguments, 130 interrupted"
_STDERR = 2
_CHECKS = {"predict": check_predict, "evaluate": check_evaluate}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name.

    Args:
        arguments: The arguments after the name of the program; by default
            those of this process.

    Returns:
        The exit code. Wrong arguments and `--help` raise `SystemExit`.
    """
    options = parse(arguments)
    try:
        with _quiet_import(options.debug):
            from keras_bayesdrop.cli.command import run
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in ("keras", "tensorflow"):
            raise
        sys.stderr.write(
            f"{PROGRAM}: error: A package is missing. Expected Keras and "
            "TensorFlow: `pip install keras tensorflow`. Received: no module "
            f"named {missing!r}\n"
        )
        return 1
    return run(options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments; exits with 2 if they are wrong, 0 after help.

    Returns:
        The options. `command` is the name of the command.
    """
    everywhere = Parser(add_help=False)
    everywhere.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error, and TensorFlow's log",
    )
    settings: Any = {
        "formatter_class": Help,
        "parents": [everywhere],
        "allow_abbrev": False,
    }
    parser = Parser(PROGRAM, None, _DESCRIPTION, _EPILOG, **settings)
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version and exit"
    )
    parsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for name, (text, add_arguments, epilog) in COMMANDS.items():
        sub = parsers.add_parser(
            name, help=text, description=text, epilog=epilog, **settings
        )
        if add_arguments is not None:
            add_arguments(sub)
        sub.set_defaults(parser=sub)
    options = parser.parse_args(arguments)
    options.debug = getattr(options, "debug", False)
    if options.command in _CHECKS:
        _CHECKS[options.command](options)
    return options


class _Version(argparse.Action):
    """Writes the version of the installed package, without importing it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        version = importlib.metadata.version(PROGRAM)
        sys.stdout.write(f"{PROGRAM} {version}\n")
        parser.exit()


@contextlib.contextmanager
def _quiet_import(debug: bool) -> Iterator[None]:
    """Discards messages that libraries write while they are imported.

    TensorFlow writes some lines straight to the file of the standard error,
    before any setting of its own can stop it. That file is replaced meanwhile.
    Python's own `sys.stderr`, and so a traceback, still reaches it. An
    interrupt ends the process at once: nothing has been written yet.

    Args:
        debug: Whether messages are shown.
    """
    with contextlib.ExitStack() as stack:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            handler = signal.default_int_handler
            stack.callback(signal.signal, signal.SIGINT, handler)
        if "tensorflow" not in sys.modules:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        if sys.stderr is not None and not debug:
            sys.stderr.flush()
            copy = stack.enter_context(os.fdopen(os.dup(_STDERR), "w", 1))
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), _STDERR)
            stack.callback(os.dup2, copy.fileno(), _STDERR)
            stack.enter_context(contextlib.redirect_stderr(copy))
        yield
