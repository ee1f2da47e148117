# SPDX-License-Identifier: Apache-2.0
"""Judges many models in parallel processes, and reports by kind.

The parent imports no TensorFlow. Each worker is a process of its own that
judges a run of seeds and prints a line of JSON a model, so that a crash or a
hang is a finding like any other.
"""

import argparse
import collections
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

_MODELS_OF_A_PROCESS = 60  # TensorFlow keeps what it traced
_SECONDS_OF_A_MODEL = 180.0
_MARK = "FUZZ "


@dataclasses.dataclass(frozen=True)
class Result:
    """The verdict on one seed, as a worker reports it."""

    seed: int
    outcome: str
    what: str
    warned: bool = False
    expects: str = ""
    kinds: tuple[str, ...] = ()
    description: str = ""
    spec: str = ""
    seconds: float = 0.0


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--seed", type=int, help="judge this one alone, and cut it down"
    )
    parser.add_argument("--spec", help="judge this spec (JSON) alone")
    parser.add_argument(
        "--only", default="", help="only models with this kind of piece"
    )
    parser.add_argument("--work", nargs="*", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work is not None:
        return _work(options.work, options.only)
    if options.seed is not None or options.spec is not None:
        return _judge_one(options.seed, options.spec)
    seeds = range(options.first_seed, options.first_seed + options.models)
    return _report(_run_all(list(seeds), options.workers, options.only))


def _run_all(seeds: list[int], workers: int, only: str) -> list[Result]:
    """Judges seeds in parallel; results in the order of the seeds."""
    chunks: queue.Queue[list[int]] = queue.Queue()
    for start in range(0, len(seeds), _MODELS_OF_A_PROCESS):
        chunks.put(seeds[start : start + _MODELS_OF_A_PROCESS])
    results: list[Result] = []
    lock = threading.Lock()
    began = time.monotonic()

    def add(result: Result) -> None:
        with lock:
            results.append(result)
            _progress(results, len(seeds), time.monotonic() - began)

    def work() -> None:
        while True:
            try:
                chunk = chunks.get_nowait()
            except queue.Empty:
                return
            _run_chunk(chunk, only, add)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _say("")
    return sorted(results, key=lambda result: result.seed)


def _run_chunk(seeds: list[int], only: str, add: Any) -> None:
    """Judges seeds in a process; a new one takes over after a crash."""
    while seeds:
        arguments = ["--only", only, "--work", *map(str, seeds)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "TF_NUM_INTRAOP_THREADS": "1",
                "TF_NUM_INTEROP_THREADS": "1",
                "KERAS_BACKEND": "tensorflow",
            },
        )
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(
            target=_read, args=(process.stdout, lines), daemon=True
        )
        reader.start()
        left = list(seeds)
        ended = "crashed"
        while left:
            try:
                line = lines.get(timeout=_SECONDS_OF_A_MODEL)
            except queue.Empty:
                ended = f"took more than {_SECONDS_OF_A_MODEL:.0f} s"
                break
            if not line:
                break
            if line.startswith(_MARK):
                fields = json.loads(line[len(_MARK) :])
                add(Result(**{**fields, "kinds": tuple(fields["kinds"])}))
                left.remove(fields["seed"])
        process.kill()
        code = process.wait()
        if left:
            what = f"the process {ended} (exit code {code})"
            add(Result(left.pop(0), "finding", what))
        seeds = left


def _read(stream: Any, lines: Any) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _work(seeds: list[int], only: str) -> int:
    """Judges seeds in this process."""
    from tests.fuzz.grammar import spec_of
    from tests.fuzz.specs import describe

    for seed in seeds:
        began = time.process_time()
        spec = spec_of(seed)
        try:
            result = _judge(seed, spec, only)
        except Exception as error:
            what = f"the fuzz itself fails: {type(error).__name__}: {error}"
            result = Result(seed, "finding", what, description=describe(spec))
        seconds = time.process_time() - began
        result = dataclasses.replace(result, seconds=seconds)
        _say(_MARK + json.dumps(dataclasses.asdict(result)))
    return 0


