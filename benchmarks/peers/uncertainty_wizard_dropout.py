# SPDX-License-Identifier: Apache-2.0
"""uncertainty-wizard on the large network (legacy Keras). Prints JSON.

python benchmarks/peers/uncertainty_wizard_dropout.py ROWS SAMPLES ROUNDS
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import importlib.metadata
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness
import numpy as np
import tensorflow as tf
import uncertainty_wizard as uwiz


def main() -> None:
    """Times the prediction of its stochastic model."""
    rows, samples, rounds = (int(argument) for argument in sys.argv[1:4])
    layers = tf.keras.layers
    model = uwiz.models.StochasticSequential()
    model.add(layers.Dropout(0.2, input_shape=(784,)))
    for _ in range(4):
        model.add(layers.Dense(1200, activation="relu"))
        model.add(layers.Dropout(0.5))
    model.add(layers.Dense(10, activation="softmax"))
    model.compile("sgd", "categorical_crossentropy")
    x = np.random.default_rng(0).random((rows, 784), dtype=np.float32)

    def predict() -> object:
        return model.predict_quantified(
            x,
            quantifier="var_ratio",
            sample_size=samples,
            batch_size=rows * samples,
            verbose=0,
        )

    seconds = harness.time_in_turn({"uncertainty-wizard": predict}, rounds)
    version = importlib.metadata.version("uncertainty-wizard")
    print(json.dumps({"version": version, "seconds": seconds}))


if __name__ == "__main__":
    main()
