# SPDX-License-Identifier: Apache-2.0
"""Dropout trained with several samples per row, by `MonteCarloModel`.

Rates and noise precisions are those of the paper's Table 2, and fixed. The
loss sees the precision in the units of its targets, and the kernels have the
weight decay that the derivation gives; the paper's code trains with a
precision of 10, whatever the set, and without decay (`--decay released`).

References:
    - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045), equations 10,
      15 and 17, and section 4 of the supplement.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.regularizers import DropoutL2
from keras_bayesdrop.training import MonteCarloModel
from uci.data import Array
from uci.data import Part
from uci.data import Scaling
from uci.data import UciSet
from uci.method import Method
from uci.network import TrainedNetwork
from uci.network import network
from uci.settings import Settings

# Rate, and noise precision for `y`.
HYPERPARAMETERS = {
    "boston": (0.05, 0.20),
    "concrete": (0.005, 0.075),
    "energy": (0.005, 0.75),
    "kin8nm": (0.01, 250.0),
    "power": (0.005, 0.10),
    "wine": (0.05, 3.5),
    "yacht": (0.005, 0.75),
}
TRAINING_SAMPLES = 10
RELEASED_PRECISION = 10.0
_STEPS_AT_ONCE = 500


def usual(uci: UciSet) -> dict[str, Any]:
    """Returns the settings of the paper."""
    return {"epochs": 4500, "samples": 500, "batch_size": 32}


def by_objective(objective: str) -> Method:
    """Returns the method that maximises an objective of `MonteCarloModel`."""

    def fit(
        part: Part,
        uci: UciSet,
        settings: Settings,
        seed: np.random.SeedSequence,
    ) -> TrainedNetwork:
        scaling = Scaling.of(part)
        rate, tau = HYPERPARAMETERS[uci.name]
        word, masks_word = (int(word) for word in seed.generate_state(2))
        keras.utils.set_random_seed(word)
        model = _model(part, uci, settings, rate)
        released = settings.decay == "released"
        precision = RELEASED_PRECISION if released else tau * scaling.y_std**2
        steps = settings.epochs * math.ceil(len(part.y) / settings.batch_size)
        model.compile(
            keras.optimizers.Adam(settings.learning_rate),
            GaussianNLL(precision),
            mc_samples=TRAINING_SAMPLES,
            mc_objective=objective,
            # On a CPU, XLA is slow at random numbers.
            jit_compile=False,
            steps_per_execution=min(_STEPS_AT_ONCE, steps),
        )
        rows = _batches(
            scaling.scaled_x(part.x),
            scaling.scaled_y(part.y),
            settings.batch_size,
            word,
        )
        model.fit(rows, steps_per_epoch=steps, shuffle=False, verbose=0)
        return TrainedNetwork(
            model,
            model.get_weights(),
            scaling,
            tau,
            settings.samples,
            masks_word,
            {"rate": rate, "tau": tau},
        )

    return Method(fit, usual)


def _model(
    part: Part, uci: UciSet, settings: Settings, rate: float
) -> MonteCarloModel:
    decay = None
    if settings.decay == "derived":
        decay = DropoutL2(
            rate, settings.length_scale, None, len(part.y), loss="nll"
        )
    hidden = (uci.units,) * settings.hidden_layers
    plain = network((part.x.shape[1], *hidden, 1), rate, decay)
    return MonteCarloModel.from_model(plain)


def _batches(x: Array, y: Array, size: int, seed: int) -> tf.data.Dataset:
    """Returns batches without end, each epoch in a new order."""
    rows = tf.data.Dataset.from_tensor_slices((x, y)).cache()
    return rows.shuffle(len(x), seed=seed % 2**31).batch(size).repeat()
