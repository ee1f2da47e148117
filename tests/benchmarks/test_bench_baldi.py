# SPDX-License-Identifier: Apache-2.0
"""The benchmark of consistency runs, on little data, and writes no results."""

import gzip

import numpy as np
import pytest

from tests.benchmarks.benchmark_scripts import run


@pytest.fixture(name="mnist")
def make_mnist(tmp_path):
    """A folder with files like those of MNIST: stripes in ten places."""
    random = np.random.default_rng(0)
    for prefix, count in (("train", 300), ("t10k", 50)):
        labels = random.integers(0, 10, count).astype("uint8")
        images = np.zeros((count, 28, 28), "uint8")
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 3] = 255
        for name, head, values in (
            ("images-idx3", 16, images),
            ("labels-idx1", 8, labels),
        ):
            path = tmp_path / f"{prefix}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(head) + values.tobytes()))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_quick_run(mnist, activation):
    picture = mnist / "phases.png"
    printed = run(
        "bench_baldi.py",
        *("--quick", "--data", str(mnist)),
        *("--activation", activation, "--picture", str(picture)),
    )
    assert f"Model `{activation}_64`, 200 masks, 10 inputs" in printed
    for path in ("hidden_1", "hidden_4", "output"):
        assert f"\n{path} " in printed
    assert "% of it)" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
