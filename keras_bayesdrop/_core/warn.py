# SPDX-License-Identifier: Apache-2.0
"""Warns at the line of the user's own code that called the package."""

import os
import sys
import warnings

from keras_bayesdrop.errors import BayesdropWarning

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def warn_user(message: str) -> None:
    """Issues a `BayesdropWarning` for the first frame outside the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, BayesdropWarning, stacklevel=level)
