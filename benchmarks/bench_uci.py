# SPDX-License-Identifier: Apache-2.0
"""The published UCI regressions: error and log-likelihood by method.

    python benchmarks/bench_uci.py --data <folder> --sets yacht boston
    python benchmarks/bench_uci.py --data <folder> --methods ard add ard_add
    python benchmarks/bench_uci.py --data <folder> --quick  # writes no results
    python benchmarks/bench_uci.py --page     # makes the table of docs/uci.md

The data, `<folder>/*.npz`, hold the splits that published results use. A split
that is finished is kept in `--out`, and not repeated. Writes
`benchmarks/results/uci.json`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import dataclasses
import json
import pathlib
import sys
from typing import Any

import harness
from uci import page
from uci.data import FILES
from uci.data import DataMissing
from uci.data import UciSet
from uci.data import load
from uci.methods import METHODS
from uci.run import run_splits
from uci.settings import DECAYS
from uci.settings import Settings
from uci.state import State

PUBLISHED_HERE = ("yacht", "boston", "energy", "wine", "kin8nm")
QUICK = {"epochs": 8, "samples": 50}
QUICK_SPLITS = (0, 1)


def main() -> int:
    """Runs what the command line asks for; returns an exit code."""
    options = _parser().parse_args()
    if options.page or options.check_page:
        return page.write_or_check(check=options.check_page)
    try:
        if options.data is None:
            raise DataMissing(
                "No data. Expected the folder of the UCI sets as `--data "
                "<folder>`. Received: nothing"
            )
        sets = [load(options.data, name) for name in options.sets]
        for uci in sets:
            if not _splits(options, uci):
                raise DataMissing(
                    f"Set `{uci.name}` has no such split. Expected numbers "
                    f"below {uci.num_splits}. Received: {options.splits}"
                )
    except DataMissing as missing:
        print(missing, file=sys.stderr)
        return 2
    asked = _settings(options)
    table: dict[str, Any] = {}
    for uci in sets:
        for method in options.methods:
            label = _label(method, asked)
            print(f"{uci.name}, {label}")
            settings = asked.filled(METHODS[method].usual(uci))
            state = State(options.out, uci.name, method, settings)
            splits = _splits(options, uci)
            result = run_splits(uci, method, settings, splits, state)
            table.setdefault(uci.name, {})[label] = result
            if not options.quick and len(splits) == uci.num_splits:
                _write(uci.name, label, result)
    print(*page.lines(table), sep="\n")
    return 0


def _write(name: str, label: str, result: dict[str, Any]) -> None:
    """Adds a result of all splits to those of `benchmarks/results`."""
    before: dict[str, Any] = {}
    if page.RESULTS.exists():
        before = json.loads(page.RESULTS.read_text("utf-8")).get(name, {})
    harness.write("uci", {name: {**before, label: result}})


def _label(method: str, settings: Settings) -> str:
    """Returns the name of a method with what is not as usual."""
    changes = [f"{key}={value}" for key, value in settings.changes().items()]
    return ", ".join([method, *changes])


def _settings(options: argparse.Namespace) -> Settings:
    settings = Settings(
        **{
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(Settings)
        }
    )
    return dataclasses.replace(settings, **QUICK) if options.quick else settings


def _splits(options: argparse.Namespace, uci: UciSet) -> list[int]:
    every = range(uci.num_splits)
    wanted = options.splits
    if wanted is None:
        wanted = QUICK_SPLITS if options.quick else every
    return sorted(set(wanted) & set(every))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, help="folder of the sets")
    parser.add_argument(
        "--sets", nargs="+", choices=FILES, default=PUBLISHED_HERE
    )
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=["mc_dropout"]
    )
    parser.add_argument(
        "--splits", nargs="+", type=int, help="numbers; all by default"
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("build") / "uci",
        help="folder for finished splits (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two splits, few epochs and samples; writes no results",
    )
    parser.add_argument(
        "--page", action="store_true", help="make the table of docs/uci.md"
    )
    parser.add_argument(
        "--check-page", action="store_true", help="fail if it is out of date"
    )
    for field in dataclasses.fields(Settings):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int if field.default is None else type(field.default),
            default=field.default,
            choices=DECAYS if field.name == "decay" else None,
            help="by default that of the paper"
            if field.default is None
            else "(default: %(default)s)",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
