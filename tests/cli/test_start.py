# SPDX-License-Identifier: Apache-2.0
"""The top-level module of the command: its arguments, and how it starts."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import keras_bayesdrop as kbd
import keras_bayesdrop_command as command
from keras_bayesdrop._core import choice
from keras_bayesdrop.cli import command as running
from keras_bayesdrop.prediction import detection
from keras_bayesdrop.prediction import methods
from keras_bayesdrop.predictive import heads
from tests.cli import files


def usage_error(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        command.main(list(words))
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
    assert set(command.ENGINES) == set(choice.ENGINES)
    assert command.MASKS == choice.MASKS
    names = tuple(choice.snake_case(each) for each in methods.METHODS)
    assert command.METHODS == names
    assert command.HEADS == (detection.AUTO, *heads.HEADS)


@pytest.mark.parametrize(
    ("words", "part"),
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
def test_wrong_arguments(capsys, words, part):
    assert part in usage_error(capsys, *words)


@pytest.mark.parametrize(
    ("words", "part"),
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
            "--quantiles does not go with --method moments: expected "
            "--method sampling",
        ),
        (
            ("--method", "moments", "--out", "o.npy"),
            "keeping samples does not go with --method moments",
        ),
        (
            ("--method", "moments", "--masks", "independent"),
            "expected --method sampling or rao_blackwell",
        ),
        (
            ("--method", "moments", "--engine", "fused"),
            "--engine does not go with --method moments",
        ),
        (("--from-logits",), "expected --head classification or binary"),
        (
            ("--head", "binary", "--noise-precision", "4"),
            "expected --head regression",
        ),
    ],
)
def test_wrong_arguments_of_predict(capsys, words, part):
    whole = ("predict", "m.keras", "d.csv", "--out", "o.npz", *words)
    assert part in usage_error(capsys, *whole)


def test_usage_error_names_the_help_of_its_command(capsys):
    error = usage_error(capsys, "bench", "--rows", "x")
    assert error == (
        "keras-bayesdrop: error: argument --rows: expected an integer of at "
        "least 1, received 'x'. `keras-bayesdrop bench --help` lists the "
        "options\n"
    )


@pytest.mark.parametrize(
    "name", [None, "predict", "inspect", "explain", "info", "bench"]
)
def test_help(capsys, name):
    with pytest.raises(SystemExit) as caught:
        command.main(["--help"] if name is None else [name, "--help"])
    assert caught.value.code == 0
    assert "usage: keras-bayesdrop" in capsys.readouterr().out


def test_help_shows_the_defaults(capsys):
    with pytest.raises(SystemExit):
        command.main(["predict", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "number of samples; default: 50" in text
    assert "a .csv; default: ," in text
    # Flags, and options without a default, have none to show.
    assert "overwrite --out if it exists --quiet" in text
    assert "results do not depend on it --engine" in text


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"keras-bayesdrop {kbd.__version__}\n"


# The start of the process.

# Starts the command, and prints which heavy packages it has imported.
PROGRAM = """
import os, sys
import keras_bayesdrop_command
{prepare}
try:
    sys.exit(keras_bayesdrop_command.main())
finally:
    heavy = {{"keras", "keras_bayesdrop", "numpy", "tensorflow"}}
    print(*sorted(heavy & set(sys.modules)))
"""

# Takes the place of `cli.command`, and talks while it is imported.
TALKING = """
import types
class Talking(types.ModuleType):
    def __getattr__(self, name):
        if name != "run":
            raise AttributeError(name)
        os.write(2, b"talk")
        sys.stderr.write("ours")
        print("TF level", os.environ["TF_CPP_MIN_LOG_LEVEL"])
        return lambda options: os.write(2, b"after") - 5
sys.modules["keras_bayesdrop"] = types.ModuleType("keras_bayesdrop")
sys.modules["keras_bayesdrop.cli"] = types.ModuleType("keras_bayesdrop.cli")
sys.modules["keras_bayesdrop.cli.command"] = Talking("command")
"""


def start(*words, prepare=""):
    """Starts the command in a process of its own."""
    environment = dict(os.environ)
    environment.pop("TF_CPP_MIN_LOG_LEVEL")
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(prepare=prepare), *words],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


def test_help_comes_without_the_package():
    done = start("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: keras-bayesdrop")
    assert "predict" in done.stdout
    assert done.stdout.splitlines()[-1] == ""


def test_version_comes_without_the_package():
    done = start("--version")
    assert done.returncode == 0
    assert done.stdout == f"keras-bayesdrop {kbd.__version__}\n\n"


def test_usage_errors_come_without_the_package():
    done = start("predict", "m.keras", "d.csv", "--out", "o.txt")
    assert done.returncode == 2
    assert done.stdout == "\n"
    assert "ends in .npz" in done.stderr


def test_talk_of_libraries_is_hidden_and_ours_is_not():
    done = start("info", prepare=TALKING)
    assert done.returncode == 0
    assert done.stdout == "TF level 3\nkeras_bayesdrop\n"
    assert done.stderr == "oursafter"
    loud = start("info", "--debug", prepare=TALKING)
    assert loud.stderr in ("talkoursafter", "talkafterours")


def test_talk_comes_back(capfd):
    before = sys.stderr
    with command._quiet_import(debug=False):
        os.write(2, b"hidden")
        assert sys.stderr is not before
    assert sys.stderr is before
    os.write(2, b"shown")
    assert capfd.readouterr().err == "shown"


def test_talk_comes_back_after_an_error(capfd):
    before = sys.stderr
    with pytest.raises(RuntimeError), command._quiet_import(debug=False):
        raise RuntimeError
    assert sys.stderr is before
    os.write(2, b"shown")
    assert capfd.readouterr().err == "shown"


def test_an_interrupt_ends_the_process_while_libraries_are_imported():
    # A shell that starts a job in the background makes it ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with command._quiet_import(debug=False):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        handler = signal.getsignal(signal.SIGINT)
        assert handler is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_caller_is_kept():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with command._quiet_import(debug=False):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("package", ["keras", "tensorflow"])
def test_a_missing_package_is_one_line(package):
    done = start("info", prepare=f"sys.modules[{package!r}] = None")
    assert done.returncode == 1
    assert done.stderr == (
        "keras-bayesdrop: error: A package is missing. Expected Keras and "
        "TensorFlow: `pip install keras tensorflow`. Received: no module "
        f"named {package!r}\n"
    )


def test_every_command_runs():
    assert running._RUN.keys() == command.COMMANDS.keys()


def test_whole_command_in_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.save(files.regression(), "model.keras")
    np.savetxt("data.csv", files.data(), delimiter=",", fmt="%.9g")
    words = ["predict", "model.keras", "data.csv", "--seed", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "keras_bayesdrop", *words, "--out", "a.npz"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a.npz: 7 row(s), 50 samples, seed 5, ")
    assert command.main([*words, "--out", "b.npz", "--quiet"]) == 0
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


def test_the_library_does_not_import_the_command():
    program = (
        "import sys, keras_bayesdrop\n"
        "print([m for m in sys.modules\n"
        "    if m.startswith(('keras_bayesdrop.cli', 'keras_bayesdrop_'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "[]\n"
