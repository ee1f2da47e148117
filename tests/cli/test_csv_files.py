# SPDX-License-Identifier: Apache-2.0
"""Tables as input, and the errors of bad ones."""

import pathlib

import pytest

from keras_bayesdrop.cli.csv_file import CsvOptions
from keras_bayesdrop.cli.csv_file import read_csv
from tests.cli.messages import message


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(text, encoding="utf-8", **options):
    path = pathlib.Path("data.csv")
    path.write_bytes(text.encode(encoding))
    return read_csv(path, CsvOptions(**options)).tolist()


# Tables.
@pytest.mark.parametrize(
    ("text", "options", "desired"),
    [
        ("1,2\n3,4\n", {}, [[1, 2], [3, 4]]),
        ("1,2\n3,4", {"header": True}, [[3, 4]]),
        ("a,2\n3,4\n", {}, [[3, 4]]),
        ("a,b\r\n-1e-3,.5\r\n\r\n", {}, [[-0.001, 0.5]]),
        ('"a, b",c\n"1"," 2 "\n', {}, [[1, 2]]),
        ("1;2\n", {"delimiter": ";"}, [[1, 2]]),
        ("a,b,c\n1,2,x\n", {"columns": ("b", "a")}, [[2, 1]]),
        ("1,2,x\n", {"header": False, "columns": ("2", "1")}, [[2, 1]]),
        # A name comes before a number.
        ("2,1,a\n5,6,7\n", {"columns": ("2",)}, [[5]]),
    ],
)
def test_tables(text, options, desired):
    assert table(text, **options) == desired


def test_mark_of_a_spreadsheet_is_no_name():
    text = "a,b\n1,2\n"
    assert table(text, "utf-8-sig", columns=("a",)) == [[1]]


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("", {}, ["has no rows", "an empty file"]),
        ("\n\n", {}, ["an empty file"]),
        ("a,b\n", {}, ["only a header"]),
        (
            "a,b\n1,2\n\n3,4,5\n",
            {},
            ["is ragged", "Expected 2 cells", "3 in line 4"],
        ),
        ("a,b\n1,2\n3\n", {}, ["1 in line 3"]),
        ("1,2\n3,four\n", {}, ["line 2, column 2", "Received: 'four'"]),
        ("a,b\n1,\n", {}, ["line 2, column 2", "Received: ''"]),
        ("1,2\n3,nan\n", {}, ["not a finite number", "line 2, column 2"]),
        ("1,2\n-inf,3\n", {}, ["line 2, column 1", "'-inf'"]),
        ("1,2\n1_0,3\n", {}, ["line 2, column 1", "'1_0'"]),
        ("a,b\n1,2\n", {"header": False}, ["line 1, column 1", "'a'"]),
        (
            "a,b\n1,2\n",
            {"columns": ("c",)},
            ["no such column", "one of a, b, or a number from 1 to 2"],
        ),
        ("1,2\n", {"columns": ("3",)}, ["a number from 1 to 2"]),
        ("1,2\n", {"columns": ("0",)}, ["--columns 0"]),
        ('1,"2\n', {}, ["is not text"]),
    ],
)
def test_tables_that_are_none(text, options, parts):
    refusal = message(table, text, **options)
    for part in parts:
        assert part in refusal


def test_table_that_is_no_text():
    pathlib.Path("data.csv").write_bytes(b"\xff\xfe\x00\x01")
    text = message(read_csv, pathlib.Path("data.csv"), CsvOptions())
    assert "is not text. Expected UTF-8 text" in text
