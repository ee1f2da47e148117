# SPDX-License-Identifier: Apache-2.0
"""The commands of `keras-bayesdrop`, and the options of each.

This module lies outside the package, as `keras_bayesdrop_command` does. The
choices of options are written out here. A test compares them with the modules
that define them.
"""

import argparse
import math
import os
from collections.abc import Callable
from typing import Any
from typing import NoReturn

PROGRAM = "keras-bayesdrop"
# The first of each is the default.
ENGINES = ("auto", "fused", "reference")
MASKS = ("shared", "independent")
DRAWS = ("balanced", "independent")
METHODS = ("sampling", "moments", "rao_blackwell")
HEADS = (
    "auto",
    "regression",
    "heteroscedastic",
    "classification",
    "noisy_logits",
    "binary",
)
_DRAWING = "sampling or rao_blackwell"
_LABELS = "classification or binary"
_NOISY = "heteroscedastic or noisy_logits"
OUTPUT_SUFFIXES = (".npz", ".csv", ".npy")


class Help(argparse.RawDescriptionHelpFormatter):
    """Adds the defaults of choices and numbers to the help."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if isinstance(action.default, (int, float, str)) and (
            action.nargs != 0 and action.default is not argparse.SUPPRESS
        ):
            return f"{action.help}; default: %(default)s"
        return action.help


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Writes the error and how to list the options; exits with 2.

        argparse would write the whole usage first.
        """
        text = " ".join(message.split()).rstrip(".")
        hint = f"`{self.prog} --help` lists the options"
        self.exit(2, f"{PROGRAM}: error: {text}. {hint}\n")


_Group = Parser | argparse._ArgumentGroup


def _number(
    convert: Callable[[str], Any], accept: Callable[[Any], bool], expected: str
) -> Callable[[str], Any]:
    """Returns the type of an argument that is a number within bounds."""

    def checked(text: str) -> Any:
        try:
            value = convert(text)
        except (OverflowError, ValueError):
            value = None
        # Comparisons with NaN are false, so NaN is refused too.
        if value is None or not accept(value):
            raise argparse.ArgumentTypeError(
                f"expected {expected}, received {text!r}"
            )
        return value

    return checked


def _at_least(least: int) -> Callable[[str], Any]:
    return _number(int, lambda n: n >= least, f"an integer of at least {least}")


_INTEGER = _number(int, lambda n: True, "an integer")
_POSITIVE = _number(float, lambda x: 0 < x < math.inf, "a positive number")
_LEVEL = _number(float, lambda x: 0 <= x <= 1, "a number from 0 to 1")
_INNER_LEVEL = _number(float, lambda x: 0 < x < 1, "a number between 0 and 1")
_BYTES = _number(
    lambda text: int(float(text)),
    lambda n: n >= 1,
    "a number of bytes such as 2e9",
)


def _add_model(parser: Parser, nargs: str | None = None) -> None:
    add = parser.add_argument
    add(
        "model",
        metavar="model.keras",
        nargs=nargs,
        help="a model that `model.save` wrote; loaded in Keras' safe mode",
    )
    add(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="Python module with your own layers, imported before loading; "
        "looked for in the current folder too",
    )
    add(
        "--max-bytes",
        type=_BYTES,
        metavar="BYTES",
        help="refuse files that would take more memory than this, such as "
        "8e9; default: half of the memory that is available, and no more than "
        "1 GiB or 100 times the size of the file",
    )


def _add_explain(parser: Parser) -> None:
    _add_model(parser)
    _add_sampling(parser, rows=1000)
    _add_execution(parser)


def _add_bench(parser: Parser) -> None:
    _add_model(parser, nargs="?")
    _add_sampling(parser, rows=256)
    parser.add_argument(
        "--rounds", type=_at_least(1), default=5, help="timed calls of a case"
    )


