# SPDX-License-Identifier: Apache-2.0
"""The memory that is available to this process."""

import pathlib
from collections.abc import Iterator


def available_memory(root: str = "/") -> int | None:
    """Returns the bytes that this process may still take; `None` if unknown.

    This is the minimum of the machine's available memory and of the rest of
    each limit of the process' control groups (containers, batch systems).
    Cached files count as available: the kernel releases them.

    Args:
        root: Folder that holds `proc` and `sys`.
    """
    top = pathlib.Path(root)
    rooms = [
        number
        for number in (_machine(top), *_groups(top))
        if number is not None
    ]
    return max(0, min(rooms)) if rooms else None


def describe_bytes(number: int) -> str:
    """Returns a number of bytes with a unit: `"5.12 GB"`."""
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB" if size < 1000 else f"{size:,.0f} TB"


def _machine(top: pathlib.Path) -> int | None:
    kilobytes = _fields(top / "proc/meminfo").get("MemAvailable")
    return None if kilobytes is None else kilobytes * 1024


def _groups(top: pathlib.Path) -> Iterator[int | None]:
    """Yields the rest of each group's limit, from the inside out."""
    for line in _text(top / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            roots = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            roots = ("sys/fs/cgroup/memory", "sys/fs/cgroup/memory")
            names = (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        group = pathlib.PurePosixPath(path.lstrip("/"))
        for folder in dict.fromkeys(roots):
            for inner in (group, *group.parents):
                yield _left_of(top / folder / inner, *names)


def _left_of(
    folder: pathlib.Path, limit: str, usage: str, cached: str
) -> int | None:
    most, used = (_text(folder / name).strip() for name in (limit, usage))
    if not most.isdigit() or not used.isdigit():
        return None  # "max", or no such file.
    files = _fields(folder / "memory.stat").get(cached, 0)
    return int(most) - int(used) + files


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Reads lines of a name and a number."""
    fields = {}
    for line in _text(path).splitlines():
        name, *values = line.replace(":", " ").split()
        if values and values[0].isdigit():
            fields[name] = int(values[0])
    return fields


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
