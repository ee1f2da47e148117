# SPDX-License-Identifier: Apache-2.0
"""The import order, the modules an import loads, and the public names."""

import ast
import importlib
import pathlib
import sys

import pytest

from tests.update_golden import GOLDEN
from tests.update_golden import PACKAGE
from tests.update_golden import for_type_checkers
from tests.update_golden import public_names

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A room may import from the rooms before it.
ROOMS = (
    *("errors", "_core", "random", "noise", "priors"),
    *("losses", "regularizers", "layers", "experimental"),
    *("predictive", "metrics"),
    *("graph", "plan", "moments", "theory", "engines", "views", "prediction"),
    *("sparsity", "calibrate", "plots", "decisions", "diagnostics"),
    *("serving", "training", "callbacks", "sklearn", "cli", "__main__"),
)
RANK = {room: rank for rank, room in enumerate(ROOMS)}
# Only the package's `__init__` imports these.
ENTRY_POINTS = {"callbacks", "sklearn", "training", "__main__"}

# A module of `prediction` may import from the rows above its own.
PREDICTION = (
    {"methods.base"},
    {"methods.sampling"},
    {"methods.moments"},
    {"methods.rao_blackwell"},
    {"progress", "input_data", "model_checks", "caching", "logit_noise"},
    {"structures", "likeness"},
    {"compiled_losses", "kept_axis"},
    {"last_activation"},
    {"decision"},
    {"detection", "row_check", "constant_samples", "distribute.replicas"},
    {"sampling.output_files", "sampling.numbered_rows"},
    {"head_structure", "witness"},
    {"reading"},
    {"labels"},
    {"request", "sampling.block_means"},
    {"sampling.accumulate", "sampling.geometry"},
    {"sampling.sketch", "sampling.kept_samples"},
    {
        "sampling.programs",
        "sampling.repeats",
        "sampling.tiles",
        "sampling.tolerance",
    },
    {"sampling.collect"},
    {"distribute.workers"},
    {"sampling.drawer", "sampling.readout", "sampling.repeats"},
    {
        "sampling.row_mixing",
        "sampling.passes",
        "sampling.result",
    },
    {"sampling.run"},
    {"closed_form.limits", "closed_form.outputs"},
    {"closed_form.readout", "closed_form.run"},
    {"closed_form.start"},
    {"point"},
    {"start"},
    {"ensemble"},
    {"driver"},
    {"prepared"},
    {"api", "predictor"},
)
# A method is plain data, and imports its run when it starts one.
LATE_IN_PREDICTION = {
    ("methods.sampling", "sampling.tolerance"),
    ("methods.sampling", "sampling.run"),
    ("methods.moments", "closed_form.start"),
    ("methods.rao_blackwell", "closed_form.start"),
}

# Functions that only pass on to what is below, and import it when called.
LATE = {
    ("predictive", "decisions"),
    ("predictive", "plots"),
}

# The only modules at the root of the package.
ROOT_MODULES = {"__init__", "__main__", "errors", "views"}
# The command: outside the package, for importing that takes seconds.
COMMAND = ("keras_bayesdrop_command.py", "keras_bayesdrop_options.py")

SOURCE_FOLDERS = (
    "benchmarks",
    "cmake",
    "examples",
    PACKAGE,
    "kernels",
    "tests",
)
# The most lines that a Python file may have.
MOST_LINES = 400
LICENCE = "SPDX-License-Identifier: Apache-2.0"
SOURCE_SUFFIXES = {".cc", ".cmake", ".cu", ".cuh", ".h", ".in", ".py", ".pyi"}


def source_files():
    in_folders = (
        path
        for folder in SOURCE_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt"
    )
    return sorted([*(ROOT / name for name in COMMAND), *in_folders])


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
    """Full names of what a file imports from the package when it runs."""

    def walk(nodes):
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    yield f"{node.module}.{alias.name}"
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(
                node.test
            ):
                yield from walk(node.orelse)
            else:
                yield from walk(ast.iter_child_nodes(node))

    yield from walk(ast.parse(path.read_text("utf-8")).body)


def package_files():
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield path, parts[0]


def test_no_private_module_lies_at_the_root():
    modules = {path.stem for path in (ROOT / PACKAGE).glob("*.py")}
    assert modules == ROOT_MODULES
    others = {path.name for path in ROOT.glob("*.py")}
    assert others == set(COMMAND)


def test_no_python_file_is_long():
    lines = {
        str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n")
        for path in source_files()
        if path.suffix == ".py"
    }
    long = sorted(name for name, count in lines.items() if count > MOST_LINES)
    assert not long, (
        f"Files of more than {MOST_LINES} lines: {long}. "
        "Expected one idea a file."
    )


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
            if not imported.startswith(prefix) or other in ("", name):
                continue
            late = (name, other) in LATE_IN_PREDICTION
            if rank[other] >= rank[name] and not late:
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


def lazy_packages():
    for path in sorted((ROOT / PACKAGE).rglob("__init__.py")):
        tree = ast.parse(path.read_text("utf-8"))
        imports = [
            node
            for node in for_type_checkers(tree)
            if isinstance(node, ast.ImportFrom)
        ]
        if imports:
            name = ".".join(path.parent.relative_to(ROOT).parts)
            yield pytest.param(name, imports, id=name)


@pytest.mark.parametrize(("name", "imports"), list(lazy_packages()))
def test_lazy_names_are_those_that_type_checkers_see(name, imports):
    module = importlib.import_module(name)
    public = {n for n in dir(module) if not n.startswith("_")}
    for node in imports:
        for alias in node.names:
            assert alias.name == alias.asname
            assert alias.name in public
            value = getattr(module, alias.name)
            if node.module == name:
                assert value is sys.modules[f"{name}.{alias.name}"]
            else:
                defining = importlib.import_module(node.module)
                assert value is getattr(defining, alias.name)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = module.no_such_name


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
