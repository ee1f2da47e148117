# SPDX-License-Identifier: Apache-2.0
"""Writes a folder whole or not at all."""

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

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


@contextlib.contextmanager
def replacing(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a folder to write; on success it takes the place of `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}.", dir=target.parent
    ) as scratch:
        new = pathlib.Path(scratch) / "new"
        yield new
        if target.exists():
            target.rename(pathlib.Path(scratch) / "old")
        shutil.move(new, target)
