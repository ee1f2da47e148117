# SPDX-License-Identifier: Apache-2.0
"""Runs a command, and turns what happens into an exit code and one line.

0: fine. 1: a file, the model or the machine. 2: the arguments (from argparse).
130: interrupted.
"""

import os
import signal
import sys
import traceback
from collections.abc import Sequence

from keras_bayesdrop._command import PROGRAM
from keras_bayesdrop.cli import library_talk
from keras_bayesdrop.cli.parser import parse
from keras_bayesdrop.cli.problems import first_line
from keras_bayesdrop.cli.quiet import quiet
from keras_bayesdrop.errors import BayesdropError

FINE, FAILED, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name.

    Args:
        arguments: What follows the name of the program; by default those of
            this process.

    Returns:
        The exit code. Wrong arguments and `--help` raise `SystemExit`, as
        argparse has it.

    Example:
    ```python
    main(["predict", "model.keras", "data.csv", "--out", "out.csv"])
    ```
    """
    library_talk.show()
    options = parse(arguments)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # Until here an interrupt ended the process; now it may have to clean
        # up (see `_command`).
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with quiet(options.debug):
            options.command.run(options)
            sys.stdout.flush()
        return FINE
    except KeyboardInterrupt:
        _complain("interrupted; nothing was left behind")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`). Python would complain once more when
        # it flushes at exit, so the rest goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if options.debug:
            traceback.print_exc()
        _complain(f"error: {_one_line(error)}")
        return FAILED


def _complain(text: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {text}\n")


def _one_line(error: Exception) -> str:
    if isinstance(error, BayesdropError):
        text = " ".join(str(error).split())
        return text.replace("allow_hidden_noise=True", "--allow-hidden-noise")
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f" `{error.filename}`"
        return (
            f"Cannot use the file{place}. Expected one that can be read or "
            f"written here. Received: {error.strerror}"
        )
    if isinstance(error, MemoryError):
        return (
            "Out of memory. Expected the data and one batch to fit; try a "
            f"smaller --batch-size. Received: {first_line(error)}"
        )
    return (
        "The command failed. Expected no such thing: --debug shows where. "
        f"Received: {type(error).__name__}: {first_line(error)}"
    )
