# SPDX-License-Identifier: Apache-2.0
"""Predicts a data set in blocks on two workers of Ray Data.

The data set has a column with the number of each row in the whole. Noise is a
function of seed, sample and that number, so the result of a row depends neither
on its block nor on the worker that predicts the block.

Needs Ray: `pip install 'ray[data]'`. The data here are random and small, so the
example can also predict all rows at once and compare.
"""

import argparse
import os
import pathlib
import tempfile

# Before TensorFlow is imported, here and in the workers.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A worker has one core of Ray's, and TensorFlow should not take more.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import numpy as np
import ray

import keras_bayesdrop as kbd

SETTINGS = {
    "num_samples": 50,
    "seed": 1,
    "method": kbd.Sampling(masks="independent"),
    "verbose": 0,
}


class Predictor:
    """Loads a model once, and predicts blocks of rows with it."""

    def __init__(self, path):
        """Loads the model from a file that every worker can read."""
        self.model = keras.models.load_model(path)

    def __call__(self, block):
        """Adds mean and deviation to the columns `row` and `x`."""
        rows = block["row"]
        # A block can hold rows from several places: ranges go one by one.
        ranges = np.split(
            np.arange(len(rows)), 1 + np.flatnonzero(np.diff(rows) != 1)
        )
        parts = [
            kbd.predict_with_uncertainty(
                self.model,
                block["x"][part],
                first_row=int(rows[part[0]]),
                **SETTINGS,
            )
            for part in ranges
        ]
        return {
            "row": rows,
            "mean": np.concatenate([part.mean for part in parts]),
            "std": np.concatenate([part.std for part in parts]),
        }


def predict(path, x, num_blocks, rows_at_once):
    """Predicts rows in blocks on two workers; returns mean and deviation.

    Args:
        path: File of the model.
        x: Array [rows, features].
        num_blocks: Blocks that the data are stored in.
        rows_at_once: Rows that a worker is handed.
    """
    data = ray.data.from_items(
        [{"row": row, "x": features} for row, features in enumerate(x)],
        override_num_blocks=num_blocks,
    )
    predicted = data.map_batches(
        Predictor,
        fn_constructor_args=(str(path),),
        batch_size=rows_at_once,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    # Larger results are written to files instead, by `write_parquet`.
    results = sorted(predicted.take_all(), key=lambda each: each["row"])
    return [
        np.stack([each[name] for each in results]) for name in ("mean", "std")
    ]


def main():
    """Predicts in two partitions and at once; prints the difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1000)
    rows = parser.parse_args().rows
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(1),
        ]
    )
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype("float32")
    whole = kbd.predict_with_uncertainty(model, x, **SETTINGS)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.keras"
            model.save(path)
            for num_blocks, rows_at_once in ((2, 64), (5, 37)):
                mean, std = predict(path, x, num_blocks, rows_at_once)
                mean_off = np.abs(mean - whole.mean).max()
                std_off = np.abs(std - whole.std).max()
                print(
                    f"{num_blocks} blocks, {rows_at_once} rows at once: "
                    f"{len(mean)} rows, off by at most {mean_off:.0e} in the "
                    f"mean, {std_off:.0e} in the deviation"
                )
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
