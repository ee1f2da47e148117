# SPDX-License-Identifier: Apache-2.0
"""Other rooms import graph surgery from its front only."""

import ast
import pathlib

import keras_bayesdrop

PACKAGE = pathlib.Path(keras_bayesdrop.__file__).parent
SURGERY = "keras_bayesdrop.graph.surgery"


def imports(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_users_import_from_the_front():
    inside = PACKAGE / "graph" / "surgery"
    wrong = [
        f"{path.relative_to(PACKAGE)} imports `{module}`"
        for path in sorted(PACKAGE.rglob("*.py"))
        if inside not in path.parents
        for module in imports(path)
        if module.startswith(f"{SURGERY}.")
    ]
    assert not wrong, "\n".join([f"Expected `{SURGERY}` only:", *wrong])