def _judge(seed: int, spec: Any, only: str = "") -> Result:
    """Builds and judges one model."""
    import keras

    from tests.fuzz import grammar
    from tests.fuzz import specs
    from tests.fuzz import verdict

    keras.utils.clear_session(free_memory=False)
    try:
        case = grammar.build(spec)
    except Exception as error:
        # Keras itself refuses the model.
        return Result(seed, "skipped", f"{type(error).__name__}: {error}")
    if only and only not in case.kinds:
        return Result(seed, "skipped", "")
    judged = verdict.judge(case)
    return Result(
        seed,
        judged.outcome,
        judged.what,
        judged.warned,
        case.expects,
        case.kinds,
        specs.describe(spec),
        json.dumps(spec),
    )


def _judge_one(seed: int | None, text: str | None) -> int:
    """Judges one model, and cuts it down while it is a finding."""
    from tests.fuzz import grammar

    if text is not None:
        spec = json.loads(text)
    else:
        assert seed is not None
        spec = grammar.spec_of(seed)
    number = -1 if seed is None else seed
    result = _judge(number, spec)
    _say(result.description)
    _say(f"expected {result.expects}; {result.outcome}. {result.what}")
    if result.outcome != "finding":
        return 0
    smallest = cut_down(spec, result.what)
    result = _judge(number, smallest)
    _say("\nCut down:")
    _say(result.description)
    _say(f"expected {result.expects}; {result.outcome}. {result.what}")
    _say(f"--spec '{json.dumps(smallest)}'")
    return 1


def cut_down(spec: Any, what: str) -> Any:
    """Returns the smallest part of a spec with a finding of the same form."""
    from tests.fuzz import specs
    from tests.fuzz.kinds import DoesNotFitError

    form = form_of(what)
    smaller = True
    while smaller:
        smaller = False
        for candidate in specs.cuts(spec):
            try:
                result = _judge(-1, candidate)
            except (DoesNotFitError, ValueError):
                continue
            if result.outcome == "finding" and form_of(result.what) == form:
                spec, smaller = candidate, True
                break
    return spec


def form_of(what: str) -> str:
    """Returns the form of a finding: its first words, numbers left out."""
    if "standard errors" in what:
        return "wrong numbers"
    words = what.split(": ")
    return ": ".join(
        words[: 2 if words[0].startswith(("refused", "raw")) else 1]
    )


def _progress(results: list[Result], total: int, seconds: float) -> None:
    findings = sum(result.outcome == "finding" for result in results)
    line = (
        f"{len(results)}/{total} models, {findings} findings, "
        f"{seconds / len(results):.2f} s a model"
    )
    if sys.stdout.isatty():
        sys.stdout.write(f"\r{line}  ")
        sys.stdout.flush()
    elif len(results) % 100 == 0 or len(results) == total:
        _say(line)


def _report(results: list[Result]) -> int:
    """Prints findings and the table; returns the exit code."""
    findings = [each for each in results if each.outcome == "finding"]
    by_form = collections.defaultdict(list)
    for each in findings:
        by_form[form_of(each.what)].append(each)
    for form, group in sorted(by_form.items(), key=lambda item: -len(item[1])):
        _say(f"\n== {form}: {len(group)} models")
        for each in group:
            _say(f"seed {each.seed}: {each.description}")
            _say(f"    {each.what[:300]}")
            _say(f"    make fuzz FUZZ_ARGS='--seed {each.seed}'")
    _say("\n" + table_of(results))
    counts = collections.Counter(each.outcome for each in results)
    seconds = sum(each.seconds for each in results) / max(1, len(results))
    _say(
        ", ".join(f"{number} {name}" for name, number in counts.items())
        + f"; {seconds:.2f} s of CPU a model"
    )
    return int(bool(findings))


def table_of(results: list[Result]) -> str:
    """Returns outcomes by kind of piece; a model counts for all its kinds."""
    names = ("right", "warned", "refused", "finding", "refused?")
    rows: dict[str, collections.Counter[str]] = {}
    for each in results:
        for kind in each.kinds:
            count = rows.setdefault(kind, collections.Counter())
            count[each.outcome] += 1
            if each.outcome == "right" and each.warned:
                count["warned"] += 1
            if each.what.startswith("refused:"):
                count["refused?"] += 1
    order = sorted(rows, key=lambda kind: (-rows[kind]["finding"], kind))
    lines = [f"{'kind':<26}" + "".join(f"{name:>10}" for name in names)]
    for kind in order:
        cells = "".join(f"{rows[kind][name]:>10}" for name in names)
        lines.append(f"{kind:<26}{cells}")
    lines.append(
        "(warned: right, with a warning; refused?: findings that are refusals "
        "of a model that must be right)"
    )
    return "\n".join(lines)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
