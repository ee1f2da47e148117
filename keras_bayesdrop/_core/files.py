# SPDX-License-Identifier: Apache-2.0
"""Writes files and folders whole or not at all.

Every writer of the package uses this module. New content is written to a
scratch folder beside its target (see `scratch`), brought to the disk, and
renamed. A crash, a kill or a full disk leaves the target as it was.

A symbolic link is followed: its target is replaced. A device or a pipe cannot
be replaced, and is written directly.
"""

import contextlib
import errno
import math
import os
import pathlib
import re
import stat
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.scratch import Path
from keras_bayesdrop._core.scratch import scratch_folder
from keras_bayesdrop._core.scratch import swap_folders
from keras_bayesdrop.errors import WriteError

# The disk is full, a quota is, or the file has its largest size.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# NumPy's message, without an error number, if a disk is full.
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[pathlib.Path]:
    """Yields a path to write a file to; on success it replaces `path`.

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
        with replacement.full_disk_named():
            yield replacement.path
        replacement.sync()
        replacement.put_in_place()


@contextlib.contextmanager
def replacing_array(
    path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> Iterator[npt.NDArray[Any]]:
    """Yields an array on disk to fill; on success it is the `.npy` file.

    The whole file is allocated before the first value is written: a full disk
    is an error, where a memory map alone would crash the process.

    Args:
        path: The file; its folder exists.
        shape: Shape of the array.
        dtype: Type of the array; not `object`.

    Yields:
        The array, memory-mapped. It stays valid after the context ends.

    Raises:
        WriteError: If the disk has too little room. The old file is untouched.
    """
    with _Replacement.of_file(path) as replacement:
        with replacement.full_disk_named():
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
    """Writes several files, and puts them in place when all are written.

    Args:
        writers: For each file a function that writes it to another path.
        check: Called just before the first file is put in place. If it
            raises, no file is replaced.

    Raises:
        WriteError: If the disk is full. The old files are untouched.
    """
    with contextlib.ExitStack() as stack:
        replacements = []
        for target, write in writers.items():
            replacement = stack.enter_context(_Replacement.of_file(target))
            replacements.append(replacement)
            with replacement.full_disk_named():
                write(replacement.path)
            replacement.sync()
        check()
        for replacement in replacements:
            replacement.put_in_place()


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[pathlib.Path]:
    """Yields a path to make a folder at; on success it replaces `path`.

    Missing parent folders are created. Anything at `path` is replaced; the
    caller checks whether that is allowed.

    Args:
        path: The folder.

    Yields:
        A path beside it, where there is no folder yet.
    """
    with _Replacement.of_folder(path) as replacement:
        with replacement.full_disk_named():
            yield replacement.path
        replacement.sync()
        replacement.put_in_place()


class _Replacement:
    """A file or folder that is written beside its target.

    Attributes:
        name: The file or folder to replace, as the caller named it.
        target: The same, with symbolic links followed.
        path: The path to write to.
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
        with scratch_folder(path, target) as scratch:
            yield cls(path, target, scratch)

    @classmethod
    @contextlib.contextmanager
    def of_folder(cls, path: Path) -> Iterator["_Replacement"]:
        target = _follow(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(path, target) as scratch:
            yield cls(path, target, scratch)

    @contextlib.contextmanager
    def full_disk_named(self) -> Iterator[None]:
        """Raises `WriteError`, with the file's name, if the disk is full."""
        try:
            yield
        except OSError as error:
            if not self._is_ours(error):
                raise
            raise self._write_error(error) from error

    def sync(self) -> None:
        """Flushes the new content to the disk."""
        if self._scratch is None:
            return
        with self.full_disk_named():
            for folder, _, files in os.walk(self.path):
                for name in files:
                    _sync_file(pathlib.Path(folder, name))
                _sync_folder(pathlib.Path(folder))
            if not self.path.is_dir():
                _sync_file(self.path)

    def put_in_place(self) -> None:
        """Replaces the target by the new content."""
        if self._scratch is None:
            return
        with self.full_disk_named():
            if self.path.is_dir():
                swap_folders(self.path, self.target, self._scratch)
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
        write_error = WriteError(
            f"`{self.name}` was not written; {there}. Expected room for it "
            f"on the disk. Received: {received}"
        )
        write_error.errno, write_error.strerror = code, received
        write_error.filename = self.name
        return write_error


def _follow(path: Path) -> pathlib.Path:
    """Follows symbolic links; the target need not exist."""
    target = pathlib.Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


def _keep_permissions(part: pathlib.Path, target: pathlib.Path) -> None:
    """Copies permissions and owner from the replaced file to the new one."""
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
    # Not every file system can sync a folder; the files are on the disk.
    with contextlib.suppress(OSError):
        _sync_file(path)


def _map_new(
    path: pathlib.Path, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Allocates a `.npy` file on the disk, and maps it into memory."""
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
