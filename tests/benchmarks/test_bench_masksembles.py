# SPDX-License-Identifier: Apache-2.0
"""The benchmark of Masksembles runs, and the page shows its results."""

import sys

import pytest

from tests.benchmarks.benchmark_scripts import run
from tests.benchmarks.benchmark_scripts import script

masksembles_page = script("masksembles_page")


@pytest.mark.slow
def test_all_methods_are_compared():
    printed = run("bench_masksembles.py", "--quick").splitlines()
    names = ["one", "MC", "MC", "Masksembles,", "Masksembles,", "deep"]
    assert [line.split()[0] for line in printed[-6:]] == names


def test_the_table_is_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["masksembles_page.py", "--check"])
    assert masksembles_page.main() == 0
