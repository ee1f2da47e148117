# SPDX-License-Identifier: Apache-2.0
"""MC dropout with rate and noise precision from a grid.

The grid is trained on the first four fifths of the training part, all points
at once. The point of highest log-likelihood on the last fifth is trained anew
on the whole part.

References:
    - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.metrics import negative_log_likelihood
from keras_bayesdrop.regularizers import DropoutL2
from uci.data import Part
from uci.data import Scaling
from uci.data import UciSet
from uci.members import Training
from uci.members import train
from uci.network import TrainedNetwork
from uci.network import in_units_of_y
from uci.network import network
from uci.settings import Settings

TRAINED_SHARE = 0.8
# The published files are named for this factor of the set's own `n_epochs`.
EPOCH_FACTOR = 100


# One model serves all networks of a rate in turn, and is traced once.
shared_network = functools.cache(network)


class Point(NamedTuple):
    """A point of the grid: dropout rate, and noise precision for `y`."""

    rate: float
    tau: float


def usual(uci: UciSet) -> dict[str, Any]:
    """Returns the settings of the published grid search."""
    return {
        "epochs": EPOCH_FACTOR * uci.epochs,
        "samples": 10_000,
        "batch_size": 128,
        "hidden_layers": 1,
    }


def fit_each(
    parts: Sequence[Part],
    uci: UciSet,
    settings: Settings,
    seeds: Sequence[np.random.SeedSequence],
) -> list[TrainedNetwork]:
    """Fits parts one after the other."""
    return [
        fit(part, uci, settings, seed)
        for part, seed in zip(parts, seeds, strict=True)
    ]


def fit(
    part: Part, uci: UciSet, settings: Settings, seed: np.random.SeedSequence
) -> TrainedNetwork:
    """Chooses a point of the grid, and trains it on all rows."""
    grid = itertools.product(uci.rates, uci.precisions)
    points = [Point(rate, tau) for rate, tau in grid]
    grid_seed, final_seed = seed.spawn(2)
    fitted, held_out = part.cut(int(TRAINED_SHARE * len(part.y)))
    likelihoods = [
        -negative_log_likelihood(held_out.y, trained.predict(held_out.x))
        for trained in fit_points(points, fitted, uci, settings, grid_seed)
    ]
    best = int(np.argmax(likelihoods))  # the first, if there are several
    (final,) = fit_points([points[best]], part, uci, settings, final_seed)
    final.chosen["validation_log_likelihood"] = likelihoods[best]
    return final


def fit_points(
    points: list[Point],
    part: Part,
    uci: UciSet,
    settings: Settings,
    seed: np.random.SeedSequence,
) -> list[TrainedNetwork]:
    """Trains a network for each point."""
    scaling = Scaling.of(part)
    hidden = (uci.units,) * settings.hidden_layers
    training = Training(
        widths=(part.x.shape[1], *hidden, 1),
        rates=tuple(point.rate for point in points),
        decays=tuple(
            weight_decay(point, scaling.y_std, len(part.y), settings)
            for point in points
        ),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
    )
    training_seed, masks_seed = seed.spawn(2)
    trained = train(
        training,
        scaling.scaled_x(part.x),
        scaling.scaled_y(part.y),
        training_seed,
    )
    return [
        TrainedNetwork(
            shared_network(training.widths, point.rate),
            in_units_of_y(weights, scaling),
            scaling,
            point.tau,
            settings.samples,
            int(masks_seed.generate_state(1)[0]),
            point._asdict(),
        )
        for point, weights in zip(points, trained, strict=True)
    ]


def weight_decay(
    point: Point, y_std: float, rows: int, settings: Settings
) -> float:
    """Returns the factor of the sum of a kernel's squares in the loss.

    Args:
        point: Rate and precision.
        y_std: What the targets were divided by.
        rows: Number of training rows.
        settings: `length_scale` and `decay` count.
    """
    if settings.decay == "released":
        square = settings.length_scale**2
        return square * (1 - point.rate) / (2 * rows * point.tau)
    return DropoutL2(
        rate=point.rate,
        length_scale=settings.length_scale,
        num_train_examples=rows,
        likelihood=GaussianLikelihood(point.tau * y_std**2),
    ).weight_decay
