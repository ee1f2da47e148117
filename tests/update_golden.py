# SPDX-License-Identifier: Apache-2.0
"""The golden list of public names: how it is computed, and how rewritten.

python -m tests.update_golden
"""

import ast
import importlib
import pathlib
import types

GOLDEN = pathlib.Path(__file__).with_name("golden_api.txt")
PACKAGE = "keras_bayesdrop"


def exported(module: types.ModuleType) -> list[str]:
    """Names a module makes public.

    They are its `__all__`, if it has one; else what a package imports in the
    form `X as X`, for type checkers only if it is lazy, or the classes and
    functions that a single file defines.
    """
    if hasattr(module, "__all__"):
        return list(module.__all__)
    tree = ast.parse(pathlib.Path(module.__file__).read_text("utf-8"))
    if not hasattr(module, "__path__"):
        return [
            node.name
            for node in tree.body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))
            and not node.name.startswith("_")
        ]
    return [
        alias.asname
        for node in [*tree.body, *for_type_checkers(tree)]
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None and alias.asname == alias.name
    ]


def for_type_checkers(tree: ast.Module) -> list[ast.stmt]:
    """Statements of a module under `if TYPE_CHECKING`."""
    return [
        inner
        for node in tree.body
        if isinstance(node, ast.If)
        and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    ]


def public_names(name: str = PACKAGE) -> list[str]:
    """Dotted public names of a package and of the modules it exports."""
    module = importlib.import_module(name)
    names: list[str] = []
    for attribute in exported(module):
        dotted = f"{name}.{attribute}"
        names.append(dotted)
        if isinstance(getattr(module, attribute), types.ModuleType):
            names.extend(public_names(dotted))
    return sorted(names)


def main() -> None:
    GOLDEN.write_text("\n".join(public_names()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
