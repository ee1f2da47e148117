# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop explain`: how a prediction would run."""

import argparse
import math
import sys
from typing import Any

from keras_bayesdrop.cli.arguments import MASKS
from keras_bayesdrop.cli.arguments import add_engine
from keras_bayesdrop.cli.arguments import add_model
from keras_bayesdrop.cli.arguments import at_least
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.cli.subcommand import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model and the size of the prediction."""
    add_model(parser)
    parser.add_argument(
        "--rows", type=at_least(1), default=1000, help="default: 1000"
    )
    parser.add_argument(
        "--samples", type=at_least(2), default=50, help="default: 50"
    )
    parser.add_argument("--batch-size", type=at_least(1), metavar="ROWS")
    parser.add_argument(
        "--masks", choices=MASKS, default="shared", help="default: shared"
    )
    add_engine(parser)


def run(options: argparse.Namespace) -> None:
    """Prints the plan, and the work that so many rows and samples make."""
    model = load_model(options.model, options.imports, options.max_bytes)
    from keras_bayesdrop.diagnostics.explanation import explain

    explain(model, engine=options.engine)
    work = _work(model, options)
    sys.stdout.write(
        f"\n{options.rows} rows, {options.samples} samples: {work}\n"
    )


def _work(model: Any, options: argparse.Namespace) -> str:
    from keras_bayesdrop.engines import choose_engine
    from keras_bayesdrop.plan import build_plan
    from keras_bayesdrop.prediction.sampling.geometry import choose_geometry
    from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch

    plan = build_plan(model, None)
    engine, _ = choose_engine(plan, options.engine)
    most = rows_per_batch(plan, options.batch_size)
    full, rest = divmod(options.rows, most)
    steps = 0
    largest = ""
    for count, rows in ((1, rest), (full, most)):
        if not count or not rows:
            continue
        geometry = choose_geometry(
            plan,
            engine.steps(plan),
            options.batch_size,
            rows,
            options.samples,
            options.masks == "shared",
        )
        tiles = math.ceil(rows / geometry.tile_rows)
        steps += count * tiles * math.ceil(options.samples / geometry.samples)
        samples = min(geometry.samples, options.samples)
        largest = f"{geometry.tile_rows} rows by {samples} samples"
    batches = full + bool(rest)
    return f"{batches} batch(es), {steps} step(s) of at most {largest}"


COMMAND = Subcommand(
    name="explain",
    help="Show what runs once, what runs per sample, in which engine and why.",
    add_arguments=add_arguments,
    run=run,
)
