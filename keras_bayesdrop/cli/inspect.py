# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop inspect`: what of a model is stochastic."""

import argparse

from keras_bayesdrop.cli.arguments import add_model
from keras_bayesdrop.cli.model_file import load_model
from keras_bayesdrop.cli.subcommand import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model."""
    add_model(parser)


def run(options: argparse.Namespace) -> None:
    """Prints the report."""
    model = load_model(options.model, options.imports, options.max_bytes)
    from keras_bayesdrop.diagnostics.inspection import inspect

    inspect(model)


COMMAND = Subcommand(
    name="inspect",
    help="List what of a model is stochastic, and what could not be reached.",
    add_arguments=add_arguments,
    run=run,
)
