# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop info`: what is installed, and which engine will run."""

import argparse

from keras_bayesdrop.cli.subcommand import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: there is nothing to choose."""


def run(options: argparse.Namespace) -> None:
    """Prints the report."""
    from keras_bayesdrop.diagnostics.information import info

    info()


COMMAND = Subcommand(
    name="info",
    help="Print versions, the op library, the machine, and the engine in use.",
    add_arguments=add_arguments,
    run=run,
)
