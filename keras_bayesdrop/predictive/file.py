# SPDX-License-Identifier: Apache-2.0
"""The file that a prediction is saved in: `.npz`, never pickle.

Format 2 holds the head as an object. Format 1 has its task and the precision of
its noise; it is read, and no longer written.
"""

import dataclasses
import json
import os
import zipfile
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_bayesdrop._core.files import replacing_file
from keras_bayesdrop._core.limits import Limit
from keras_bayesdrop._core.limits import check_npz
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.stats import ChainWork
from keras_bayesdrop.predictive.stats import EngineStep
from keras_bayesdrop.predictive.stats import Stats

if TYPE_CHECKING:
    from keras_bayesdrop.predictive.result import Predictive

# Written into every file; a reader refuses what it does not know.
FORMAT = 2
_READABLE = (1, 2)

# Errors of a damaged or foreign file while it is read (AttributeError: a lone
# array, on Python 3.10).
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


def write(
    p: "Predictive", names: Iterable[str], path: str | os.PathLike[str]
) -> None:
    """Writes a prediction, whole or not at all.

    Args:
        p: The prediction.
        names: Names of its arrays; those that are `None` are left out.
        path: File to write; one that exists is replaced.
    """
    arrays = {
        name: getattr(p, name) for name in names if getattr(p, name) is not None
    }
    meta = {
        "format": FORMAT,
        "head": heads.serialize(p.head),
        "quantile_levels": p.quantile_levels,
        "stats": dataclasses.asdict(p.stats),
        "arrays": list(arrays),
    }
    # An open file, because np.savez would add a suffix to a name.
    with replacing_file(path) as part, part.open("wb") as file:
        np.savez(file, meta=np.array(json.dumps(meta)), **arrays)


def read_fields(file: Any, limit: Limit) -> dict[str, Any]:
    """Reads the constructor's arguments from an open `.npz` file.

    Args:
        file: Open at its beginning.
        limit: Limit of the memory that its arrays may take.
    """
    check_npz(file, limit)
    with np.load(file, allow_pickle=False) as archive:
        meta = json.loads(archive["meta"].item())
        if meta["format"] not in _READABLE:
            raise ValueError(
                f"format {meta['format']}, where this version of "
                f"keras_bayesdrop reads formats {_READABLE}"
            )
        arrays = {name: archive[name] for name in meta["arrays"]}
    stats = dict(meta["stats"])
    steps = tuple(EngineStep(**step) for step in stats.pop("engine"))
    chains = tuple(ChainWork(**each) for each in stats.pop("chains", ()))
    return {
        "head": _read_head(meta),
        "quantile_levels": meta["quantile_levels"],
        "stats": Stats(engine=steps, chains=chains, **stats),
        **arrays,
    }


def _read_head(meta: dict[str, Any]) -> Head:
    if meta["format"] == 1:
        tau = meta["noise_precision"]
        if tau is not None:
            return Regression(noise_precision=tau)
        name: Head = heads.get(meta["task"])
        return name
    head: Head = heads.get(dict(meta["head"]))
    return head
