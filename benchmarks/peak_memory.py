# SPDX-License-Identifier: Apache-2.0
"""Prints the peak memory of one prediction above the loaded model, as JSON.

    python benchmarks/peak_memory.py ROWS SAMPLES

The model has made a plain prediction and one of two samples before, so that
TensorFlow's own start-up is not counted.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import resource
import sys

import numpy as np
from bench_predict import dense_network

import keras_bayesdrop as kbd


def peak_megabytes() -> float:
    """Returns the largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Predicts and prints by how much the peak grew."""
    rows, samples = int(sys.argv[1]), int(sys.argv[2])
    model = dense_network(1200)
    x = np.random.default_rng(0).random((rows, 784), dtype=np.float32)
    model(x[:64])
    kbd.predict_with_uncertainty(model, x[:2], 2, batch_size=2, verbose=0)
    before = peak_megabytes()
    kbd.predict_with_uncertainty(
        model, x, samples, batch_size=64, seed=0, verbose=0
    )
    print(json.dumps({"megabytes": peak_megabytes() - before}))


if __name__ == "__main__":
    main()
