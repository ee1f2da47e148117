# SPDX-License-Identifier: Apache-2.0
"""Hides what libraries write while they are loaded.

TensorFlow writes some lines straight to the file of the standard error, before
any setting of its own can stop it. That file is put aside meanwhile; Python
itself, and so a traceback, still reaches it.
"""

import os
import sys
from typing import TextIO

_STDERR = 2
_aside: list[tuple[TextIO, TextIO]] = []


def hide() -> None:
    """Sends to nowhere what is not written by Python, until `show`."""
    before = sys.stderr
    if _aside or before is None:
        return
    before.flush()
    ours = os.fdopen(os.dup(_STDERR), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    os.close(nowhere)
    sys.stderr = ours
    _aside.append((before, ours))


def show() -> None:
    """Undoes `hide`, if that was called."""
    if not _aside:
        return
    before, ours = _aside.pop()
    ours.flush()
    os.dup2(ours.fileno(), _STDERR)
    sys.stderr = before
    ours.close()
