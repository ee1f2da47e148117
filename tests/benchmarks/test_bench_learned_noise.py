# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of learned noise run, on little data, and write nothing."""

import gzip
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def run(script, *arguments):
    """Runs a benchmark; returns what it prints."""
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    assert before == after
    return done.stdout


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    """A folder with files like those of MNIST: squares in ten places."""
    folder = tmp_path_factory.mktemp("mnist")
    random = np.random.default_rng(0)
    for prefix, count in (("train", 600), ("t10k", 100)):
        labels = random.integers(0, 10, count).astype("uint8")
        images = np.zeros((count, 28, 28), "uint8")
        for image, label in zip(images, labels, strict=True):
            row, column = divmod(int(label), 4)
            image[8 * row : 8 * row + 4, 7 * column : 7 * column + 4] = 255
        for name, head, values in (
            ("images-idx3", 16, images),
            ("labels-idx1", 8, labels),
        ):
            path = folder / f"{prefix}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(head) + values.tobytes()))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("net", ["lenet-300-100", "lenet-5"])
def test_sparse_networks(mnist, net):
    arguments = ("--quick", "--data", str(mnist), "--net", net)
    printed = run("bench_sparse_vd.py", *arguments, "--kl", "exact")
    assert "published" in printed
    assert "\nexact" in printed


@pytest.mark.slow
@pytest.mark.parametrize("script", ["bench_sparse_vd.py", "bench_concrete.py"])
def test_cost_of_a_step(script):
    printed = run(script, "--quick", "--cost")
    assert "over plain" in printed
    assert "Conv2D" in printed


def test_missing_data(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "bench_sparse_vd.py"),
            *("--data", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "lacks train-images" in done.stderr
    assert "Traceback" not in done.stderr
