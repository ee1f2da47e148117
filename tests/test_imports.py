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

# A module may import from its own row and from the rows above it. A package
# counts as one module. A new module goes in the highest row that serves it.
ROWS = (
    {"errors", "_types", "_version", "_export", "_validate", "_rng", "_keras"}
    | {"_observer"}
    | {"_noise_precision", "_progress", "_sketch", "_table", "_arrays"}
    | {"_labels", "_mixture", "_sparse_source", "_stats", "_predictive_checks"}
    | {"_predictive_file", "_build_info", "_library", "_sample_weights"}
    | {"_residual_source", "_maximise", "_command", "_entropy", "_loans"}
    | {"_files", "_limits", "_elf"}
    | {"_identity", "_fingerprint", "_programs"}
    | {"_memory", "_output_files", "_sample_quantiles", "_samples"},
    {"noise", "priors", "weight_priors", "_scale_source"},
    {"_draws", "experimental", "layers", "losses", "regularizers"},
    {"sites"},
    {"plan"},
    {"engines"},
    {"views"},
    {"sparsity"},
    {"analytic"},
    {"predictive", "relevance_report", "_consistency", "_consistency_record"},
    {"metrics", "calibrate"},
    {"streaming"},
    {"plots"},
    {"predict", "explanation", "information", "inspection", "_accumulate"}
    | {"caching"}
    | {"_data", "_geometry", "_moments_run", "_partial_run", "_run"}
    | {"_sampler", "_tasks", "_measured_units", "consistency_report"}
    | {
        "_collect",
        "_model_checks",
        "_row_check",
        "_dead",
        "_tolerance",
        "serving",
    }
    | {"_replicas", "_request", "_workers"},
    {"decisions"},
    {"callbacks", "training", "cli", "__main__"},
)
RANK = {module: rank for rank, row in enumerate(ROWS) for module in row}
# Only the package's `__init__` imports these.
ENTRY_POINTS = {"callbacks", "training", "__main__"}

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


def package_files():
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield path, parts[0]


def test_every_module_has_a_row():
    missing = sorted({module for _, module in package_files()} - RANK.keys())
    assert not missing, (
        f"Modules without a place in the import order: {missing}. "
        "Add each to a row of ROWS in tests/test_imports.py."
    )


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