def _add_sampling(parser: _Group, rows: int | None = None) -> None:
    add = parser.add_argument
    if rows is not None:
        add("--rows", type=_at_least(1), default=rows, help="number of rows")
    add("--samples", type=_at_least(2), default=50, help="number of samples")
    add("--masks", choices=MASKS, default=MASKS[0], help="between the rows")
    add("--draws", choices=DRAWS, default=DRAWS[0], help="between the samples")


def _add_execution(parser: _Group) -> None:
    add = parser.add_argument
    text = "bounds the memory; results do not depend on it"
    add("--batch-size", type=_at_least(1), metavar="ROWS", help=text)
    add("--engine", choices=ENGINES, default="auto", help="runs the samples")


def _add_predict(parser: Parser) -> None:
    _add_model(parser)
    add = parser.add_argument
    add(
        "data",
        metavar="data.npz|.npy|.csv",
        help="rows to predict; a .npz with several arrays: inputs by name",
    )
    add("--out", required=True, metavar="FILE", help="file to write")
    add("--force", action="store_true", help="overwrite --out if it exists")
    add("--quiet", action="store_true", help="no progress bar, no report")
    group = parser.add_argument_group("prediction")
    _add_prediction(group)
    text = "levels to estimate, such as 0.05 0.95"
    group.add_argument(
        "--quantiles", type=_LEVEL, nargs="+", metavar="Q", help=text
    )
    text = "keep them in the .npz"
    group.add_argument("--keep-samples", action="store_true", help=text)
    _add_reading(parser.add_argument_group("data"))


def _add_evaluate(parser: Parser) -> None:
    _add_model(parser)
    add = parser.add_argument
    add(
        "data",
        metavar="data.npz|.npy|.csv",
        help="rows to predict; a .npz may have their labels too",
    )
    add(
        "--labels",
        metavar="FILE",
        help="a .npz, .npy or .csv file with the labels; of several outputs "
        "a .npz with arrays by their names",
    )
    text = "of a data.csv that hold the labels; needs --columns"
    add("--label-columns", nargs="+", metavar="COLUMN", help=text)
    add("--html", metavar="FILE", help="write the report with pictures too")
    add("--force", action="store_true", help="overwrite --html if it exists")
    add("--quiet", action="store_true", help="no progress bar, no report")
    text = "of the rows, for the intervals of metrics; 0 for none"
    add("--resamples", type=_at_least(0), default=1000, help=text)
    _add_prediction(parser.add_argument_group("prediction"))
    _add_reading(parser.add_argument_group("data"))


