# SPDX-License-Identifier: Apache-2.0
"""`info` and `python -m keras_bayesdrop`."""

import dataclasses
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.diagnostics import information
from keras_bayesdrop.errors import BayesdropError


@pytest.fixture
def pretend(monkeypatch):
    """Returns a function that puts another library in place."""

    def replace(library):
        monkeypatch.setattr(op_library, "library", lambda: library)

    return replace


def fake_library():
    def build():
        return tf.constant("isa=avx9;isa_problem=KBD_ISA=x is unknown")

    ops = types.SimpleNamespace(keras_bayesdrop_build=build)
    details = types.SimpleNamespace(
        TENSORFLOW_VERSION="2.99.1",
        COMPILER="GNU 12.2.0",
        CUDA_ARCHITECTURES=("sm_80", "sm_90"),
    )
    return op_library.Library(ops, path="/a/library.so", build=details)


def test_versions():
    report = kbd.info()
    assert report.keras_bayesdrop == kbd.__version__
    assert report.tensorflow == tf.__version__
    assert report.keras == keras.__version__
    assert report.backend == "tensorflow"
    assert report.numpy == np.__version__
    assert sys.version.startswith(report.python)


def test_library_or_reason():
    report = kbd.info()
    assert bool(report.library) != bool(report.library_problem)
    assert bool(report.library) == bool(report.instruction_set)
    fused = report.library and not report.gpus
    assert report.engine == ("fused" if fused else "reference")


def test_everything_of_a_library_is_shown(pretend, monkeypatch):
    pretend(fake_library())
    monkeypatch.setattr(information, "_gpus", lambda: ())
    report = kbd.info()
    assert report.engine == "fused"
    text = str(report)
    for part in (
        "op library       /a/library.so",
        "built            for TensorFlow 2.99.1 by GNU 12.2.0",
        "instruction set  avx9 (KBD_ISA=x is unknown)",
        "GPU code         sm_80, sm_90",
        "engine='auto'    fused: ",
    ):
        assert part in text


def test_gpus_are_shown(pretend, monkeypatch):
    pretend(fake_library())
    monkeypatch.setattr(information, "_gpus", lambda: ("A100", "T4"))
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: ["A100", "T4"]
    )
    report = kbd.info()
    assert "GPUs             A100, T4" in str(report)
    assert report.engine == "fused"


def test_a_gpu_needs_code_for_it(pretend, monkeypatch):
    library = fake_library()
    library.build.CUDA_ARCHITECTURES = ()
    pretend(library)
    monkeypatch.setattr(information, "_gpus", lambda: ("T4",))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["T4"])
    report = kbd.info()
    assert report.engine == "reference"
    assert "no code for it" in report.engine_reason


def test_reason_is_shown_when_there_is_none(pretend):
    pretend(op_library.Library(problem="the dog ate it"))
    report = kbd.info()
    assert report.library == ""
    assert "op library       none: the dog ate it" in str(report)
    assert "engine='auto'    reference: " in str(report)


def test_columns_are_aligned():
    head, rule, *rows = str(kbd.info()).splitlines()
    start = rule.index(" -") + 1
    for line in (head, *rows):
        assert line[start - 1] == " " and line[start] != " "


def test_threads(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")
    assert kbd.info().threads == 3
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "")
    report = kbd.info()
    assert report.threads == report.cores > 0


def test_returns_a_report_that_prints_itself(capsys):
    report = kbd.info()
    assert kbd.info() == report
    assert capsys.readouterr().out == ""
    assert repr(report) == str(report)
    assert report._repr_html_().startswith("<table><thead><tr><th>keras_bayes")


def test_old_keyword_names_the_new_spelling():
    with pytest.raises(BayesdropError, match=r"print\(info\(\)\)"):
        kbd.info(verbose=False)


def test_report_is_frozen():
    report = kbd.info()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.keras = "4"


def test_command_prints_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "keras_bayesdrop", "info"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{kbd.info()}\n"
