# SPDX-License-Identifier: Apache-2.0
"""What the command does before TensorFlow is imported.

The package imports TensorFlow, which takes seconds and talks while it starts.
If this process is the command, its arguments are parsed first, so that help
and usage errors end it at once, and TensorFlow is asked to be silent. Any other
process is left alone, and imports nothing of the command. The package's
`__init__` imports this file before all others.
"""

import os
import pathlib
import signal
import sys
from collections.abc import Sequence

PROGRAM = "keras-bayesdrop"
_MODULE = "keras_bayesdrop"


def is_command(argv: Sequence[str], orig_argv: Sequence[str]) -> bool:
    """Whether a process was started as the command.

    Args:
        argv: As in `sys.argv`. While a module named by `-m` is being found,
            its first entry is `-m`.
        orig_argv: As in `sys.orig_argv`.
    """
    if not argv:
        return False
    if argv[0] == "-m":
        at = len(orig_argv) - len(argv)
        return list(orig_argv[at : at + 1]) == [_MODULE]
    return pathlib.Path(argv[0]).stem == PROGRAM


def start() -> None:
    """Parses the arguments and quietens TensorFlow, if this is the command."""
    if not is_command(sys.argv, sys.orig_argv):
        return
    from keras_bayesdrop.cli import library_talk
    from keras_bayesdrop.cli.parser import parse

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Nothing has been written yet: an interrupt may simply end us.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    options = parse(sys.argv[1:])
    if not options.debug:
        library_talk.hide()


start()
