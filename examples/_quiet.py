# SPDX-License-Identifier: Apache-2.0
"""Keeps TensorFlow's start-up lines out of what an example prints."""

import contextlib
import os
import sys
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Discards output to stderr, also that of C++ code.

    TensorFlow ignores the log level above while it is imported.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
