# SPDX-License-Identifier: Apache-2.0
"""Imports and runs the benchmarks for their tests, and makes a UCI set."""

import importlib
import os
import pathlib
import subprocess
import sys

import numpy as np

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "results"


def script(name):
    """Imports one of the benchmarks."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


def run(name, *arguments):
    """Runs a benchmark, which must write no results; returns what it prints."""
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    assert before == after
    return done.stdout


def regression(rows, seed=0, features=3):
    """Returns inputs [rows, features] and targets [rows, 1]."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features)).astype(np.float32)
    y = np.sin(x.sum(1, keepdims=True)).astype(np.float32)
    return x, y


def save_uci_set(path):
    """Makes a folder with a set in the published format, of 60 rows, 3 splits.

    Args:
        path: The folder, which must not be there yet.

    Returns:
        The folder.
    """
    x, y = regression(60)
    arrays = {
        "x": x.astype(np.float64) * 3 + 1,
        "y": y[:, 0].astype(np.float64) * 2 + 5,
        "n_splits": np.array(3),
        "n_hidden": np.array(5),
        "n_epochs": np.array(4),
        "dropout_rates": np.array([0.05, 0.2]),
        "tau_values": np.array([0.5, 2.0]),
    }
    for split in range(3):
        order = np.random.default_rng(split).permutation(60).astype(np.int32)
        arrays[f"train_{split}"], arrays[f"test_{split}"] = np.split(
            order, [54]
        )
    path.mkdir()
    np.savez(path / "yacht.npz", **arrays)
    return path
