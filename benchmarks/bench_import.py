# SPDX-License-Identifier: Apache-2.0
"""Times the import of the package, and the start of the command.

    python benchmarks/bench_import.py            # about a minute
    python benchmarks/bench_import.py --quick    # one round, writes nothing

Each case runs in processes of its own, in turn. An import is timed inside its
process, after the imports that it is compared with. Other work on the machine
only adds time, so the best of the rounds counts. Writes
`benchmarks/results/import.json`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pathlib
import subprocess
import sys
import time

import harness

ROOT = pathlib.Path(__file__).resolve().parents[1]

BLOCK = """
import importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("keras", "tensorflow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""
# Name: the bar in seconds, the statements before, the statement that is timed.
IMPORTS = {
    "import keras_bayesdrop after numpy, without Keras": (
        0.05,
        f"{BLOCK}\nimport numpy",
        "import keras_bayesdrop",
    ),
    "import keras_bayesdrop after keras": (
        0.2,
        "import keras",
        "import keras_bayesdrop",
    ),
    "import keras": (None, "", "import keras"),
}
# Name: the bar in seconds, the arguments of Python. The whole process counts.
PROCESSES = {
    "keras-bayesdrop --help": (
        0.3,
        ["-c", "from keras_bayesdrop_command import main; main(['--help'])"],
    ),
    "python -c pass": (None, ["-c", "pass"]),
}


def run(arguments: list[str]) -> tuple[str, float]:
    """Runs Python; returns what it prints, and the seconds that it takes."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout, time.perf_counter() - began


def time_import(before: str, statement: str) -> float:
    """Returns the seconds that a statement takes in a new process."""
    program = (
        f"{before}\nimport time\nbegan = time.perf_counter()\n{statement}\n"
        "print(time.perf_counter() - began)"
    )
    return float(run(["-c", program])[0])


def main() -> None:
    """Times all cases, prints a table and writes the results."""
    options = harness.parser(str(__doc__).splitlines()[0]).parse_args()
    cases = {
        name: (bar, lambda case=rest: time_import(*case))
        for name, (bar, *rest) in IMPORTS.items()
    }
    cases |= {
        name: (bar, lambda case=arguments: run(case)[1])
        for name, (bar, arguments) in PROCESSES.items()
    }
    if options.only:
        cases = {options.only: cases[options.only]}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(1 if options.quick else options.rounds):
        for name, (_, measure) in cases.items():
            seconds[name].append(measure())
    print(f"{'ms, best':>8}  {'median':>6}  {'at most':>7}  case")
    results = {}
    for name, (bar, _) in cases.items():
        times = harness.summary(seconds[name])
        results[name] = {**times, "bar": bar}
        most = "" if bar is None else f"{1e3 * bar:.0f}"
        print(
            f"{1e3 * times['best']:8.1f}  {1e3 * times['median']:6.0f}  "
            f"{most:>7}  {name}"
        )
    if not options.quick:
        print(harness.write("import", results))


if __name__ == "__main__":
    main()
