# SPDX-License-Identifier: Apache-2.0
"""Loads a model from a `.keras` file, in Keras' safe mode.

Safe mode never runs code from a file. Not every version of Keras has a safe
mode for the old HDF5 format, so that format is refused.
"""

import importlib
import os
import pathlib
import sys
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.limits import check_archive
from keras_bayesdrop.cli.model_weights import bounded_variables
from keras_bayesdrop.cli.model_weights import check_weights
from keras_bayesdrop.cli.problems import check_is_file
from keras_bayesdrop.cli.problems import first_line
from keras_bayesdrop.cli.problems import problem
from keras_bayesdrop.cli.quiet import warn
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import TooLargeError

_EXPECTED = "a `.keras` file that `model.save` wrote"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_CONFIG = "config.json"
# Errors that reading a damaged or foreign archive can raise.
_UNREADABLE = (
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def load_model(
    name: str, imports: Sequence[str] = (), max_bytes: int | None = None
) -> Any:
    """Loads a model, or raises an error of one line.

    Args:
        name: The file.
        imports: Modules to import first, which register the caller's own
            classes.
        max_bytes: The memory that the weights may take; `None` for the
            default.

    Returns:
        The Keras model, compiled if it was saved compiled.
    """
    path = pathlib.Path(name)
    config = check_model_file(path, max_bytes)
    limit = Limit(path, max_bytes, "--max-bytes")
    _import_all(imports)

    try:
        with bounded_variables(limit):
            return keras.saving.load_model(path, safe_mode=True)
    except TooLargeError:
        raise
    except Exception as error:
        first = error
    try:
        # Perhaps only the loss or a metric is unknown; prediction needs none.
        with bounded_variables(limit):
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except TooLargeError:
        raise
    except Exception:
        raise _unloadable(path, config, first) from first
    warn(
        f"`{path}` was compiled with something that cannot be loaded "
        f"({first_line(first, 100)}). The last activation decides what the "
        "outputs mean; --head overrides it"
    )
    return model


def check_model_file(path: pathlib.Path, max_bytes: int | None = None) -> str:
    """Raises unless a file is a whole `.keras` archive; returns its config.

    Args:
        path: The file.
        max_bytes: The memory that the weights may take; `None` for the
            default.
    """
    check_is_file(path, _EXPECTED)
    with path.open("rb") as file:
        head = file.read(len(_HDF5))
    if head == _HDF5:
        raise problem(
            path,
            "is in the legacy HDF5 format, which cannot be loaded safely",
            f"{_EXPECTED}; in Python, load it and save it as `.keras`",
            "an HDF5 file",
        )
    if path.suffix != ".keras":
        raise problem(
            path,
            "does not have the suffix of a model",
            _EXPECTED,
            f"the suffix {path.suffix!r}",
        )
    limit = Limit(path, max_bytes, "--max-bytes")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, limit)
            damaged = archive.testzip()
            config = archive.read(_CONFIG).decode("utf-8")
            if damaged is None:
                check_weights(archive, limit)
    except TooLargeError:
        raise
    except KeyError:
        raise problem(
            path, "holds no model", _EXPECTED, f"an archive without {_CONFIG}"
        ) from None
    except _UNREADABLE as error:
        size = path.stat().st_size
        raise problem(
            path,
            "is truncated, or not a model",
            _EXPECTED,
            f"{size} bytes ({first_line(error)})",
        ) from error
    if damaged is not None:
        raise problem(
            path, "is damaged", _EXPECTED, f"a wrong checksum of {damaged}"
        )
    return config


def _import_all(imports: Sequence[str]) -> None:
    if not imports:
        return
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    for module in imports:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise BayesdropError(
                f"Cannot import `{module}`. Expected a Python module with the "
                "layers of the model. Received: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error


def _unloadable(
    path: pathlib.Path, config: str, error: Exception
) -> BayesdropError:
    if '"Lambda"' in config or '"__lambda__"' in config:
        return problem(
            path,
            "holds a Lambda layer, which is code; code from a file is never "
            "run",
            "named layers; replace it by your own `keras.layers.Layer`",
            first_line(error),
        )
    return problem(
        path,
        "cannot be loaded",
        "layers of Keras or of keras_bayesdrop; --import MODULE brings your "
        "own, registered by `keras.saving.register_keras_serializable`",
        f"{type(error).__name__}: {_innermost(error)}",
    )


def _innermost(error: Exception) -> str:
    """Returns the original error, which Keras quotes at the end."""
    *_, last = str(error).split("Exception encountered: ")
    return first_line(last)
