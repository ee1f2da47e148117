# SPDX-License-Identifier: Apache-2.0
"""Prints the peak memory of one prediction above the loaded model, as JSON.

    python benchmarks/peak_memory.py ROWS SAMPLES

The base is what the process holds after the model was built and has made a
plain prediction; the kernel's record of the peak is reset there (Linux only).
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import pathlib
import sys

from networks import dense_network
from networks import inputs

import keras_bayesdrop as kbd

STATUS = pathlib.Path("/proc/self/status")
RESET = pathlib.Path("/proc/self/clear_refs")


def megabytes(field: str) -> float:
    """Returns a field of the process's status: `VmRSS` now, `VmHWM` peak."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"No such field. Expected one of {STATUS}: {field}")


def main() -> None:
    """Predicts and prints by how much the peak grew."""
    rows, samples = int(sys.argv[1]), int(sys.argv[2])
    model, x = dense_network(), inputs(rows)
    model.predict(x[:64], verbose=0)
    RESET.write_text("5")
    base = megabytes("VmRSS")
    kbd.predict_with_uncertainty(
        model, x, samples, batch_size=64, seed=0, verbose=0
    )
    print(json.dumps({"megabytes": megabytes("VmHWM") - base}))


if __name__ == "__main__":
    main()
