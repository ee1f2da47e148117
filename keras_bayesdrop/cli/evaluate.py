# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop evaluate`: compares predictions with labels in a file."""

import argparse
import contextlib
import dataclasses
import pathlib
import sys
from typing import Any

from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.data_file import Data
from keras_bayesdrop.cli.data_file import read_data
from keras_bayesdrop.cli.fit_inputs import fit_inputs
from keras_bayesdrop.cli.model_file import check_model_file
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.cli.output_file import check_writable
from keras_bayesdrop.cli.predict import head_of
from keras_bayesdrop.cli.predict import heads_by_name
from keras_bayesdrop.cli.predict import method_of
from keras_bayesdrop.cli.problems import problem
from keras_bayesdrop.diagnostics.evaluation import evaluate_with_uncertainty
from keras_bayesdrop.plots._style import pyplot
from keras_bayesdrop.prediction.sampling.output_files import by_name
from keras_bayesdrop.prediction.sampling.output_files import files_of

# Array of a `.npz` that holds the labels of a model with one output.
_LABELS = "y"


def run(options: argparse.Namespace) -> None:
    """Reads the model, the data and the labels; evaluates and reports."""
    read = [options.model, options.data]
    read += [options.labels] if options.labels is not None else []
    html = None if options.html is None else pathlib.Path(options.html)
    if html is not None:
        pyplot()  # Without matplotlib there is no report.
        check_writable(html, options.force, read, "--html")
    check_model_file(pathlib.Path(options.model), options.max_bytes)
    data, labels = _read(options)
    model = load_model(options.model, options.imports, options.max_bytes)
    names = list(getattr(model, "output_names", None) or ())
    if labels is None:
        data, labels = _split(data, names)
    x = fit_inputs(model, data, options.array)
    files = {}
    if html is not None:
        heads = heads_by_name(model, x, head_of(options))
        files = files_of(html, list(heads))
        for file in files.values():
            check_writable(file, options.force, read, "--html")
    evaluations = by_name(model, _evaluate(model, x, labels, options))
    for name, file in files.items():
        # Another process may have written it meanwhile.
        check_writable(file, options.force, option="--html")
        what = pathlib.Path(options.model).name
        if len(files) > 1:
            what = f"output {name} of {what}"
        evaluations[name].to_html(file, f"Can {what} be trusted?")
    if not options.quiet:
        sys.stdout.write(_report(evaluations))


def _evaluate(
    model: Any, x: Any, labels: Any, options: argparse.Namespace
) -> Any:
    # The progress bar is for a terminal; standard output is for results.
    bar = not options.quiet and sys.stderr.isatty()
    with contextlib.redirect_stdout(sys.stderr):
        return evaluate_with_uncertainty(
            model,
            x,
            labels,
            options.samples,
            level=options.interval,
            num_resamples=options.resamples,
            batch_size=options.batch_size,
            seed=options.seed,
            method=method_of(options),
            head=head_of(options),
            allow_hidden_noise=options.allow_hidden_noise,
            verbose=int(bar),
        )


def _read(options: argparse.Namespace) -> tuple[Data, Any]:
    """Returns the data, and the labels if they have a place of their own."""
    columns = options.columns and tuple(options.columns)
    table = CsvOptions(options.header, columns, options.delimiter)
    data = read_data(options.data, table, options.max_bytes)
    if options.labels is not None:
        table = dataclasses.replace(table, columns=None)
        labels = read_data(options.labels, table, options.max_bytes)
        return data, _arrays(labels.arrays)
    if options.label_columns is not None:
        if not data.is_table:
            raise problem(
                data.path,
                "has no columns",
                "a `.csv` file for --label-columns",
                f"the suffix {data.path.suffix!r}",
            )
        chosen = tuple(options.label_columns)
        table = dataclasses.replace(table, columns=chosen)
        labels = read_data(options.data, table, options.max_bytes)
        return data, _arrays(labels.arrays)
    return data, None


def _split(data: Data, names: list[str]) -> tuple[Data, Any]:
    """Takes the labels out of the arrays of a file."""
    arrays = dict(data.arrays)
    wanted = [name for name in names if name in arrays]
    if _LABELS in arrays:
        wanted = [_LABELS]
    if not wanted:
        listed = ", ".join(f"`{name}`" for name in arrays if name)
        raise problem(
            data.path,
            "has no labels",
            "--labels FILE, --label-columns of a `.csv`, or a `.npz` with "
            f"the array `{_LABELS}`",
            listed or "an array without name",
        )
    labels = {name: arrays.pop(name) for name in wanted}
    if not arrays:
        raise problem(
            data.path, "has no inputs", "arrays of inputs", "labels alone"
        )
    return dataclasses.replace(data, arrays=arrays), _arrays(labels)


def _arrays(arrays: dict[str, Any]) -> Any:
    """Returns the only array, or all by name."""
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _report(evaluations: dict[str, Any]) -> str:
    several = len(evaluations) > 1
    return "\n".join(
        f"{name}\n\n{each}\n" if several else f"{each}\n"
        for name, each in evaluations.items()
    )
