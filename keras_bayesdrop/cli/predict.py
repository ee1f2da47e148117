# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop predict`: predicts from a file to a file."""

import argparse
import contextlib
import pathlib
import sys
from typing import Any

from keras_bayesdrop._core.files import write_files
from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.data_file import read_data
from keras_bayesdrop.cli.fit_inputs import fit_inputs
from keras_bayesdrop.cli.model_file import check_model_file
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.cli.output_file import check_writable
from keras_bayesdrop.cli.output_file import noise_files
from keras_bayesdrop.cli.output_file import writers_of
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.api import predict_with_uncertainty
from keras_bayesdrop.prediction.reading import readings_of
from keras_bayesdrop.prediction.sampling.output_files import by_name
from keras_bayesdrop.prediction.sampling.output_files import files_of


def run(options: argparse.Namespace) -> None:
    """Reads the model and the data, predicts, writes, and reports."""
    out = pathlib.Path(options.out)
    read = (options.model, options.data)
    check_writable(out, options.force, read)
    check_model_file(pathlib.Path(options.model), options.max_bytes)
    columns = options.columns and tuple(options.columns)
    data = read_data(
        options.data,
        CsvOptions(options.header, columns, options.delimiter),
        options.max_bytes,
    )
    model = load_model(options.model, options.imports, options.max_bytes)
    x = fit_inputs(model, data, options.array)
    heads = heads_by_name(model, x, head_of(options))
    files = files_of(out, list(heads))
    written = {*files.values(), *noise_files(files, heads).values()}
    for file in written:
        check_writable(file, options.force, read)
    predictions = by_name(model, _predict(model, x, options))

    def check() -> None:
        for file in written:
            # Another process may have written it meanwhile.
            check_writable(file, options.force)

    write_files(writers_of(predictions, files, options.interval), check)
    if not options.quiet:
        sys.stdout.write(_report(predictions, sorted(written)))


def _predict(model: Any, x: Any, options: argparse.Namespace) -> Any:
    # The progress bar is for a terminal; standard output is for results.
    bar = not options.quiet and sys.stderr.isatty()
    with contextlib.redirect_stdout(sys.stderr):
        return predict_with_uncertainty(
            model,
            x,
            options.samples,
            batch_size=options.batch_size,
            seed=options.seed,
            method=method_of(options),
            head=head_of(options),
            quantiles=options.quantiles,
            return_samples=options.keep_samples,
            allow_hidden_noise=options.allow_hidden_noise,
            verbose=int(bar),
        )


def method_of(options: argparse.Namespace) -> Any:
    """Returns the method that the options stand for."""
    from keras_bayesdrop.prediction.methods import Moments
    from keras_bayesdrop.prediction.methods import RaoBlackwell
    from keras_bayesdrop.prediction.methods import Sampling

    if options.method == "moments":
        return Moments()
    kind = Sampling if options.method == "sampling" else RaoBlackwell
    return kind(masks=options.masks, draws=options.draws, engine=options.engine)


def head_of(options: argparse.Namespace) -> Any:
    """Returns the head that the options stand for."""
    from keras_bayesdrop.predictive import heads

    if options.head == "auto":
        return "auto"
    arguments = {
        name: getattr(options, name)
        for name in ("from_logits", "noise_precision")
        if getattr(options, name) is not None
    }
    kind = heads.HEADS[options.head]
    if options.noise_outputs is not None and issubclass(
        kind, heads.LearnedNoise
    ):
        names = (kind.location, "log_variance")
        arguments |= dict(zip(names, options.noise_outputs, strict=True))
    return kind(**arguments)


def heads_by_name(model: Any, x: Any, head: Any) -> dict[str, Any]:
    """Returns the head of each result, by the name of its output."""
    input_data.count_rows(x)
    input_data.check_shapes(model, x)
    plan = build_plan(model, None, input_data.specs_of(x))
    readings = readings_of(model, plan, head)
    names = by_name(model, readings.pack(range(len(readings.each))))
    return {name: readings.heads[number] for name, number in names.items()}


def _report(predictions: dict[str, Any], files: list[pathlib.Path]) -> str:
    stats = next(iter(predictions.values())).stats
    how = (
        f"{stats.num_samples} samples, seed {stats.seed}"
        if stats.num_samples
        else f"by {stats.method}"
    )
    lines = [
        f"{', '.join(map(str, files))}: {stats.num_rows} row(s), {how}, "
        f"{stats.seconds:.2f} s"
    ]
    for name, predictive in predictions.items():
        spread = predictive.std.reshape(len(predictive), -1).mean(axis=1)
        lines.append(
            f"{name}: {predictive.task}, shape {predictive.mean.shape}, mean "
            f"std {spread.mean():.4g}, largest in row {spread.argmax()}"
        )
    return "\n".join(lines) + "\n"
