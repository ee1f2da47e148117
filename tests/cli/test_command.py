# SPDX-License-Identifier: Apache-2.0
"""Arguments, exit codes, and the reports of a model."""

import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop import views
from keras_bayesdrop._command import is_command
from keras_bayesdrop.cli import arguments
from keras_bayesdrop.cli import bench
from keras_bayesdrop.cli import bench_cases
from keras_bayesdrop.cli import library_talk
from keras_bayesdrop.cli import main
from keras_bayesdrop.engines import select
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.prediction import api as library_predict
from keras_bayesdrop.prediction import detection
from keras_bayesdrop.prediction import progress
from tests.cli import files


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = files.regression()
    files.save(model, "model.keras")
    return model


def usage_error(capsys, *given):
    with pytest.raises(SystemExit) as caught:
        main(list(given))
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    # One line, and no usage before it.
    assert printed.err.startswith("keras-bayesdrop: error: ")
    assert printed.err.count("\n") == 1
    assert re.search(r"\. `keras-bayesdrop[a-z ]* --help` lists ", printed.err)
    return printed.err


# Arguments.


def test_choices_are_those_of_the_library():
    assert set(arguments.ENGINES) == set(select.ENGINES)
    assert arguments.MASKS == views.MASKS
    assert arguments.METHODS == library_predict.METHODS
    assert arguments.TASKS == detection.TASKS


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ((), "required: COMMAND"),
        (("inof",), "invalid choice: 'inof'"),
        (("info", "now"), "unrecognized arguments: now"),
        (("predict", "m.keras", "d.csv"), "required: --out"),
        (("explain", "m.keras", "--sam", "5"), "unrecognized arguments"),
        (("explain", "m.keras", "--samples", "1"), "at least 2, received '1'"),
        (("inspect", "m.keras", "--max-bytes", "8 GB"), "bytes such as 2e9"),
        (("inspect", "m.keras", "--max-bytes", "0"), "received '0'"),
        (("inspect", "m.keras", "--max-bytes", "inf"), "received 'inf'"),
        (("bench", "--rows", "x"), "at least 1, received 'x'"),
    ],
)
def test_wrong_arguments(capsys, given, part):
    assert part in usage_error(capsys, *given)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (("--out", "o.txt"), "ends in .npz, .csv, .npy, received 'o.txt'"),
        (("--seed", "x"), "expected an integer, received 'x'"),
        (("--noise-precision", "-1"), "expected a positive number"),
        (("--noise-precision", "inf"), "expected a positive number"),
        (("--quantiles", "0.1", "1.5"), "from 0 to 1, received '1.5'"),
        (("--quantiles", "nan"), "from 0 to 1, received 'nan'"),
        (("--interval", "1"), "between 0 and 1, received '1'"),
        (("--engine", "warp"), "invalid choice: 'warp'"),
        (("--delimiter", ""), "expected one character"),
        (
            ("--method", "moments", "--quantiles", "0.5"),
            "--quantiles needs samples: expected --method sampling",
        ),
        (("--method", "moments", "--out", "o.npy"), "needs samples"),
    ],
)
def test_wrong_arguments_of_predict(capsys, given, part):
    whole = ("predict", "m.keras", "d.csv", "--out", "o.npz", *given)
    assert part in usage_error(capsys, *whole)


def test_usage_error_names_the_help_of_its_command(capsys):
    error = usage_error(capsys, "bench", "--rows", "x")
    assert error == (
        "keras-bayesdrop: error: argument --rows: expected an integer of at "
        "least 1, received 'x'. `keras-bayesdrop bench --help` lists the "
        "options\n"
    )


