# SPDX-License-Identifier: Apache-2.0
"""Hides warnings and logs of other libraries."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop_command import PROGRAM

_LOGGERS = ("absl", "tensorflow")


@contextmanager
def quiet(debug: bool) -> Iterator[None]:
    """Shows the package's warnings as one line each, and hides others.

    Args:
        debug: Whether to change nothing.
    """
    if debug:
        yield
        return
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", BayesdropWarning)
            warnings.showwarning = _show
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def warn(text: str) -> None:
    """Writes a warning as one line."""
    sys.stderr.write(f"{PROGRAM}: warning: {' '.join(text.split())}\n")


def _show(message: Any, *_: Any, **__: Any) -> None:
    warn(str(message))
