# SPDX-License-Identifier: Apache-2.0
"""Writes files and folders whole or not at all.

Every writer of the package goes through here. What is new is written in a
scratch folder beside its target, brought to the disk, and renamed. A crash, a
kill or a full disk leaves the target as it was.

A scratch folder is named after its target, and locked by its writer for as
long as that lives. The next writer of the same target removes those that it
can lock: their writers are dead. Where a file system has no locks, scratch
folders of killed writers stay.

A symbolic link is followed: what it points to is replaced. A device or a pipe
cannot be replaced, and is written directly.
"""

import contextlib
import ctypes
import errno
import hashlib
import itertools
import math
import os
import pathlib
import re
import shutil
import stat
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop.errors import WriteError

try:
    import fcntl
except ImportError:  # Not a POSIX system: there are no locks.
    fcntl = None  # type: ignore[assignment]

Path = str | os.PathLike[str]

_SUFFIX = ".part"
# `tempfile` makes eight characters.
_RANDOM = r"[a-z0-9_]{8}"
# Of a name, in a name that has more around it; a name has at most 255 bytes.
_NAME_BYTES = 200
_OLD = "old."
# The disk, a quota, or the largest size of a file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# NumPy says it so, without a number, if a disk is full.
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[pathlib.Path]:
    """Gives a path to write a file to; on success it replaces `path`.

    Args:
        path: The file; its folder exists.

    Yields:
        A path beside it, with the same name, where there is no file yet.

    Raises:
        WriteError: If the disk is full. The old file is untouched.

    Example:
    ```python
    with replacing_file("report.txt") as part:
        part.write_text("whole or not at all")
    ```
    """
    with _Replacement.of_file(path) as replacement:
        with replacement.told():
            yield replacement.path
        replacement.sync()
        replacement.put_in_place()


