# SPDX-License-Identifier: Apache-2.0
"""The file of golden arrays, and the machine that made it."""

import functools
import json
import math
import os
import pathlib
import platform
from typing import Any

import numpy as np

import keras_bayesdrop as kbd
from tests.golden_predictions import cases

FILE = pathlib.Path(__file__).with_name("arrays.npz")
# What only the fused engine depends on.
LIBRARY = ("library", "library_compiler", "library_instructions")


@functools.cache
def machine() -> dict[str, Any]:
    """Returns what the last bits of a result may depend on."""
    info = kbd.info()
    cpu = _cpu()
    flags = cpu.get("flags", "").split()
    return {
        "cpu": cpu.get("model name", platform.machine()),
        "avx2": "avx2" in flags,
        "avx512f": "avx512f" in flags,
        "cpus": os.cpu_count(),
        "gpus": list(info.gpus),
        "tensorflow": info.tensorflow,
        "keras": info.keras,
        "numpy": info.numpy,
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
        "library": bool(info.library),
        "library_compiler": info.compiler,
        "library_instructions": info.instruction_set,
    }


def is_machine_of(found: dict[str, Any], engine: str | None) -> bool:
    """Whether this machine gives the bits that another gave.

    Args:
        found: What `machine` returned there.
        engine: The engine that runs.
    """
    here = machine()
    ignored = () if engine == "fused" else LIBRARY
    return all(
        found.get(key) == here[key] for key in here if key not in ignored
    )


def compute() -> dict[str, Any]:
    """Runs all cases, and returns the arrays under their paths."""
    arrays = {}
    for name, engine in cases.CALLS:
        for rest, array in cases.arrays_of(name, engine).items():
            arrays[path_of(name, engine, rest)] = array
    for name in cases.MASK_CASES:
        # Masks do not depend on the engine, so there is one array for both.
        for output, mask in cases.masks_of(name, "reference").items():
            arrays[f"masks/{name}/{output}"] = mask
    for name, make in cases.WORDS.items():
        arrays[f"words/{name}"] = make()
    return arrays


def path_of(name: str, engine: str | None, rest: str) -> str:
    """Returns the path of an array of a case."""
    return f"predictions/{name}/{engine or 'closed_form'}/{rest}"


def write(arrays: dict[str, Any], path: pathlib.Path = FILE) -> None:
    """Writes the arrays, and the machine.

    Arrays of a type are joined, for a file of its own in the archive would be
    larger than what most arrays hold. The head tells them apart.
    """
    head = {
        "machine": machine(),
        "arrays": {
            name: [array.dtype.name, array.shape]
            for name, array in arrays.items()
        },
    }
    joined = {
        dtype: np.concatenate(
            [a.ravel() for a in arrays.values() if a.dtype.name == dtype]
        )
        for dtype in sorted({a.dtype.name for a in arrays.values()})
    }
    text = np.frombuffer(json.dumps(head).encode(), np.uint8)
    np.savez_compressed(path, head=text, **joined)


def read(path: pathlib.Path = FILE) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arrays, and the machine that made them."""
    with np.load(path, allow_pickle=False) as file:
        joined = {name: file[name] for name in file.files}
    head = json.loads(joined.pop("head").tobytes())
    arrays = {}
    begin = dict.fromkeys(joined, 0)
    for name, (dtype, shape) in head["arrays"].items():
        end = begin[dtype] + math.prod(shape)
        arrays[name] = joined[dtype][begin[dtype] : end].reshape(shape)
        begin[dtype] = end
    return arrays, head["machine"]


def _cpu() -> dict[str, str]:
    """Returns what Linux says of the first processor; else nothing."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    first: dict[str, str] = {}
    for key, _, value in pairs:
        first.setdefault(key.strip(), value.strip())
    return first
