# SPDX-License-Identifier: Apache-2.0
"""The study of `mc_error` of balanced draws shows what the docs say."""

import json
import pathlib

import pytest

from keras_bayesdrop.predictive import quantities

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEIGHT = f"weight {quantities._WEIGHT_OF_INDEPENDENT:g}"


@pytest.fixture(scope="module")
def results():
    path = ROOT / "benchmarks/results/balanced_error.json"
    everything = json.loads(path.read_text("utf-8"))
    del everything["machine"]
    assert len(everything) == 10
    return everything


def of_numbers(results):
    return [
        result
        for name, result in results.items()
        if name.startswith("diabetes")
    ]


def test_intervals_of_numbers(results):
    shares, widths = [], []
    for result in of_numbers(results):
        for number in ("32", "50", "64", "128"):
            each = result["coverage"][number][WEIGHT]
            assert each["covers"] >= 0.92
            shares.append(each["covers"])
        widths.append(result["coverage"]["50"][WEIGHT]["width"])
    assert max(widths) <= 1
    page = (ROOT / "docs/prediction.md").read_text("utf-8")
    page = " ".join(page.split())
    narrower = [100 * (1 - width) for width in (max(widths), min(widths))]
    for text in (
        f"in {100 * min(shares):.0f} to {100 * max(shares):.0f} % of 400 seeds",
        f"they are {narrower[0]:.0f} to {narrower[1]:.0f} % narrower",
    ):
        assert text in page


def test_intervals_of_probabilities(results):
    for name in results.keys() - {"machine"}:
        if not name.startswith("diabetes"):
            for each in results[name]["coverage"].values():
                least = each["independent"]["covers"] - 0.02
                assert each[WEIGHT]["covers"] >= least


def test_rows_that_stop(results):
    for result in results.values():
        plain, own = (
            result["stopping"][name] for name in ("independent", WEIGHT)
        )
        soon = "stopped at 64 or before"
        assert own[soon] <= plain[soon]
        # 50 runs of 20 rows and more with shared masks: known to a tenth.
        assert own["error of all"] <= max(1.1, 1.1 * plain["error of all"])
