# SPDX-License-Identifier: Apache-2.0
"""The file that a prediction is saved in: `.npz`, never pickle."""

import json
import zipfile
import zlib
from typing import Any

import numpy as np

from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.limits import check_npz
from keras_bayesdrop.predictive.stats import EngineStep
from keras_bayesdrop.predictive.stats import Stats

# Written into every file; a reader refuses what it does not know.
FORMAT = 1


# What a damaged or foreign file can raise while it is read (AttributeError:
# a lone array, on Python 3.10).
UNREADABLE = (
    AttributeError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_fields(file: Any, limit: Limit) -> dict[str, Any]:
    """Reads the constructor's arguments from an open `.npz` file.

    Args:
        file: Open at its beginning.
        limit: How much memory its arrays may take.
    """
    check_npz(file, limit)
    with np.load(file, allow_pickle=False) as archive:
        meta = json.loads(archive["meta"].item())
        if meta["format"] != FORMAT:
            raise ValueError(
                f"format {meta['format']}, where this version of "
                f"keras_bayesdrop reads format {FORMAT}"
            )
        arrays = {name: archive[name] for name in meta["arrays"]}
    stats = dict(meta["stats"])
    steps = tuple(EngineStep(**step) for step in stats.pop("engine"))
    return {
        "task": meta["task"],
        "noise_precision": meta["noise_precision"],
        "quantile_levels": meta["quantile_levels"],
        "stats": Stats(engine=steps, **stats),
        **arrays,
    }
