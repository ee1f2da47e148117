# SPDX-License-Identifier: Apache-2.0
"""Scratch folders beside a target, for new content until it is whole.

A scratch folder is named after its target. Its writer locks it while the writer
lives. The next writer of the same target removes the scratch folders that it
can lock: their writers are dead. Where a file system has no locks, scratch
folders of killed writers stay.
"""

import contextlib
import ctypes
import errno
import hashlib
import itertools
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Not a POSIX system: there are no locks.
    fcntl = None  # type: ignore[assignment]

Path = str | os.PathLike[str]

_SUFFIX = ".part"
# `tempfile` adds eight random characters.
_RANDOM = r"[a-z0-9_]{8}"
# Longest name, in bytes, that fits into a longer one; a name has at most 255.
_NAME_BYTES = 200
_OLD = "old."
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def scratch_folder(name: Path, target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a locked folder beside a target, and removes it at the end."""
    clear_left_overs(target)
    while True:
        try:
            folder = tempfile.mkdtemp(_SUFFIX, _prefix(target), target.parent)
        except OSError as error:
            # The caller knows the target, not the scratch folder.
            error.filename = os.fspath(name)
            raise
        scratch = pathlib.Path(folder)
        lock = _lock(scratch, wait=True)
        if scratch.exists():
            break
        _unlock(lock)  # Removed before it was locked.
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        _unlock(lock)


def swap_folders(
    new: pathlib.Path, target: pathlib.Path, scratch: pathlib.Path
) -> None:
    """Replaces a folder by a new one, in one step if that is possible.

    In two steps the target is missing for a moment. A writer that is killed at
    that moment leaves the old folder in the scratch folder, and
    `clear_left_overs` puts it back.
    """
    for number in itertools.count():
        try:
            os.rename(new, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        # Another writer may have moved the target away meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if _exchange(new, target):
                return
            os.rename(target, scratch / f"{_OLD}{number}")


def clear_left_overs(path: Path) -> None:
    """Removes scratch folders that killed writers of a target left behind.

    Scratch folders of living writers are not touched. If a writer was killed
    between the two steps of replacing a folder, the old folder is put back.
    """
    target = pathlib.Path(os.path.realpath(path))
    pattern = re.compile(
        re.escape(_prefix(target)) + _RANDOM + re.escape(_SUFFIX)
    )
    with contextlib.suppress(OSError):
        names = [n for n in os.listdir(target.parent) if pattern.fullmatch(n)]
        for name in names:
            _clear(target.parent / name, target)


def _prefix(target: pathlib.Path) -> str:
    name = target.name
    if len(os.fsencode(name)) > _NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}."


def _clear(scratch: pathlib.Path, target: pathlib.Path) -> None:
    """Removes a scratch folder unless its writer is alive."""
    lock = _lock(scratch, wait=False)
    if lock is None:
        return
    try:
        with contextlib.suppress(OSError):
            for old in sorted(scratch.glob(f"{_OLD}*"), reverse=True):
                if not os.path.lexists(target):
                    os.rename(old, target)
        shutil.rmtree(scratch, ignore_errors=True)
    finally:
        _unlock(lock)


def _lock(folder: pathlib.Path, wait: bool) -> int | None:
    """Locks a folder; returns `None` if that is impossible or it is taken."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _exchange(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Exchanges two folders in one step; returns `False` if unsupported."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    failed = renameat2(
        _AT_FDCWD,
        os.fsencode(one),
        _AT_FDCWD,
        os.fsencode(other),
        _RENAME_EXCHANGE,
    )
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))
