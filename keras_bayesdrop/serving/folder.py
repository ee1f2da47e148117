# SPDX-License-Identifier: Apache-2.0
"""Checks that a folder may be written, and that nothing is lost by it."""

import os
import pathlib

from keras_bayesdrop._core.scratch import clear_left_overs
from keras_bayesdrop.errors import BayesdropError

_MARK = "saved_model.pb"


def check_target(path: str | os.PathLike[str], overwrite: bool) -> pathlib.Path:
    """Returns the path of a SavedModel to be, if it may be written.

    Only a SavedModel is ever replaced: a slip in a path does not remove a
    folder of something else.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise BayesdropError(
            "Invalid value for argument `path`. Expected a folder to write. "
            f"Received: path={path!r}"
        )
    target = pathlib.Path(path)
    if target.is_symlink() and not target.exists():
        raise BayesdropError(
            f"`{target}` is a symbolic link to nothing. Expected a link to a "
            "SavedModel, a folder that does not exist, or none. Received: a "
            f"link to `{os.readlink(target)}`"
        )
    # An export that was killed may have left the old one aside.
    clear_left_overs(target)
    if not target.exists():
        return target
    if not overwrite:
        raise BayesdropError(
            f"`{target}` exists. Expected a folder that does not, or "
            "overwrite=True. Received: overwrite=False"
        )
    empty = target.is_dir() and not any(target.iterdir())
    if not empty and not (target / _MARK).is_file():
        raise BayesdropError(
            f"`{target}` is no SavedModel, and is not replaced. Expected a "
            f"folder with a file `{_MARK}`, an empty one, or none. Received: "
            f"a {'folder' if target.is_dir() else 'file'} of something else"
        )
    return target