@pytest.mark.parametrize(
    "command", [None, "predict", "inspect", "explain", "info", "bench"]
)
def test_help(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main(["--help"] if command is None else [command, "--help"])
    assert caught.value.code == 0
    assert "usage: keras-bayesdrop" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"keras-bayesdrop {kbd.__version__}\n"


# Exit codes.


@pytest.mark.parametrize("command", ["inspect", "explain", "bench"])
def test_one_line_and_no_traceback(capsys, command):
    assert main([command, "none.keras"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("keras-bayesdrop: error: `none.keras`")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "given",
    [
        ["--debug", "inspect", "none.keras"],
        ["inspect", "none.keras", "--debug"],
    ],
)
def test_debug_shows_the_traceback(capsys, given):
    assert main(given) == 1
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
        "import sys; from types import ModuleType; import os\n"
        "package = ModuleType('keras_bayesdrop')\n"
        "package.__path__ = [sys.argv[1]]\n"
        "sys.modules['keras_bayesdrop'] = package\n"
        "from keras_bayesdrop.cli import command\n"
        "class Fake:\n"
        "    debug = False\n"
        "    class command:\n"
        "        run = staticmethod(lambda _: sys.stdout.write('x\\n' * 99))\n"
        "command.parse = lambda _: Fake\n"
        "sys.exit(command.main([]))\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", program, os.path.dirname(kbd.__file__)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    os.close(writing)
    assert done.stderr == ""
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
    given = ["--rows", rows, "--samples", samples, "--batch-size", batch_size]
    given += ["--masks", masks, "--engine", "reference"]
    assert main(["explain", "model.keras", *map(str, given)]) == 0
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
        masks=masks,
        engine="reference",
        verbose=0,
    )
    batches = -(-rows // batch_size)
    assert last.startswith(
        f"{rows} rows, {samples} samples: {batches} batch(es), "
        f"{len(steps)} step(s) of at most "
    )


# Timing.


def test_bench_prints_ratios_to_the_plain_passes(capsys, model):
    given = ["--rows", "5", "--samples", "3", "--rounds", "2"]
    assert main(["bench", "model.keras", *given]) == 0
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

    def wrong(model, x, samples, *, engine, **kwargs):
        p = right(model, x, samples, engine="reference", **kwargs)
        if engine == "fused":
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
        lambda model, seed, number: kbd.sample_function(
            model, seed, number + 1
        ),
    )
    with pytest.raises(kbd.BayesdropError, match="sample_function 0"):
        bench_cases.engine_cases(model, files.data(), 3, "shared")


def test_bench_says_which_engine_is_left_out(monkeypatch, model):
    right = bench_cases.predict_with_uncertainty

    def without(model, x, samples, *, engine, **kwargs):
        if engine == "fused":
            raise EngineUnavailableError("no library")
        return right(model, x, samples, engine=engine, **kwargs)

    monkeypatch.setattr(bench_cases, "predict_with_uncertainty", without)
    cases, notes = bench_cases.engine_cases(model, files.data(), 3, "shared")
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


# The start of the process.


@pytest.mark.parametrize(
    ("argv", "orig_argv", "yes"),
    [
        (["/bin/keras-bayesdrop", "info"], ["python", "x"], True),
        (["keras-bayesdrop.exe"], ["python", "x"], True),
        (["-m", "info"], ["python", "-m", "keras_bayesdrop", "info"], True),
        (["-m"], ["python", "-X", "dev", "-m", "keras_bayesdrop"], True),
        (
            ["-m", "keras_bayesdrop"],
            ["python", "-m", "x", "keras_bayesdrop"],
            False,
        ),
        (["-m"], ["python", "-m", "keras_bayesdrop.other"], False),
        (["script.py", "keras-bayesdrop"], ["python", "script.py"], False),
        (["-c"], ["python", "-c", "import keras_bayesdrop"], False),
        ([""], ["python"], False),
        ([], [], False),
    ],
)
def test_whether_this_process_is_the_command(argv, orig_argv, yes):
    assert is_command(argv, orig_argv) is yes


def start(*given):
    """Starts the command with an empty package around it."""
    program = (
        "import sys; from types import ModuleType\n"
        "package = ModuleType('keras_bayesdrop')\n"
        "package.__path__ = [sys.argv[1]]\n"
        "sys.modules['keras_bayesdrop'] = package\n"
        "sys.argv = ['keras-bayesdrop', *sys.argv[2:]]\n"
        "heavy = {'keras', 'tensorflow'}\n"
        "try:\n"
        "    import keras_bayesdrop._command\n"
        "    import os\n"
        "    os.write(2, b'talk')\n"
        "    sys.stderr.write('ours')\n"
        "    print('TF level', os.environ['TF_CPP_MIN_LOG_LEVEL'])\n"
        "finally:\n"
        "    print(*sorted(heavy & set(sys.modules)))\n"
    )
    environment = dict(os.environ)
    environment.pop("TF_CPP_MIN_LOG_LEVEL")
    return subprocess.run(
        [sys.executable, "-c", program, os.path.dirname(kbd.__file__), *given],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


def test_help_comes_without_tensorflow():
    done = start("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: keras-bayesdrop")
    assert done.stdout.splitlines()[-1] == ""


def test_usage_errors_come_without_tensorflow():
    done = start("predict", "m.keras", "d.csv", "--out", "o.txt")
    assert done.returncode == 2
    assert done.stdout == "\n"
    assert "ends in .npz" in done.stderr


def test_talk_of_libraries_is_hidden_and_ours_is_not():
    done = start("info")
    assert done.returncode == 0
    assert done.stdout == "TF level 3\n\n"
    assert done.stderr == "ours"
    assert start("info", "--debug").stderr == "talkours"


def test_talk_comes_back(capfd):
    before = sys.stderr
    library_talk.hide()
    os.write(2, b"hidden")
    library_talk.show()
    assert sys.stderr is before
    os.write(2, b"shown")
    library_talk.show()
    assert capfd.readouterr().err == "shown"


def test_whole_command_in_a_process_of_its_own(tmp_path, model):
    np.savetxt("data.csv", files.data(), delimiter=",", fmt="%.9g")
    given = ["predict", "model.keras", "data.csv", "--seed", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "keras_bayesdrop", *given, "--out", "a.npz"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a.npz: 7 row(s), 50 samples, seed 5, ")
    assert main([*given, "--out", "b.npz", "--quiet"]) == 0
    there, here = map(kbd.Predictive.load, ("a.npz", "b.npz"))
    np.testing.assert_array_equal(there.mean, here.mean)
    np.testing.assert_array_equal(there.variance, here.variance)


def test_failure_in_a_process_of_its_own(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "keras_bayesdrop", "inspect", "none.keras"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "keras-bayesdrop: error: `none.keras` does not exist"
    )
    assert "Traceback" not in done.stderr


def test_help_comes_before_tensorflow():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "keras_bayesdrop", "-h"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "predict" in done.stdout
    imported = done.stderr
    assert "keras_bayesdrop._command" in imported
    assert "tensorflow" not in imported


def test_the_library_does_not_import_the_command():
    program = (
        "import sys, keras_bayesdrop\n"
        "print([m for m in sys.modules if m.startswith('keras_bayesdrop.cli')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "[]\n"
