# SPDX-License-Identifier: Apache-2.0
"""Prints the best seconds of a prediction per kind of masks, as JSON.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/time_threads.py ROWS SAMPLES N

A process of its own, because TensorFlow's threads are set once.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import sys

import harness
from networks import dense_network
from networks import inputs

import keras_bayesdrop as kbd


def main() -> None:
    """Times both kinds of masks."""
    rows, samples, rounds = (int(argument) for argument in sys.argv[1:4])
    model, x = dense_network(), inputs(rows)
    seconds = harness.time_in_turn(
        {
            masks: lambda masks=masks: kbd.predict_with_uncertainty(
                model,
                x,
                samples,
                seed=0,
                verbose=0,
                method=kbd.Sampling(masks=masks),
            )
            for masks in ("shared", "independent")
        },
        rounds,
    )
    print(json.dumps({name: each["best"] for name, each in seconds.items()}))


if __name__ == "__main__":
    main()
