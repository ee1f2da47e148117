# SPDX-License-Identifier: Apache-2.0
"""The benchmark of accuracy runs, and its arithmetic is right."""

import json

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.benchmarks.benchmark_scripts import RESULTS
from tests.benchmarks.benchmark_scripts import run
from tests.benchmarks.benchmark_scripts import script

bench = script("bench_accuracy")
# Largest ratio that pairs of samples in different strata allow.
LARGEST = 16 / 15


def test_ratio_and_its_error():
    rng = np.random.default_rng(0)
    runs = 400
    # Means of squares of normal numbers: ratio 0.25, relative error of each
    # mean sqrt(2 / runs).
    quotients = [
        bench.ratio(
            rng.normal(scale=0.5, size=runs) ** 2, rng.normal(size=runs) ** 2
        )
        for _ in range(200)
    ]
    values = np.array([each["ratio"] for each in quotients])
    errors = np.array([each["error"] for each in quotients])
    # The mean of 200 errs by 0.025 / sqrt(200) = 0.0018; 4 of these, and
    # 0.25 * 2 / 400 of bias.
    assert np.mean(values) == pytest.approx(0.25, abs=0.0085)
    # A standard deviation of 200 numbers errs by 5 %; 4 of these.
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.2)


def test_runs_are_predictions_of_their_own():
    """A long run, cut into runs of 64, has the errors of its first samples."""
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    )
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    method = kbd.Sampling(draws="balanced")
    sizes = bench.Sizes(runs=4, calls=2)
    errors = bench.run_errors(model, x, np.zeros((2, 2)), method, sizes)
    for count in bench.COUNTS:
        assert errors[count].shape == (4,)
        for call, seed in enumerate((1, 2)):
            p = bench.predict(model, x, count, seed, method)
            assert errors[count][2 * call] == pytest.approx(
                np.mean(np.square(p.mean)), rel=1e-5
            )


def test_committed_ratios_keep_the_promise():
    results = json.loads((RESULTS / "accuracy.json").read_text())["ratios"]
    assert len(results) >= 10
    for name, row in results.items():
        for masks in bench.MASKS:
            measured = row[masks]["64"]
            ratio, error = measured["ratio"], measured["error"]
            # 3 standard errors: all of 32 measurements hold in 96 % of runs,
            # even if each is at its bound.
            assert ratio <= LARGEST + 3 * error, name
            if row["rate"] <= 0.5 and row["noisy_layers"] <= 2:
                assert ratio <= 0.45 + 3 * error, name
            if row["rate"] <= 0.5 and row["noisy_layers"] <= 5:
                assert ratio <= 0.75 + 3 * error, name


@pytest.mark.slow
@pytest.mark.parametrize("part", ["ratios", "errors", "times"])
def test_part_prints_its_figures(part):
    printed = run("bench_accuracy.py", "--quick", "--only", part)
    assert printed.startswith("diabetes_0.1 ")
    assert "digits_0.5 " in printed


@pytest.mark.slow
def test_study_of_draws_runs():
    printed = run("lab/04_balanced_draws/study.py", "--quick")
    assert "Sobol', scrambled" in printed
