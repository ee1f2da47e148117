# SPDX-License-Identifier: Apache-2.0
"""The arguments of `keras-bayesdrop predict`."""

import argparse
import pathlib

from keras_bayesdrop.cli.arguments import HEADS
from keras_bayesdrop.cli.arguments import MASKS
from keras_bayesdrop.cli.arguments import METHODS
from keras_bayesdrop.cli.arguments import add_engine
from keras_bayesdrop.cli.arguments import add_model
from keras_bayesdrop.cli.arguments import at_least
from keras_bayesdrop.cli.arguments import inner_level
from keras_bayesdrop.cli.arguments import level
from keras_bayesdrop.cli.arguments import positive
from keras_bayesdrop.cli.arguments import whole
from keras_bayesdrop.cli.output_file import SUFFIXES

EPILOG = """\
the suffix of --out says what is written:
  .npz  everything; `keras_bayesdrop.Predictive.load` reads it
  .csv  a line per row: mean, std, interval, quantiles, entropies
  .npy  the samples, [samples, rows, outputs]
A model with several outputs makes one .npz or .npy file for each.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the files, and what `predict_with_uncertainty` takes."""
    add_model(parser)
    parser.add_argument(
        "data",
        metavar="data.npz|.npy|.csv",
        help="rows to predict; a .npz with several arrays: inputs by name",
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="file to write: .npz, .csv or .npy",
    )
    parser.add_argument(
        "--force", action="store_true", help="overwrite --out if it exists"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress bar, no report"
    )
    _add_sampling(parser.add_argument_group("prediction"))
    _add_reading(parser.add_argument_group("data"))


def check_options(options: argparse.Namespace) -> None:
    """Ends with a usage error if options do not go together."""
    suffix = pathlib.Path(options.out).suffix
    if suffix not in SUFFIXES:
        options.parser.error(
            f"argument --out: expected a name that ends in "
            f"{', '.join(SUFFIXES)}, received {options.out!r}"
        )
    if suffix == ".npy":
        options.keep_samples = True
    if options.method != "sampling":
        for name, asked in (
            ("--quantiles", options.quantiles is not None),
            ("--keep-samples, or --out with .npy,", options.keep_samples),
        ):
            if asked:
                options.parser.error(
                    f"{name} needs samples: expected --method sampling, "
                    f"received --method {options.method}"
                )
    if options.method == "moments":
        for name, default in (("masks", "shared"), ("engine", "auto")):
            value = getattr(options, name)
            if value != default:
                options.parser.error(
                    f"--{name} is for samples: expected --method sampling or "
                    f"rao_blackwell, received --method moments --{name} {value}"
                )
    for name, value, expected in (
        ("--from-logits", options.from_logits, ("classification", "binary")),
        ("--noise-precision", options.noise_precision, ("regression",)),
    ):
        if value is not None and options.head not in expected:
            options.parser.error(
                f"{name} says more about a head: expected --head "
                f"{' or '.join(expected)}, received --head {options.head}"
            )
    if len(options.delimiter) != 1:
        options.parser.error(
            "argument --delimiter: expected one character, received "
            f"{options.delimiter!r}"
        )


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--samples", type=at_least(2), default=50, help="default: 50"
    )
    group.add_argument(
        "--seed",
        type=whole,
        default=0,
        help="default: 0; the same seed gives the same numbers",
    )
    group.add_argument(
        "--batch-size",
        type=at_least(1),
        metavar="ROWS",
        help="bounds the memory; results do not depend on it",
    )
    group.add_argument(
        "--masks", choices=MASKS, default="shared", help="default: shared"
    )
    group.add_argument(
        "--method",
        choices=METHODS,
        default="sampling",
        help="default: sampling",
    )
    add_engine(group)
    group.add_argument(
        "--head",
        choices=HEADS,
        default="auto",
        help="what the outputs are; default: auto, as the model shows it",
    )
    group.add_argument(
        "--from-logits",
        action="store_true",
        default=None,
        help="outputs lack their softmax or sigmoid, for --head classification "
        "or binary; default: as the compiled loss says",
    )
    group.add_argument(
        "--noise-precision",
        type=positive,
        metavar="TAU",
        help="of the observation noise, for --head regression: adds 1 / TAU to "
        "the variance",
    )
    group.add_argument(
        "--quantiles",
        type=level,
        nargs="+",
        metavar="Q",
        help="levels to estimate, such as 0.05 0.95",
    )
    group.add_argument(
        "--interval",
        type=inner_level,
        default=0.9,
        metavar="LEVEL",
        help="of lower and upper in a .csv; default: 0.9",
    )
    group.add_argument(
        "--keep-samples", action="store_true", help="keep them in the .npz"
    )
    group.add_argument(
        "--allow-hidden-noise",
        action="store_true",
        help="warn of noise that cannot be sampled, and leave it out of the "
        "uncertainty; by default it is an error",
    )


def _add_reading(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--array", metavar="NAME", help="array of a .npz to predict from"
    )
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of a .csv holds names; default: it does "
        "if it is not all numbers",
    )
    group.add_argument(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="of a .csv, by name or by number from 1, in this order",
    )
    group.add_argument(
        "--delimiter", default=",", help="of a .csv; default: a comma"
    )
