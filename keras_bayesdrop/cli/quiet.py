# SPDX-License-Identifier: Apache-2.0
"""Keeps what others say from burying what we say."""

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
    """Shows our warnings as one line each, and hides those of others.

    Args:
        debug: Whether to leave everything as it is.
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
    """Writes a warning of the command line, as one line."""
    sys.stderr.write(f"{PROGRAM}: warning: {' '.join(text.split())}\n")


def _show(message: Any, *_: Any, **__: Any) -> None:
    warn(str(message))
