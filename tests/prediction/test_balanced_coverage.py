# SPDX-License-Identifier: Apache-2.0
"""Intervals of the mean, and rows that stop: `mc_error` keeps its promise.

Blocks of 16 samples are independent, so runs of `T` samples of one long
prediction are predictions with as many seeds. The mean itself is known from
very many samples, or exactly.
"""

import functools

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.predictive import Stats

layers = keras.layers
SEEDS, MOST, ROWS = 400, 128, 6
NUMBERS = (32, 50, 64, 128)
# The widths of layers with noise behind them, and the rate.
NETWORKS = {
    "one layer": ((32,), 0.1),
    "two layers": ((32, 32), 0.5),
    "four layers": ((24,) * 4, 0.3),
    "few units kept": ((32, 32), 0.9),
}


def network(widths, rate, activation=None):
    rng = np.random.default_rng(5)
    stack = [keras.Input((4,))]
    for width in widths:
        stack.append(layers.Dense(width, activation="relu"))
        stack.append(layers.Dropout(rate))
    outputs = 3 if activation else 1
    model = keras.Sequential(
        [*stack, layers.Dense(outputs, activation=activation)]
    )
    # Means and deviations of about 1 behind every layer.
    weights = [
        rng.normal(size=w.shape) * np.sqrt(2 / w.shape[0])
        if w.ndim == 2
        else 0.1 * rng.normal(size=w.shape)
        for w in model.get_weights()
    ]
    model.set_weights(weights)
    return model


def predict(model, num_samples, seed, draws, **options):
    x = np.random.default_rng(6).normal(size=(ROWS, 4)).astype("float32")
    return kbd.predict_with_uncertainty(
        model,
        x,
        num_samples,
        seed=seed,
        verbose=0,
        method=kbd.Sampling(draws=draws, engine="reference"),
        **options,
    )


@functools.cache
def runs(name, activation=None):
    """Samples [128, 400, ...] of both draws, and the exact mean."""
    model = network(*NETWORKS[name], activation)
    # 800 times the samples of the longest run: its error is 1/28 of theirs.
    truth = predict(model, 2 * SEEDS * MOST, 0, "balanced").mean
    parts = [
        predict(model, SEEDS * MOST, 1, draws, return_samples=True).samples
        for draws in ("balanced", "independent")
    ]
    shape = (SEEDS, MOST, *truth.shape)
    return [np.swapaxes(part.reshape(shape), 0, 1) for part in parts], truth


def judged(samples, num_samples, draws):
    """A prediction in which each seed is a row."""
    stats = Stats(num_samples=num_samples, num_rows=SEEDS, draws=draws)
    return kbd.Predictive.from_samples(samples[:num_samples], stats=stats)


def covered(p, truth):
    return np.mean(np.abs(p.mean - truth) <= 1.96 * p.mc_error)


# All of them take half a minute on a busy machine.
some = pytest.mark.parametrize(
    "name",
    [
        pytest.param("one layer", marks=pytest.mark.slow),
        "two layers",
        pytest.param("four layers", marks=pytest.mark.slow),
        "few units kept",
    ],
)


@some
def test_intervals_of_numbers(name):
    (balanced, plain), truth = runs(name)
    for number in NUMBERS:
        p = judged(balanced, number, "balanced")
        # Seeds of six rows with the same masks: the standard error of the
        # share is at most sqrt(0.95 * 0.05 / 400) = 0.011, and 0.92 is three
        # of them below 0.95.
        assert covered(p, truth) >= 0.92, number
        if number == 50:
            other = judged(plain, number, "independent")
            assert p.mc_error.mean() <= other.mc_error.mean()


@pytest.mark.parametrize(
    "name", [pytest.param("one layer", marks=pytest.mark.slow), "two layers"]
)
def test_intervals_of_probabilities(name):
    (balanced, plain), truth = runs(name, "softmax")
    for number in NUMBERS:
        p = judged(balanced, number, "balanced")
        other = judged(plain, number, "independent")
        assert covered(p, truth) >= covered(other, truth) - 0.02, number


@some
def test_error_is_not_hidden(name):
    """The squared error is about what `mc_error` says, or less."""
    (balanced, _), truth = runs(name)
    for number in NUMBERS:
        p = judged(balanced, number, "balanced")
        squared = np.mean((p.mean - truth) ** 2, axis=0)
        said = np.mean(p.mc_error.astype(np.float64) ** 2, axis=0)
        # A mean of 400 squares is known to sqrt(2 / 400) = 0.07.
        assert np.all(squared <= 1.22 * said), number


def stopped(name, blocks_needed=16):
    """Returns after how many samples rows stop, and their relative error.

    The absolute tolerance is that of 256 samples, different in every row, so
    that rows are predicted one by one.
    """
    (balanced, _), truth = runs(name)
    model = network(*NETWORKS[name])
    in_order = np.swapaxes(balanced, 0, 1).reshape(-1, *truth.shape)
    blocks = in_order.reshape(-1, 16, *truth.shape).mean(axis=1)
    needed = np.sqrt(blocks.var(axis=0, ddof=1) / blocks_needed)
    x = np.random.default_rng(6).normal(size=(ROWS, 4)).astype("float32")
    used, errors = [], []
    for row in range(ROWS):
        # Each row of these has masks of its own.
        p = kbd.predict_with_uncertainty(
            model,
            np.repeat(x[row : row + 1], 300, axis=0),
            1024,
            seed=3,
            verbose=0,
            method=kbd.Sampling(
                masks="independent",
                draws="balanced",
                engine="reference",
                absolute_tolerance=float(needed[row, 0]),
            ),
        )
        used.append(p.num_samples_used)
        errors.append((p.mean - truth[row]) / needed[row])
    return np.array(used), np.array(errors)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one layer", "two layers", "four layers"])
def test_rows_do_not_stop_too_soon(name):
    used, errors = stopped(name)
    # 256 samples are needed. Block means alone stop a third at 64 or before,
    # with twice the error.
    assert np.mean(used <= 64) <= 0.01
    # 1800 squares, of six rows: known to 0.04.
    assert np.sqrt(np.mean(errors**2)) <= 1.1
    assert used.mean() < 600
