# SPDX-License-Identifier: Apache-2.0
"""Writes files whole or not at all."""

import os
import pathlib
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from keras_bayesdrop.cli.problems import problem

SUFFIXES = (".npz", ".csv", ".npy")


def check_writable(
    path: pathlib.Path, force: bool, inputs: Iterable[str] = ()
) -> None:
    """Raises if a file cannot or must not be written, before any work.

    Args:
        path: The file to be written.
        force: Whether one that exists may be replaced.
        inputs: Files that are read, which are never replaced.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise problem(
            path,
            "cannot be written",
            "a folder that exists",
            f"no such folder: `{folder}`",
        )
    if path.is_dir():
        raise problem(
            path, "cannot be written", "the name of a file", "a folder"
        )
    if not os.access(folder, os.W_OK):
        raise problem(
            path,
            "cannot be written",
            "a folder that you may write to",
            f"`{folder}`",
        )
    if not path.exists():
        return
    for name in inputs:
        if os.path.exists(name) and os.path.samefile(path, name):
            raise problem(
                path,
                "is read by this command",
                "another file for --out",
                f"--out {path}",
            )
    if not force:
        raise problem(
            path,
            "exists, and is not overwritten",
            "a new name for --out, or --force",
            f"--out {path}",
        )


def write_whole(
    writers: Mapping[pathlib.Path, Callable[[pathlib.Path], None]], force: bool
) -> None:
    """Writes beside the files, then puts them in place.

    Whatever happens meanwhile, an error or an interrupt, what was there stays
    and nothing else is left.

    Args:
        writers: For each file a function that writes to the path it is given.
        force: Whether files that exist may be replaced.
    """
    parts: dict[pathlib.Path, pathlib.Path] = {}
    try:
        for path, write in writers.items():
            parts[path] = part = _new_part(path)
            write(part)
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.chmod(_mode(path))
        for path in writers:
            check_writable(path, force)  # Someone may have come before us.
        for path, part in parts.items():
            os.replace(part, path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _new_part(path: pathlib.Path) -> pathlib.Path:
    """Makes an empty file beside another, so that a rename is one step."""
    handle, name = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=".part", dir=path.absolute().parent
    )
    os.close(handle)
    return pathlib.Path(name)


def _mode(path: pathlib.Path) -> int:
    """Returns the permissions that `open` would give, or that are there."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