@contextlib.contextmanager
def replacing_array(
    path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> Iterator[npt.NDArray[Any]]:
    """Gives an array on disk to fill; on success it is the `.npy` file `path`.

    All of its room on the disk is taken before the first value is written: a
    disk that is full is an error, where a memory map alone would crash.

    Args:
        path: The file; its folder exists.
        shape: Of the array.
        dtype: Of the array; not of objects.

    Yields:
        The array, memory-mapped. It may be used after the end as well.

    Raises:
        WriteError: If the disk has too little room. The old file is untouched.
    """
    with _Replacement.of_file(path) as replacement:
        with replacement.told():
            array = _map_new(replacement.path, shape, np.dtype(dtype))
            yield array
            if isinstance(array, np.memmap):
                array.flush()
        replacement.sync()
        replacement.put_in_place()


def write_files(
    writers: Mapping[pathlib.Path, Callable[[pathlib.Path], None]],
    check: Callable[[], None],
) -> None:
    """Writes several files; puts them in place when all are written.

    Args:
        writers: For each file a function that writes to the path it is given.
        check: Called just before the first file is put in place; if it
            raises, none is.

    Raises:
        WriteError: If the disk is full. The old files are untouched.
    """
    with contextlib.ExitStack() as stack:
        replacements = []
        for target, write in writers.items():
            replacement = stack.enter_context(_Replacement.of_file(target))
            replacements.append(replacement)
            with replacement.told():
                write(replacement.path)
            replacement.sync()
        check()
        for replacement in replacements:
            replacement.put_in_place()


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[pathlib.Path]:
    """Gives a path to make a folder at; on success it replaces `path`.

    Folders above it are made. Whatever is at `path` is replaced: whether it
    may be is for the caller to check.

    Args:
        path: The folder.

    Yields:
        A path beside it, where there is no folder yet.
    """
    with _Replacement.of_folder(path) as replacement:
        with replacement.told():
            yield replacement.path
        replacement.sync()
        replacement.put_in_place()


def clear_left_overs(path: Path) -> None:
    """Removes what killed writers of a file or folder have left beside it.

    What a living writer writes is not touched. If a folder was being replaced
    in two steps and the second is missing, the old folder is put back.
    """
    target = pathlib.Path(os.path.realpath(path))
    pattern = re.compile(
        re.escape(_prefix(target)) + _RANDOM + re.escape(_SUFFIX)
    )
    with contextlib.suppress(OSError):
        names = [n for n in os.listdir(target.parent) if pattern.fullmatch(n)]
        for name in names:
            _clear(target.parent / name, target)


class _Replacement:
    """A file or folder that is written beside its target.

    Attributes:
        name: What to replace, as the caller has it.
        target: The same, with symbolic links followed.
        path: Where to write it.
    """

    def __init__(
        self, name: Path, target: pathlib.Path, scratch: pathlib.Path | None
    ):
        self.name = os.fspath(name)
        self.target = target
        self.path = target if scratch is None else scratch / target.name
        self._scratch = scratch

    @classmethod
    @contextlib.contextmanager
    def of_file(cls, path: Path) -> Iterator["_Replacement"]:
        target = _follow(path)
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(
                errno.EISDIR, os.strerror(errno.EISDIR), str(path)
            )
        if mode is not None and not stat.S_ISREG(mode):
            yield cls(path, target, None)
            return
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(
                errno.EACCES, os.strerror(errno.EACCES), str(path)
            )
        with _scratch_folder(path, target) as scratch:
            yield cls(path, target, scratch)

    @classmethod
    @contextlib.contextmanager
    def of_folder(cls, path: Path) -> Iterator["_Replacement"]:
        target = _follow(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _scratch_folder(path, target) as scratch:
            yield cls(path, target, scratch)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Says which file a full disk left unwritten."""
        try:
            yield
        except OSError as error:
            if not self._is_ours(error):
                raise
            raise self._write_error(error) from error

    def sync(self) -> None:
        """Brings what was written to the disk."""
        if self._scratch is None:
            return
        with self.told():
            for folder, _, files in os.walk(self.path):
                for name in files:
                    _sync_file(pathlib.Path(folder, name))
                _sync_folder(pathlib.Path(folder))
            if not self.path.is_dir():
                _sync_file(self.path)

    def put_in_place(self) -> None:
        """Puts what was written in the place of the target."""
        if self._scratch is None:
            return
        with self.told():
            if self.path.is_dir():
                _swap_folders(self.path, self.target, self._scratch)
            else:
                _keep_permissions(self.path, self.target)
                os.replace(self.path, self.target)
            _sync_folder(self.target.parent)

    def _is_ours(self, error: OSError) -> bool:
        if error.errno is None:
            return bool(_SHORT_WRITE.search(str(error)))
        if error.errno not in _FULL:
            return False
        place = error.filename
        # A write to an open file names no file.
        if place is None or self._scratch is None:
            return True
        return self._scratch in pathlib.Path(os.fsdecode(place)).parents

    def _write_error(self, error: OSError) -> WriteError:
        code = error.errno or errno.ENOSPC
        received = os.strerror(code) if error.errno else str(error)
        there = (
            "what was there before is untouched"
            if self.target.exists()
            else "nothing is left of it"
        )
        told = WriteError(
            f"`{self.name}` was not written; {there}. Expected room for it "
            f"on the disk. Received: {received}"
        )
        told.errno, told.strerror = code, received
        told.filename = self.name
        return told


def _follow(path: Path) -> pathlib.Path:
    """Returns what a path leads to, which need not exist."""
    target = pathlib.Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


def _prefix(target: pathlib.Path) -> str:
    name = target.name
    if len(os.fsencode(name)) > _NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}."


@contextlib.contextmanager
def _scratch_folder(name: Path, target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a folder beside a target that nobody removes while it is used."""
    clear_left_overs(target)
    while True:
        try:
            made = tempfile.mkdtemp(_SUFFIX, _prefix(target), target.parent)
        except OSError as error:
            # The caller knows nothing of a scratch folder.
            error.filename = os.fspath(name)
            raise
        scratch = pathlib.Path(made)
        lock = _lock(scratch, wait=True)
        if scratch.exists():
            break
        _unlock(lock)  # Removed before it was locked.
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        _unlock(lock)


def _clear(scratch: pathlib.Path, target: pathlib.Path) -> None:
    """Removes a scratch folder, unless its writer lives."""
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
    """Locks a folder; `None` if it cannot be, or if another has the lock."""
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


def _swap_folders(
    new: pathlib.Path, target: pathlib.Path, scratch: pathlib.Path
) -> None:
    """Puts a folder in the place of another, in one step if that is possible.

    In two steps the target is missing for a moment; a writer that is killed
    then leaves the old folder in the scratch folder (see `clear_left_overs`).
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


def _exchange(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Exchanges two folders in one step; `False` if that cannot be done."""
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


def _keep_permissions(part: pathlib.Path, target: pathlib.Path) -> None:
    """Gives a file the permissions and the owner of the one it replaces."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new = part.stat()
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        # Only an administrator may give files away.
        with contextlib.suppress(PermissionError):
            os.chown(part, old.st_uid, old.st_gid)
    os.chmod(part, stat.S_IMODE(old.st_mode))


def _sync_file(path: pathlib.Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: pathlib.Path) -> None:
    # Not every file system can, and the files are on the disk already.
    with contextlib.suppress(OSError):
        _sync_file(path)


def _map_new(
    path: pathlib.Path, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Makes a `.npy` file with all of its room, and maps it into memory."""
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(map(int, shape)),
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        offset = file.tell()
        size = math.prod(shape) * dtype.itemsize
        if not size:
            # Nothing to map.
            return np.zeros(shape, dtype)
        file.flush()
        os.posix_fallocate(file.fileno(), offset, size)
    return np.memmap(path, dtype, "r+", offset, shape)
