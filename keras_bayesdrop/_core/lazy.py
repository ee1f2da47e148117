# SPDX-License-Identifier: Apache-2.0
"""Namespaces whose names are imported when somebody asks for them.

A package that lists its names here costs nothing to import. It writes the same
imports once more under `if TYPE_CHECKING`, for type checkers and for the golden
list of public names:

    if TYPE_CHECKING:
        from keras_bayesdrop.metrics._crps import crps as crps

    __getattr__, __dir__ = lazy_module(
        __name__, {"crps": "keras_bayesdrop.metrics._crps"}
    )

A test compares the two lists.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop.errors import MissingPackageError


def lazy_module(
    module: str,
    names: Mapping[str, str],
    *,
    needs: Sequence[str] = (),
    install: str | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a lazy namespace.

    A name is imported once, and is an attribute of the module from then on.

    Args:
        module: Full name of the namespace, its `__name__`.
        names: For each public name the full name of the module that defines
            it. A name whose module is `f"{module}.{name}"` is that submodule
            itself. Python sets a submodule as an attribute of its package, so
            a function must not share the name of its file.
        needs: Packages that a name may need and that may be missing, such as
            `("keras", "tensorflow")`. Where one is missing, the error says
            what to install. Other import errors pass unchanged.
        install: Argument of `pip install` that brings them, if it is not the
            names of the packages.

    Returns:
        The functions `__getattr__` and `__dir__`.

    Raises:
        MissingPackageError: By `__getattr__`, where a package of `needs` is
            missing.
    """

    def get(name: str) -> Any:
        path = names.get(name)
        if path is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            value: Any = importlib.import_module(path)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in needs:
                raise
            raise _missing(
                f"{module}.{name}", missing, needs, install
            ) from error
        if path != f"{module}.{name}":
            value = getattr(value, name)
        setattr(sys.modules[module], name, value)
        return value

    def names_of_module() -> list[str]:
        return sorted({*vars(sys.modules[module]), *names})

    return get, names_of_module


def lazy_files(
    module: str,
    files: Mapping[str, Sequence[str]],
    *,
    needs: Sequence[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the two functions of a namespace by the files that define it.

    Args:
        module: Full name of the namespace, its `__name__`.
        files: For each file in the folder of the namespace, without its
            ending, the public names that it defines.
        needs: As in `lazy_module`.

    Returns:
        The functions `__getattr__` and `__dir__`.
    """
    names = {
        name: f"{module}.{file}"
        for file, file_names in files.items()
        for name in file_names
    }
    return lazy_module(module, names, needs=needs)


def import_if_installed(*modules: str, needs: Sequence[str]) -> None:
    """Imports modules if all packages that they need are installed.

    Errors of a package that is installed but broken pass unchanged.

    Args:
        *modules: Full names of the modules.
        needs: Packages without which none of the modules is imported.
    """
    if all(map(_is_installed, needs)):
        for module in modules:
            importlib.import_module(module)


def _is_installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:  # A finder that refuses the package.
        return False


def _missing(
    name: str, missing: str, needs: Sequence[str], install: str | None
) -> MissingPackageError:
    error = MissingPackageError(
        f"`{name}` needs a package that is not installed. Expected "
        f"{' and '.join(needs)}; `pip install {install or ' '.join(needs)}` "
        f"installs what is missing. Received: no module named {missing!r}"
    )
    error.name = missing
    return error
