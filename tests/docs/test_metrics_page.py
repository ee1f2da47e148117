# SPDX-License-Identifier: Apache-2.0
"""The pages on metrics and calibration: their code runs, and is right."""

import re

import numpy as np

from keras_bayesdrop import calibrate
from keras_bayesdrop import metrics
from tests.docs.pages import run_page
from tests.docs.pages import text_of
from tests.update_golden import exported


def test_metrics(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("metrics.md")
    p, y = names["p"], names["y_test"]
    assert names["evaluation"]["accuracy"] > 0.7
    assert "Reliability" in names["evaluation"].plot().axes[0].get_title()
    assert (tmp_path / "report.html").is_file()
    # Far above chance, on rows that are not all alike.
    wrong = names["wrong"]
    assert metrics.accuracy(y, p) == 1 - wrong.mean() > 0.7
    assert metrics.uncertainty_auroc(wrong, p.predictive_entropy) > 0.6
    curve = metrics.risk_coverage(wrong, p.predictive_entropy)
    assert curve.risk[100] < curve.risk[-1] == wrong.mean()


def test_table_of_metrics_names_all_functions_and_no_others():
    text = text_of("metrics.md")
    named = set(re.findall(r"`([a-z_]+)`", text)) - {"noise_precision"}
    functions = {name for name in exported(metrics) if name.islower()}
    assert functions <= named
    table = "\n".join(re.findall(r"^\|.*\|$", text, re.MULTILINE))
    in_table = set(re.findall(r"`([a-z_]+)`", table)) - {"noise_precision"}
    assert in_table == functions


def test_calibration():
    names = run_page("calibration.md")
    assert names["before"] < 0.8
    # 300 rows to calibrate on and 300 to measure: the coverage scatters by
    # sqrt(0.09 / 300 + 0.09 / 300) = 0.025; four of them.
    assert abs(names["after"] - 0.9) < 0.1
    covered = metrics.interval_coverage(
        names["y_test"], (names["lower"], names["upper"])
    )
    assert abs(covered - 0.9) < 0.1
    np.testing.assert_array_equal(
        names["same"].intervals(names["p_test"]),
        names["fit"].intervals(names["p_test"]),
    )
    soft, c, labels = names["soft"], names["c_test"], names["l_test"]
    assert isinstance(soft, calibrate.Temperature)
    assert soft.temperature > 1
    error = metrics.expected_calibration_error
    assert error(labels, soft.apply(c)) < error(labels, c) / 2
    hit = names["sets"][np.arange(300), labels].mean()
    assert hit > 0.8
    assert names["sets"].sum(axis=1).min() >= 1
    hit = names["exact"].sets(c)[np.arange(300), labels].mean()
    assert abs(hit - 0.9) < 0.1
    assert names["fair"].threshold.shape == (5,)
    assert names["fit_groups"].groups == ("left", "right")
