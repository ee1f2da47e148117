# SPDX-License-Identifier: Apache-2.0
"""Checks that a file can be written, and that nothing is lost by it."""

import os
import pathlib
from collections.abc import Iterable

from keras_bayesdrop.cli.problems import problem


def check_writable(
    path: pathlib.Path, force: bool, inputs: Iterable[str] = ()
) -> None:
    """Raises if a file cannot or must not be written, before any work.

    Args:
        path: The file to be written.
        force: Whether one that exists may be replaced.
        inputs: Files that are read, which are never replaced.
    """
    # What a symbolic link points to is written.
    folder = pathlib.Path(os.path.realpath(path)).parent
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
