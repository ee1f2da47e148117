# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of prediction run, on small sizes, and write nothing.

They use parts of the package that no other program outside of it uses.
"""

import json

import pytest

from tests.benchmarks.benchmark_scripts import run

PARTS = {
    "bench_fused.py": (
        *("large", "no_zeros", "low_rate", "small"),
        *("latency", "scaling", "threads"),
    ),
    "bench_predict.py": ("dense", "head", "uci", "import", "memory"),
    "bench_predictor.py": ("small", "uci", "classes", "large"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "part"),
    [(script, part) for script, parts in PARTS.items() for part in parts],
)
def test_part_prints_its_figures(script, part):
    printed = run(script, "--quick", "--only", part)
    # Lines before the figures name peers that are not installed.
    figures = json.loads(printed[printed.index("{\n") :])
    assert list(figures) == [part]
    assert figures[part]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("cost", "dense: "),
        ("logits", "{'classes': 2, "),
        ("trained", 'digits {"rows": '),
    ],
)
def test_moments(part, text):
    printed = run("bench_moments.py", "--quick", "--only", part)
    assert printed.startswith(text)


@pytest.mark.slow
def test_import_times():
    printed = run("bench_import.py", "--quick")
    assert "at most  case" in printed
