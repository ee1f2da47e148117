# SPDX-License-Identifier: Apache-2.0
"""The commands that print a report: `inspect`, `explain` and `info`."""

import argparse
import math
import sys
from typing import Any

from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.diagnostics import explanation
from keras_bayesdrop.diagnostics import information
from keras_bayesdrop.diagnostics import inspection
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction.sampling.geometry import choose_geometry
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch


def run_inspect(options: argparse.Namespace) -> None:
    """Prints the noise of a model."""
    model = load_model(options.model, options.imports, options.max_bytes)
    sys.stdout.write(f"{inspection.inspect(model)}\n")


def run_explain(options: argparse.Namespace) -> None:
    """Prints the plan, and the work for that many rows and samples."""
    model = load_model(options.model, options.imports, options.max_bytes)
    plan = explanation.explain(
        model,
        engine=options.engine,
        num_rows=options.rows,
        num_samples=options.samples,
    )
    sys.stdout.write(
        f"{plan}\n\n{options.rows} rows, {options.samples} samples: "
        f"{_work(model, options)}\n"
    )


def run_info(options: argparse.Namespace) -> None:
    """Prints what is installed, and which engine runs."""
    sys.stdout.write(f"{information.info()}\n")


def _work(model: Any, options: argparse.Namespace) -> str:
    plan = build_plan(model, None)
    shared = options.masks == "shared"
    engine, _ = choose_engine(plan, options.engine, shared)
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
            shared,
        )
        tiles = math.ceil(rows / geometry.tile_rows)
        steps += count * tiles * math.ceil(options.samples / geometry.samples)
        samples = min(geometry.samples, options.samples)
        largest = f"{geometry.tile_rows} rows by {samples} samples"
    batches = full + bool(rest)
    return f"{batches} batch(es), {steps} step(s) of at most {largest}"
