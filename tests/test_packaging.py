# SPDX-License-Identifier: Apache-2.0
"""The metadata, the pins, and the fallback to pure Python."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from keras_bayesdrop._core.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
CONSTRAINTS = ("newest", "oldest")


def pins(name, python=None):
    """Version by distribution, as a constraint file pins it."""
    environment = default_environment()
    if python is not None:
        environment["python_version"] = python
    result = {}
    lines = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    for line in lines.splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker and not requirement.marker.evaluate(
                environment
            ):
                continue
            (pin,) = requirement.specifier
            assert pin.operator == "==", line
            result[canonicalize_name(requirement.name)] = Version(pin.version)
    return result


def declared():
    extras = PROJECT["optional-dependencies"].values()
    groups = [PROJECT["dependencies"], *extras]
    return [Requirement(line) for group in groups for line in group]


def test_version_is_the_same_everywhere():
    assert PROJECT["version"] == __version__
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## {__version__}" in changelog


def test_package_is_typed():
    assert (ROOT / "keras_bayesdrop" / "py.typed").exists()


def test_ci_entry_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_pins_lie_in_the_declared_ranges(name, python):
    pinned = pins(name, python)
    for requirement in declared():
        version = pinned[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement} and {version}"


@pytest.mark.parametrize(
    "library", ["keras", "numpy", "tensorflow", "tensorflow-probability"]
)
def test_ends_of_the_ranges_are_the_pins(library):
    (requirement,) = (
        r
        for r in map(Requirement, PROJECT["dependencies"])
        if canonicalize_name(r.name) == library
    )
    bound = {s.operator: Version(s.version) for s in requirement.specifier}
    assert bound[">="] == pins("oldest", "3.11")[library]
    # The upper bound is the first minor release after the newest one tested.
    newest = pins("newest", "3.11")[library]
    assert bound["<"].release[:2] == (newest.major, newest.minor + 1)


def test_op_library_is_built_with_the_tensorflow_that_it_runs_with():
    requires = PYPROJECT["build-system"]["requires"]
    (build,) = (line for line in requires if line.startswith("tensorflow"))
    assert build in PROJECT["dependencies"]


def installed_closure():
    """Names of all distributions that the package and its extras bring."""
    todo = [*declared()]
    seen = set()
    while todo:
        requirement = todo.pop()
        for extra in requirement.extras or {""}:
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            try:
                distribution = importlib.metadata.distribution(key[0])
            except importlib.metadata.PackageNotFoundError:
                continue
            for line in distribution.requires or []:
                child = Requirement(line)
                if child.marker is None or child.marker.evaluate(
                    {"extra": extra}
                ):
                    todo.append(child)
    return {name for name, _ in seen}


def test_everything_that_is_installed_is_pinned():
    is_oldest = Version(importlib.metadata.version("tensorflow")) < Version(
        "2.19"
    )
    pinned = pins("oldest" if is_oldest else "newest")
    assert sorted(installed_closure() - pinned.keys()) == []


def build_wheel(tmp_path, native=None, **variables):
    """Builds a wheel of a copy of the sources; returns its path.

    `native` is put in place of kernels/CMakeLists.txt.
    """
    source = tmp_path / "source"
    source.mkdir()
    for name in (
        *("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"),
        *("keras_bayesdrop_command.py", "keras_bayesdrop_options.py"),
    ):
        shutil.copy(ROOT / name, source)
    for name in ("cmake", "keras_bayesdrop", "kernels"):
        shutil.copytree(ROOT / name, source / name)
    if native is not None:
        (source / "kernels" / "CMakeLists.txt").write_text(native, "utf-8")
    options = ["--no-deps", "--no-index", "--no-build-isolation"]
    options += ["--wheel-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(source)],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    return wheel


def built_files(wheel):
    """Names of what the build wrote into a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    written = (r".*\.so", r".*/_build_info\.py")
    return sorted(n for n in names if any(re.fullmatch(w, n) for w in written))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler")
def test_wheel_holds_the_op_library_and_serves_every_python_3(tmp_path):
    wheel = build_wheel(tmp_path)
    assert re.fullmatch(
        r"keras_bayesdrop-[\d.]+-py3-none-linux_.+\.whl", wheel.name
    )
    assert built_files(wheel) == [
        "keras_bayesdrop/_core/_build_info.py",
        "keras_bayesdrop/_core/libkeras_bayesdrop_ops.so",
    ]


def test_no_compiler_gives_a_wheel_without_the_op_library(tmp_path):
    wheel = build_wheel(tmp_path, CXX=shutil.which("false"))
    assert "-py3-none-" in wheel.name
    assert built_files(wheel) == []


def test_wheel_holds_the_command(tmp_path):
    wheel = build_wheel(tmp_path, native='message(FATAL_ERROR "no")')
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (n for n in names if n.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert "keras_bayesdrop_command.py" in names
    assert "keras_bayesdrop_options.py" in names
    assert "keras_bayesdrop/__init__.py" in names
    assert "keras-bayesdrop = keras_bayesdrop_command:main" in text


def test_no_tensorflow_gives_a_wheel_without_the_op_library(tmp_path):
    # A module of that name comes before the real one, and cannot be imported.
    (tmp_path / "tensorflow.py").write_text("raise ImportError", "utf-8")
    wheel = build_wheel(tmp_path, PYTHONPATH=str(tmp_path))
    assert "-py3-none-" in wheel.name
    assert built_files(wheel) == []


def test_failed_native_build_gives_a_pure_python_wheel(tmp_path):
    wheel = build_wheel(tmp_path, native='message(FATAL_ERROR "no")')
    assert wheel.name.endswith("-py3-none-any.whl")
    assert built_files(wheel) == []
