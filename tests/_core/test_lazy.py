# SPDX-License-Identifier: Apache-2.0
"""Lazy namespaces: names, submodules, and errors about missing packages."""

import sys

import pytest

from keras_bayesdrop._core.lazy import lazy_files
from keras_bayesdrop._core.lazy import lazy_module
from keras_bayesdrop.errors import MissingPackageError

NAMESPACE = "a_lazy_namespace"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes a package with lazy names, imported from a folder."""

    def make(body):
        folder = tmp_path / NAMESPACE
        folder.mkdir()
        (folder / "__init__.py").write_text(body, "utf-8")
        (folder / "_light.py").write_text("def light():\n    return 1\n")
        (folder / "part.py").write_text("inside = 2\n")
        (folder / "_heavy.py").write_text("import a_missing_package.inner\n")
        (folder / "_broken.py").write_text("import another_missing_package\n")
        monkeypatch.syspath_prepend(tmp_path)
        return __import__(NAMESPACE)

    yield make
    for name in [n for n in sys.modules if n.partition(".")[0] == NAMESPACE]:
        del sys.modules[name]


BODY = f"""
from keras_bayesdrop._core.lazy import lazy_module

__getattr__, __dir__ = lazy_module(
    __name__,
    {{
        "light": "{NAMESPACE}._light",
        "part": "{NAMESPACE}.part",
        "heavy": "{NAMESPACE}._heavy",
        "broken": "{NAMESPACE}._broken",
    }},
    needs=("a_missing_package", "keras"),
)
"""


def test_a_name_is_imported_when_asked_for(package):
    module = package(BODY)
    assert f"{NAMESPACE}._light" not in sys.modules
    assert module.light() == 1
    assert f"{NAMESPACE}._light" in sys.modules
    assert vars(module)["light"] is module.light


def test_a_submodule_is_a_name(package):
    module = package(BODY)
    assert f"{NAMESPACE}.part" not in sys.modules
    assert module.part.inside == 2


def test_dir_lists_names_before_they_are_imported(package):
    module = package(BODY)
    assert {"light", "part", "heavy", "__name__"} <= set(dir(module))
    assert f"{NAMESPACE}._light" not in sys.modules


def test_an_unknown_name_is_an_attribute_error(package):
    module = package(BODY)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing
    assert not hasattr(module, "nothing")


def test_a_missing_package_is_named_with_what_to_install(package):
    module = package(BODY)
    with pytest.raises(MissingPackageError) as caught:
        _ = module.heavy
    message = str(caught.value)
    assert f"`{NAMESPACE}.heavy` needs a package" in message
    assert "pip install a_missing_package keras" in message
    assert "Received: no module named 'a_missing_package'" in message
    assert caught.value.name == "a_missing_package"
    assert isinstance(caught.value, ImportError)


def test_another_missing_package_is_not_explained(package):
    module = package(BODY)
    with pytest.raises(ModuleNotFoundError, match="another_missing_package"):
        _ = module.broken


def test_the_functions_serve_the_module_they_were_made_for():
    get, names = lazy_module(__name__, {"helpers": "tests.helpers"})
    with pytest.raises(AttributeError):
        get("nothing")
    assert "helpers" in names()


def test_names_by_file_are_the_names_of_the_files(package):
    files = {"_light": ("light",), "_heavy": ("heavy", "also_heavy")}
    module = package("")
    needs = ("a_missing_package",)
    get, names = lazy_files(NAMESPACE, files, needs=needs)
    assert {"light", "heavy", "also_heavy"} <= set(names())
    assert get("light") is sys.modules[f"{NAMESPACE}._light"].light
    assert module.light() == 1
    with pytest.raises(MissingPackageError, match="also_heavy"):
        get("also_heavy")
