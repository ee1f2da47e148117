# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of learned noise run, on little data, and write nothing."""

import gzip
import subprocess
import sys

import numpy as np
import pytest

from tests.benchmarks.benchmark_scripts import BENCHMARKS
from tests.benchmarks.benchmark_scripts import run


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
            str(BENCHMARKS / "bench_sparse_vd.py"),
            *("--data", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "lacks train-images" in done.stderr
    assert "Traceback" not in done.stderr