def _add_prediction(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    _add_sampling(group)
    text = "the same seed gives the same numbers"
    add("--seed", type=_INTEGER, default=0, help=text)
    _add_execution(group)
    add("--method", choices=METHODS, default="sampling", help="of prediction")
    text = "meaning of the outputs; `auto` reads it off the model"
    add("--head", choices=HEADS, default="auto", help=text)
    add(
        "--from-logits",
        action="store_true",
        default=None,
        help="outputs lack their softmax or sigmoid, for --head classification "
        "or binary; default: read off the compiled loss",
    )
    add(
        "--noise-precision",
        type=_POSITIVE,
        metavar="TAU",
        help="precision of the noise, for --head regression",
    )
    text, pair = f"names, for --head {_NOISY}", ("MEAN", "LOG_VARIANCE")
    add("--noise-outputs", nargs=2, metavar=pair, help=text)
    add(
        "--interval",
        type=_INNER_LEVEL,
        default=0.9,
        metavar="LEVEL",
        help="probability of the interval of a prediction",
    )
    add(
        "--allow-hidden-noise",
        action="store_true",
        help="warn of noise that cannot be sampled, and leave it out of the "
        "uncertainty; by default it is an error",
    )


def _add_reading(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--array", metavar="NAME", help="array of a .npz to predict from")
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of a .csv holds names; default: it does "
        "if it is not all numbers",
    )
    text = "of a .csv, by name or by number from 1, in this order"
    add("--columns", nargs="+", metavar="COLUMN", help=text)
    add("--delimiter", default=",", help="between the cells of a .csv")


def check_predict(options: argparse.Namespace) -> None:
    """Ends with a usage error if options of `predict` do not go together."""
    suffix = os.path.splitext(options.out)[1]
    if suffix not in OUTPUT_SUFFIXES:
        options.parser.error(
            f"argument --out: expected a name that ends in "
            f"{', '.join(OUTPUT_SUFFIXES)}, received {options.out!r}"
        )
    options.keep_samples |= suffix == ".npy"
    _check_together(
        options,
        ("--quantiles", options.quantiles, "method", "sampling"),
        ("keeping samples", options.keep_samples, "method", "sampling"),
    )
    _check_prediction(options)


def check_evaluate(options: argparse.Namespace) -> None:
    """Ends with a usage error if options of `evaluate` are wrong together."""
    if options.html is not None and not options.html.endswith(".html"):
        options.parser.error(
            "argument --html: expected a name that ends in .html, received "
            f"{options.html!r}"
        )
    if options.labels is not None and options.label_columns is not None:
        options.parser.error("expected --labels or --label-columns, not both")
    if options.label_columns is not None and options.columns is None:
        options.parser.error(
            "--label-columns needs --columns, the columns of the inputs"
        )
    _check_prediction(options)


def _check_prediction(options: argparse.Namespace) -> None:
    _check_together(
        options,
        ("--masks", options.masks != MASKS[0], "method", _DRAWING),
        ("--draws", options.draws != DRAWS[0], "method", _DRAWING),
        ("--engine", options.engine != ENGINES[0], "method", _DRAWING),
        ("--from-logits", options.from_logits, "head", _LABELS),
        ("--noise-precision", options.noise_precision, "head", "regression"),
        ("--noise-outputs", options.noise_outputs, "head", _NOISY),
    )
    if len(options.delimiter) != 1:
        options.parser.error(
            "argument --delimiter: expected one character, received "
            f"{options.delimiter!r}"
        )


def _check_together(
    options: argparse.Namespace, *cases: tuple[str, Any, str, str]
) -> None:
    for name, is_set, option, expected in cases:
        value = getattr(options, option)
        if is_set and value not in expected.split(" or "):
            options.parser.error(
                f"{name} does not go with --{option} {value}: expected "
                f"--{option} {expected}"
            )


# By name: the help, the function that adds the arguments, the end of the help.
COMMANDS: dict[str, tuple[str, Callable[..., None] | None, str]] = {
    "predict": (
        "Predict with uncertainty, from a file to a file.",
        _add_predict,
        """\
the suffix of --out chooses the format:
  .npz  everything; `keras_bayesdrop.Predictive.load` reads it
  .csv  a line per row: mean, std, interval, quantiles, entropies
  .npy  the samples, [samples, rows, outputs], and any learned noise
A model with several outputs makes one .npz or .npy file for each.
""",
    ),
    "evaluate": (
        "Compare predictions with labels: metrics, pictures, a verdict.",
        _add_evaluate,
        """\
labels come from --labels, from --label-columns of a data.csv, or from the array
`y` of a data.npz (for several outputs: arrays named like the outputs).
A model with several outputs makes one --html file for each.
""",
    ),
    "inspect": (
        "List the noise of a model, and noise that could not be reached.",
        _add_model,
        "",
    ),
    "explain": (
        "Show what runs once, what runs per sample, in which engine and why.",
        _add_explain,
        "",
    ),
    "info": (
        "Print versions, the op library, the machine, and the engine in use.",
        None,
        "",
    ),
    "bench": (
        "Time prediction in each engine against as many plain passes.",
        _add_bench,
        "Without a model: 784-512-512-10 with dropout of 0.5. The inputs are "
        "random.",
    ),
}
