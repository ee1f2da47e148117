# SPDX-License-Identifier: Apache-2.0
"""Runs a command, and turns its outcome into an exit code and one line.

0: success. 1: a problem with a file, the model or the machine. 130: an
interrupt. argparse exits with 2 for wrong arguments.
"""

import argparse
import os
import sys
import traceback

from keras_bayesdrop.cli import bench
from keras_bayesdrop.cli import evaluate
from keras_bayesdrop.cli import predict
from keras_bayesdrop.cli import reports
from keras_bayesdrop.cli.problems import first_line
from keras_bayesdrop.cli.quiet import quiet
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop_command import PROGRAM

SUCCESS, FAILED, INTERRUPTED = 0, 1, 130

_RUN = {
    "predict": predict.run,
    "evaluate": evaluate.run,
    "inspect": reports.run_inspect,
    "explain": reports.run_explain,
    "info": reports.run_info,
    "bench": bench.run,
}


def run(options: argparse.Namespace) -> int:
    """Runs a command; turns any error into one line.

    Args:
        options: The result of `keras_bayesdrop_command.parse`.

    Returns:
        The exit code.
    """
    try:
        with quiet(options.debug):
            _RUN[options.command](options)
            sys.stdout.flush()
        return SUCCESS
    except KeyboardInterrupt:
        _complain("interrupted; nothing was left behind")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Python would report it
        # again when it flushes at exit, so the rest is discarded.
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
        "Unexpected error. Expected the command to finish; rerun with --debug "
        f"for a traceback. Received: {type(error).__name__}: "
        f"{first_line(error)}"
    )
