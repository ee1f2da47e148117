# SPDX-License-Identifier: Apache-2.0
"""Exit codes, the reports of a model, and `bench`."""

import dataclasses
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.cli import bench
from keras_bayesdrop.cli import bench_cases
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.prediction import progress
from keras_bayesdrop_command import main
from tests.cli import files


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = files.regression()
    files.save(model, "model.keras")
    return model


# Exit codes.


@pytest.mark.parametrize("command", ["inspect", "explain", "bench"])
def test_one_line_and_no_traceback(capsys, command):
    assert main([command, "none.keras"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("keras-bayesdrop: error: `none.keras`")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--debug", "inspect", "none.keras"],
        ["inspect", "none.keras", "--debug"],
    ],
)
def test_debug_shows_the_traceback(capsys, words):
    assert main(words) == 1
    message = capsys.readouterr().err
    assert "Traceback (most recent call last):" in message
    assert message.splitlines()[-1].startswith("keras-bayesdrop: error: ")


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (RuntimeError("a\nb"), "Received: RuntimeError: a\n"),
        (ZeroDivisionError(), "ZeroDivisionError: no message\n"),
        (MemoryError("9 GB"), "try a smaller --batch-size. Received: 9 GB\n"),
        (PermissionError(13, "denied", "f"), "`f`. Expected"),
    ],
)
def test_what_nobody_foresaw_is_one_line_too(
    capsys, monkeypatch, model, error, part
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("keras_bayesdrop.diagnostics.inspection.inspect", fail)
    assert main(["inspect", "model.keras"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert part in message


def test_reader_that_has_gone(tmp_path):
    """The rest of the output goes nowhere, without a word."""
    program = (
        "import argparse, sys\n"
        "from keras_bayesdrop.cli import command\n"
        "command._RUN['info'] = lambda _: sys.stdout.write('x\\n' * 99)\n"
        "options = argparse.Namespace(command='info', debug=False)\n"
        "sys.exit(command.run(options))\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr and "Broken" not in done.stderr
    assert done.returncode == 1


# Reports.


def test_inspect_prints_the_report(capsys, model):
    assert main(["inspect", "model.keras"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out == f"{kbd.inspect(model)}\n"


def test_info_prints_the_report(capsys):
    assert main(["info"]) == 0
    assert capsys.readouterr().out == f"{kbd.info()}\n"


@pytest.mark.parametrize(
    ("rows", "samples", "batch_size", "masks"),
    [(7, 50, 3, "shared"), (40, 33, 16, "independent"), (6, 5, 3, "shared")],
)
def test_explain_counts_the_steps_that_are_taken(
    capsys, monkeypatch, model, rows, samples, batch_size, masks
):
    words = ["--rows", rows, "--samples", samples, "--batch-size", batch_size]
    words += ["--masks", masks, "--engine", "reference"]
    assert main(["explain", "model.keras", *map(str, words)]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    plan = kbd.explain(model, engine="reference")
    assert "\n".join(table) == f"{plan}\n"
    steps = []
    step = progress.Progress.step

    def counted(self):
        steps.append(None)
        return step(self)

    monkeypatch.setattr(progress.Progress, "step", counted)
    kbd.predict_with_uncertainty(
        model,
        files.data(rows),
        samples,
        batch_size=batch_size,
        verbose=0,
        method=kbd.Sampling(masks=masks, engine="reference"),
    )
    batches = -(-rows // batch_size)
    assert last.startswith(
        f"{rows} rows, {samples} samples: {batches} batch(es), "
        f"{len(steps)} step(s) of at most "
    )


# Timing.


def test_bench_prints_ratios_to_the_plain_passes(capsys, model):
    words = ["--rows", "5", "--samples", "3", "--rounds", "2"]
    assert main(["bench", "model.keras", *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Model `small`: 5 rows, 3 samples, shared masks\n")
    cells = re.findall(r"^(.+?)  +([\d.]+)  +([\d.]+) x$", out, re.MULTILINE)
    names = [name for name, *_ in cells]
    assert names[:2] == ["3 calls of a compiled pass", "engine reference"]
    assert cells[0][2] == "1.00"
    plain = float(cells[0][1])
    for _, milliseconds, ratio in cells:
        # All three are rounded to two digits.
        exact = plain / float(milliseconds)
        slack = 0.006 * (1 + exact / plain + exact / float(milliseconds))
        assert abs(exact - float(ratio)) <= slack
    engine = kbd.info().engine
    assert ("engine fused" in names) == (engine == "fused")
    assert ("Checked first" in out) == (engine == "fused")


def test_bench_refuses_to_time_what_is_wrong(monkeypatch, capsys, model):
    right = bench_cases.predict_with_uncertainty

    def wrong(model, x, samples, *, method, **kwargs):
        reference = dataclasses.replace(method, engine="reference")
        p = right(model, x, samples, method=reference, **kwargs)
        if method.engine == "fused":
            p.samples[-1] += 0.01 * np.max(np.abs(p.samples))
        return p

    monkeypatch.setattr(bench_cases, "predict_with_uncertainty", wrong)
    monkeypatch.setattr(bench, "time_in_turn", None)
    assert main(["bench", "model.keras", "--rows", "5", "--samples", "3"]) == 1
    message = capsys.readouterr().err
    assert "samples of fused are not those of the reference engine" in message


def test_bench_compares_with_the_function_of_a_sample(monkeypatch, model):
    monkeypatch.setattr(
        bench_cases,
        "sample_function",
        lambda model, seed, number, draws: kbd.sample_function(
            model, seed, number + 1
        ),
    )
    with pytest.raises(kbd.BayesdropError, match="sample_function 0"):
        bench_cases.engine_cases(model, files.data(), 3, kbd.Sampling())


def test_bench_says_which_engine_is_left_out(monkeypatch, model):
    right = bench_cases.predict_with_uncertainty

    def without(model, x, samples, *, method, **kwargs):
        if method.engine == "fused":
            raise EngineUnavailableError("no library")
        return right(model, x, samples, method=method, **kwargs)

    monkeypatch.setattr(bench_cases, "predict_with_uncertainty", without)
    cases, notes = bench_cases.engine_cases(
        model, files.data(), 3, kbd.Sampling()
    )
    assert list(cases) == ["engine reference"]
    assert notes == ["Left out: no library"]


def test_timing_takes_turns_and_the_median(monkeypatch):
    clock = iter([0, 1, 10, 12, 20, 25, 30, 33, 40, 43, 50, 54])
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(clock))
    calls = []
    cases = {name: lambda n=name: calls.append(n) for name in "ab"}
    # a: 1, 5, 3; b: 2, 3, 4.
    assert bench.time_in_turn(cases, 3) == {"a": 3, "b": 3}
    assert "".join(calls) == "abababab"


def test_inputs_of_a_bench():
    x = bench_cases.random_inputs(files.two_by_two(), 6)
    assert {name: v.shape for name, v in x.items()} == {
        "left": (6, 4),
        "right": (6, 3),
    }
    tokens = keras.Sequential(
        [keras.Input((None,), dtype="int32"), keras.layers.Embedding(5, 2)]
    )
    x = bench_cases.random_inputs(tokens, 6)
    assert x.dtype == np.int32 and len(x) == 6 and x.max() == 1
