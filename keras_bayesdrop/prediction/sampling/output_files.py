# SPDX-License-Identifier: Apache-2.0
"""Names the outputs of a model, and the files that they are written to."""

import pathlib
import re
from typing import Any


def by_name(model: Any, structure: Any) -> dict[str, Any]:
    """Returns the leaves of a structure like the model's outputs, by name.

    Keys of dicts name their values; entries of lists are named by the model,
    if it names as many, else by their number.
    """
    if isinstance(structure, (list, tuple)):
        names = list(getattr(model, "output_names", None) or ())
        if len(names) != len(structure) or len(set(names)) != len(names):
            names = [str(number) for number in range(len(structure))]
        structure = dict(zip(names, structure, strict=True))
    if not isinstance(structure, dict):
        return {"output": structure}
    return _flat(structure)


def files_of(path: pathlib.Path, names: list[str]) -> dict[str, pathlib.Path]:
    """Returns the file of each output: `out.<name>.npz` if there are several.

    A table has room for all of them.

    Args:
        path: The file asked for.
        names: Of the outputs.
    """
    if len(names) == 1 or path.suffix == ".csv":
        return dict.fromkeys(names, path)
    return {
        name: path.with_name(f"{path.stem}.{_plain(name)}{path.suffix}")
        for name in names
    }


def noise_file(path: pathlib.Path) -> pathlib.Path:
    """Returns the file of learned noise, beside that of its samples."""
    return path.with_name(f"{path.stem}.noise{path.suffix}")


def _flat(structure: Any) -> dict[str, Any]:
    if isinstance(structure, (list, tuple)):
        structure = {str(n): value for n, value in enumerate(structure)}
    found: dict[str, Any] = {}
    for key, value in structure.items():
        if isinstance(value, (dict, list, tuple)):
            inner = _flat(value)
            found |= {f"{key}.{name}": leaf for name, leaf in inner.items()}
        else:
            found[str(key)] = value
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)
