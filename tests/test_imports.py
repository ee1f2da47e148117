# SPDX-License-Identifier: Apache-2.0
"""What may import what, what importing costs, and which names are public."""

import ast
import pathlib
import subprocess
import sys

import pytest

from tests.update_golden import GOLDEN
from tests.update_golden import PACKAGE
from tests.update_golden import public_names

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A room may import from the rooms before it.
ROOMS = (
    *(
        "errors",
        "_command",
        "_core",
        "random",
        "noise",
        "priors",
        "weight_priors",
    ),
    *("losses", "regularizers", "layers", "experimental"),
    *("predictive", "metrics"),
    *("graph", "plan", "moments", "theory", "engines", "views", "prediction"),
    *("sparsity", "calibrate", "plots", "decisions", "diagnostics"),
    *("serving", "training", "callbacks", "cli", "__main__"),
)
RANK = {room: rank for rank, room in enumerate(ROOMS)}
# Only the package's `__init__` imports these.
ENTRY_POINTS = {"callbacks", "training", "__main__"}

# A module of `prediction` may import from the rows above its own.
PREDICTION = (
    {"progress", "detection", "input_data", "model_checks", "caching"},
    {"row_check", "dead"},
    {"sampling.accumulate", "sampling.geometry", "sampling.programs"},
    {"sampling.sketch", "sampling.kept_samples", "sampling.output_files"},
    {"sampling.collect", "sampling.tolerance", "distribute.replicas"},
    {"request", "distribute.workers"},
    {"methods.moments", "methods.sampling"},
    {"methods.rao_blackwell"},
    {"api"},
)

# Functions that only pass on to what is below, and import it when called.
LATE = {
    ("_command", "cli"),
    ("predictive", "decisions"),
    ("predictive", "plots"),
}

# Slow to import, or not installed with the package: imported where used.
LAZY = ("matplotlib", "pandas", "scipy", "sklearn", "tensorflow_probability")

SOURCE_FOLDERS = (
    "benchmarks",
    "cmake",
    "examples",
    PACKAGE,
    "kernels",
    "tests",
)
LICENCE = "SPDX-License-Identifier: Apache-2.0"
SOURCE_SUFFIXES = {".cc", ".cmake", ".cu", ".cuh", ".h", ".in", ".py", ".pyi"}


def source_files():
    return sorted(
        path
        for folder in SOURCE_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt"
    )


def imported_modules(path):
    """Top-level modules of the package that a file imports, with lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names = [f"{PACKAGE}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == PACKAGE and rest:
                yield rest.partition(".")[0], node.lineno


def full_names(path):
    """Full names of what a file imports from the package."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def package_files():
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield path, parts[0]


def test_every_room_has_a_place():
    missing = sorted({room for _, room in package_files()} - RANK.keys())
    assert not missing, (
        f"Rooms without a place in the import order: {missing}. "
        "Add each to ROOMS in tests/test_imports.py."
    )


def test_modules_of_prediction_import_from_the_rows_above():
    folder = ROOT / PACKAGE / "prediction"
    rank = {name: row for row, names in enumerate(PREDICTION) for name in names}
    prefix = f"{PACKAGE}.prediction."
    wrong, seen = [], set()
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        if name.endswith("__init__"):
            continue
        assert name in rank, f"`{name}` has no row in PREDICTION"
        seen.add(name)
        for imported in full_names(path):
            other = imported.removeprefix(prefix)
            while other and other not in rank:
                other = other.rpartition(".")[0]
            if imported.startswith(prefix) and other and other != name:
                if rank[other] >= rank[name]:
                    wrong.append(f"`{name}` imports `{other}`")
    assert not wrong, "\n".join(["Against the order of prediction:", *wrong])
    assert seen == rank.keys()


def test_imports_go_upwards_only():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports `{imported}`"
        for path, module in package_files()
        for imported, line in imported_modules(path)
        if module in RANK
        and imported in RANK
        and imported != module
        and (module, imported) not in LATE
        and (RANK[imported] > RANK[module] or imported in ENTRY_POINTS)
    ]
    assert not wrong, "\n".join(["Against the import order:", *wrong])


def test_heavy_libraries_are_imported_where_they_are_used():
    program = (
        f"import sys, keras; before = set(sys.modules); import {PACKAGE}\n"
        f"new = set(sys.modules) - before\n"
        f"print(*sorted(new.intersection({LAZY!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_public_names_are_the_golden_list():
    assert public_names() == GOLDEN.read_text("utf-8").split(), (
        "The public names changed. If that is meant, run `make golden` (or "
        "`python -m tests.update_golden`) and say so in CHANGELOG.md."
    )


@pytest.mark.parametrize(
    "path", source_files(), ids=lambda path: str(path.relative_to(ROOT))
)
def test_file_names_its_licence(path):
    head = path.read_text("utf-8").splitlines()[:2]
    assert any(LICENCE in line for line in head), (
        f"The first line (the second after a shebang) must hold `{LICENCE}`."
    )
