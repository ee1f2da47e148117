# SPDX-License-Identifier: Apache-2.0
"""Errors about files, in three beats and on one line."""

import pathlib

from keras_bayesdrop.errors import BayesdropError


def problem(
    path: pathlib.Path, wrong: str, expected: str, received: str
) -> BayesdropError:
    """Returns the error about a file.

    Args:
        path: The file.
        wrong: The problem, such as `"cannot be read"`.
        expected: The expected content.
        received: The content that was received.
    """
    return BayesdropError(
        f"`{path}` {wrong}. Expected {expected}. Received: {received}"
    )


def check_is_file(path: pathlib.Path, expected: str) -> None:
    """Raises unless there is a file at a path."""
    if path.is_dir():
        raise problem(path, "is a folder", expected, "a folder")
    if not path.exists():
        folder = path.absolute().parent
        received = (
            f"no such file in `{folder}`"
            if folder.is_dir()
            else f"no such folder: `{folder}`"
        )
        raise problem(path, "does not exist", expected, received)


def first_line(error: BaseException | str, length: int = 200) -> str:
    """Returns the first line of an error or a text, cut to a length."""
    lines = str(error).strip().splitlines() or ["no message"]
    text = " ".join(lines[0].split())
    return text if len(text) <= length else f"{text[: length - 3]}..."
