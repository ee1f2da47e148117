# SPDX-License-Identifier: Apache-2.0
"""Checks output files before the work, and writes each format."""

import functools
import os
import pathlib
import types
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_bayesdrop.cli.prediction_table import write_table
from keras_bayesdrop.cli.problems import problem
from keras_bayesdrop.prediction.sampling.output_files import noise_file
from keras_bayesdrop.predictive import Head
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.select import quantities_of


def check_writable(
    path: pathlib.Path,
    force: bool,
    inputs: Iterable[str] = (),
    option: str = "--out",
) -> None:
    """Raises if a file cannot or must not be written, before any work.

    Args:
        path: The file to write.
        force: Whether an existing file may be replaced.
        inputs: Files that the command reads; they are never replaced.
        option: The option that names the file, for errors.
    """
    # A symbolic link is followed.
    folder = pathlib.Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise problem(
            path,
            "cannot be written",
            "a folder that exists",
            f"no such folder: `{folder}`",
        )
    if path.is_dir():
        raise problem(
            path, "cannot be written", "the name of a file", "a folder"
        )
    if not os.access(folder, os.W_OK):
        raise problem(
            path,
            "cannot be written",
            "a folder that you may write to",
            f"`{folder}`",
        )
    if not path.exists():
        return
    for name in inputs:
        if os.path.exists(name) and os.path.samefile(path, name):
            raise problem(
                path,
                "is read by this command",
                f"another file for {option}",
                f"{option} {path}",
            )
    if not force:
        raise problem(
            path,
            "exists and is not overwritten",
            f"a new name for {option}, or --force",
            f"{option} {path}",
        )


def noise_files(
    files: dict[str, pathlib.Path], heads: dict[str, Head]
) -> dict[str, pathlib.Path]:
    """Returns the files of learned noise beside those of samples, by output.

    Args:
        files: The file of each output.
        heads: The head of each output.
    """
    return {
        name: noise_file(file)
        for name, file in files.items()
        if file.suffix == ".npy"
        and quantities_of(heads[name]).has_learned_noise
    }


def writers_of(
    predictions: dict[str, Predictive],
    files: dict[str, pathlib.Path],
    level: float,
) -> dict[pathlib.Path, Callable[[pathlib.Path], None]]:
    """Returns the functions that write predictions, by file.

    Args:
        predictions: By output.
        files: By output, all with the same suffix.
        level: Probability of the interval in a `.csv` file.
    """
    (suffix,) = {file.suffix for file in files.values()}
    if suffix == ".csv":
        return {
            file: lambda part: write_table(part, predictions, level)
            for file in files.values()
        }
    if suffix == ".npz":
        return {file: predictions[name].save for name, file in files.items()}
    arrays = {files[name]: p.samples for name, p in predictions.items()}
    heads = {name: p.head for name, p in predictions.items()}
    for name, file in noise_files(files, heads).items():
        arrays[file] = predictions[name].noise_samples
    return {
        file: functools.partial(_save_array, array)
        for file, array in arrays.items()
    }


def _save_array(array: Any, path: pathlib.Path) -> None:
    # `np.save` to a file hides why a write failed.
    with path.open("wb") as file:
        opened = types.SimpleNamespace(write=file.write)
        np.save(opened, np.asarray(array), allow_pickle=False)
