# SPDX-License-Identifier: Apache-2.0
"""The command `keras-bayesdrop`: parses its arguments, then runs.

This module lies outside the package, because importing the package imports
TensorFlow, which takes seconds and writes to the terminal. Help and usage
errors come from here, before that. `keras_bayesdrop.cli` runs the commands.

The choices of options are written out here. A test compares them with the
modules that define them.
"""

import argparse
import contextlib
import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NoReturn

PROGRAM = "keras-bayesdrop"
ENGINES = ("auto", "fused", "reference")
MASKS = ("shared", "independent")
METHODS = ("sampling", "moments", "rao_blackwell")
HEADS = ("auto", "regression", "heteroscedastic", "classification", "binary")
_DRAWING = "sampling or rao_blackwell"
_LABELS = "classification or binary"
OUTPUT_SUFFIXES = (".npz", ".csv", ".npy")

_DESCRIPTION = "How sure is a Keras model? Uncertainty by Monte Carlo dropout."
_EPILOG = "exit codes: 0 success, 1 failure, 2 wrong arguments, 130 interrupted"
_STDERR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name.

    Args:
        arguments: The arguments after the name of the program; by default
            those of this process.

    Returns:
        The exit code. Wrong arguments and `--help` raise `SystemExit`.
    """
    options = parse(arguments)
    try:
        with _quiet_import(options.debug):
            from keras_bayesdrop.cli.command import run
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in ("keras", "tensorflow"):
            raise
        sys.stderr.write(
            f"{PROGRAM}: error: A package is missing. Expected Keras and "
            "TensorFlow: `pip install keras tensorflow`. Received: no module "
            f"named {missing!r}\n"
        )
        return 1
    return run(options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments; exits with 2 if they are wrong, 0 after help.

    Returns:
        The options. `command` is the name of the command.
    """
    everywhere = _Parser(add_help=False)
    everywhere.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error, and TensorFlow's log",
    )
    settings: Any = {
        "formatter_class": _Help,
        "parents": [everywhere],
        "allow_abbrev": False,
    }
    parser = _Parser(PROGRAM, None, _DESCRIPTION, _EPILOG, **settings)
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version and exit"
    )
    parsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for name, (text, add_arguments, epilog) in COMMANDS.items():
        sub = parsers.add_parser(
            name, help=text, description=text, epilog=epilog, **settings
        )
        if add_arguments is not None:
            add_arguments(sub)
        sub.set_defaults(parser=sub)
    options = parser.parse_args(arguments)
    options.debug = getattr(options, "debug", False)
    if options.command == "predict":
        _check_predict(options)
    return options


class _Help(argparse.RawDescriptionHelpFormatter):
    """Adds the defaults of choices and numbers to the help."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if isinstance(action.default, (int, float, str)) and (
            action.nargs != 0 and action.default is not argparse.SUPPRESS
        ):
            return f"{action.help}; default: %(default)s"
        return action.help


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Writes the error and how to list the options; exits with 2.

        argparse would write the whole usage first.
        """
        text = " ".join(message.split()).rstrip(".")
        hint = f"`{self.prog} --help` lists the options"
        self.exit(2, f"{PROGRAM}: error: {text}. {hint}\n")


class _Version(argparse.Action):
    """Writes the version of the installed package, without importing it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        version = importlib.metadata.version(PROGRAM)
        sys.stdout.write(f"{PROGRAM} {version}\n")
        parser.exit()


@contextlib.contextmanager
def _quiet_import(debug: bool) -> Iterator[None]:
    """Discards messages that libraries write while they are imported.

    TensorFlow writes some lines straight to the file of the standard error,
    before any setting of its own can stop it. That file is replaced meanwhile.
    Python's own `sys.stderr`, and so a traceback, still reaches it. An
    interrupt ends the process at once: nothing has been written yet.

    Args:
        debug: Whether messages are shown.
    """
    with contextlib.ExitStack() as stack:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            handler = signal.default_int_handler
            stack.callback(signal.signal, signal.SIGINT, handler)
        if "tensorflow" not in sys.modules:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        if sys.stderr is not None and not debug:
            sys.stderr.flush()
            copy = stack.enter_context(os.fdopen(os.dup(_STDERR), "w", 1))
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), _STDERR)
            stack.callback(os.dup2, copy.fileno(), _STDERR)
            stack.enter_context(contextlib.redirect_stderr(copy))
        yield


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


def _add_model(parser: _Parser, nargs: str | None = None) -> None:
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


def _add_explain(parser: _Parser) -> None:
    _add_model(parser)
    _add_sampling(parser, rows=1000)
    _add_execution(parser)


def _add_bench(parser: _Parser) -> None:
    _add_model(parser, nargs="?")
    _add_sampling(parser, rows=256)
    parser.add_argument(
        "--rounds", type=_at_least(1), default=5, help="timed calls of a case"
    )


def _add_sampling(parser: Any, rows: int | None = None) -> None:
    add = parser.add_argument
    if rows is not None:
        add("--rows", type=_at_least(1), default=rows, help="number of rows")
    add("--samples", type=_at_least(2), default=50, help="number of samples")
    add("--masks", choices=MASKS, default="shared", help="between the rows")


def _add_execution(parser: Any) -> None:
    add = parser.add_argument
    text = "bounds the memory; results do not depend on it"
    add("--batch-size", type=_at_least(1), metavar="ROWS", help=text)
    add("--engine", choices=ENGINES, default="auto", help="runs the samples")


def _add_predict(parser: _Parser) -> None:
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
    text, pair = "names, for --head heteroscedastic", ("MEAN", "LOG_VARIANCE")
    add("--noise-outputs", nargs=2, metavar=pair, help=text)
    text = "levels to estimate, such as 0.05 0.95"
    add("--quantiles", type=_LEVEL, nargs="+", metavar="Q", help=text)
    add(
        "--interval",
        type=_INNER_LEVEL,
        default=0.9,
        metavar="LEVEL",
        help="probability from lower to upper in a .csv",
    )
    add("--keep-samples", action="store_true", help="keep them in the .npz")
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


def _check_predict(options: argparse.Namespace) -> None:
    """Ends with a usage error if options do not go together."""
    suffix = os.path.splitext(options.out)[1]
    if suffix not in OUTPUT_SUFFIXES:
        options.parser.error(
            f"argument --out: expected a name that ends in "
            f"{', '.join(OUTPUT_SUFFIXES)}, received {options.out!r}"
        )
    options.keep_samples |= suffix == ".npy"
    for name, is_set, option, expected in (
        ("--quantiles", options.quantiles, "method", "sampling"),
        ("keeping samples", options.keep_samples, "method", "sampling"),
        ("--masks", options.masks != MASKS[0], "method", _DRAWING),
        ("--engine", options.engine != ENGINES[0], "method", _DRAWING),
        ("--from-logits", options.from_logits, "head", _LABELS),
        ("--noise-precision", options.noise_precision, "head", "regression"),
        ("--noise-outputs", options.noise_outputs, "head", HEADS[2]),
    ):
        value = getattr(options, option)
        if is_set and value not in expected.split(" or "):
            options.parser.error(
                f"{name} does not go with --{option} {value}: expected "
                f"--{option} {expected}"
            )
    if len(options.delimiter) != 1:
        options.parser.error(
            "argument --delimiter: expected one character, received "
            f"{options.delimiter!r}"
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
