# SPDX-License-Identifier: Apache-2.0
"""Saves predictions to files, and loads them."""

import os
from typing import TYPE_CHECKING
from typing import Any
from typing import cast

from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import TooLargeError
from keras_bayesdrop.predictive import file as files
from keras_bayesdrop.predictive.rows import ROW_AXES

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive


class Saved:
    """The file of a `Predictive`, which holds the fields."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one `.npz` file, without pickle.

        The file is written beside its target, synced to the disk, and
        renamed. After a crash, a kill or a full disk (`errors.WriteError`)
        the old file is unchanged.

        Args:
            path: File to write; one that exists is replaced.
        """
        files.write(cast("Predictive", self), ROW_AXES, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], max_bytes: int | None = None
    ) -> "Predictive":
        """Reads a file that `save` wrote. Never unpickles.

        Args:
            path: File to read.
            max_bytes: Limit of the memory for the arrays. A file that claims
                more is refused before memory is taken. By default half of the
                available memory, and no more than 1 GiB or 100 times the size
                of the file, whichever is larger.

        Example:
        ```python
        keras_bayesdrop.predict_with_uncertainty(model, x).save("p.npz")
        p = keras_bayesdrop.Predictive.load("p.npz", max_bytes=8 * 10**9)
        ```
        """
        if max_bytes is not None:
            check_positive_int(max_bytes, "max_bytes")
        with open(path, "rb") as file:
            limit = Limit(path, max_bytes, "max_bytes")
            try:
                make: Any = cls
                whole: Predictive = make(**files.read_fields(file, limit))
                return whole
            except TooLargeError:
                raise
            except files.UNREADABLE as error:
                raise BayesdropError(
                    f"Cannot read a prediction from `{os.fspath(path)}`. "
                    "Expected a whole file written by `Predictive.save`. "
                    f"Received: {type(error).__name__}: {error}"
                ) from error
