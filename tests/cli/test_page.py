# SPDX-License-Identifier: Apache-2.0
"""docs/command_line.md: its commands are understood, its options are all."""

import pathlib
import re
import shlex

import pytest

import keras_bayesdrop_command as command

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "command_line.md"
TEXT = PAGE.read_text("utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_understood(line):
    program, *arguments = shlex.split(line)
    assert program == command.PROGRAM
    assert command.parse(arguments).command in command.COMMANDS


def test_there_are_commands():
    assert {line.split()[1] for line in COMMANDS} == {
        "predict",
        "evaluate",
        "inspect",
        "bench",
    }


def test_page_names_every_command():
    for name in command.COMMANDS:
        assert f"| `{name}` |" in TEXT


def test_page_names_every_option_of_predict_and_no_other():
    arguments = ["predict", "m.keras", "d.csv", "--out", "o.csv"]
    known = set(command.parse(arguments).parser._option_string_actions)
    named = set(re.findall(r"--[a-z][a-z-]*", TEXT))
    others = {"--rows"}  # Of bench.
    arguments = ["evaluate", "m.keras", "d.npz"]
    actions = command.parse(arguments).parser._option_string_actions
    of_evaluate = set(actions) - known
    assert of_evaluate <= named
    assert known - {"-h"} == named - others - of_evaluate | {"--help"}
