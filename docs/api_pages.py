# SPDX-License-Identifier: Apache-2.0
"""Makes the API pages of the site: one for each module with public names.

A hook of MkDocs. The names are those of `tests/golden_api.txt`, the text is
that of the docstrings; nothing is imported.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "keras_bayesdrop"


def modules() -> dict[str, list[str]]:
    """Returns the public names that have a docstring, by module."""
    golden = (ROOT / "tests" / "golden_api.txt").read_text("utf-8").split()
    found: dict[str, list[str]] = {PACKAGE: []}
    for name in golden:
        parent, _, last = name.rpartition(".")
        if last.startswith("_"):
            continue
        if any(other.startswith(f"{name}.") for other in golden):
            found.setdefault(name, [])
        else:
            found.setdefault(parent, []).append(name)
    return found


def page(module: str, names: list[str]) -> Iterator[str]:
    """Yields the lines of a page."""
    yield f"# {module}"
    yield ""
    if module != PACKAGE:
        yield f"::: {module}"
        yield "    options: {members: false}"
        yield ""
    for name in names:
        yield f"## {name.rpartition('.')[2]}"
        yield ""
        yield f"::: {name}"
        yield "    options: {heading_level: 3}"
        yield ""


def on_config(config: Any) -> Any:
    """Puts the pages into the navigation."""
    config["nav"].append({"API": [f"api/{name}.md" for name in modules()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages."""
    for module, names in modules().items():
        text = "\n".join(page(module, names))
        files.append(File.generated(config, f"api/{module}.md", content=text))
    return files
