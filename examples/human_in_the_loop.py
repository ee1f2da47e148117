# SPDX-License-Identifier: Apache-2.0
"""Hands the digits of which a network is unsure to a human.

Trains a small network with dropout on 200 handwritten digits, and lets it read
1500 others. The output:

- a table: the errors among the remaining digits, by the share of digits that a
  human reads; beside it, the errors if the human reads a random choice;
- `human_in_the_loop.png`: the same as a curve, with the best possible curve, of
  a network that knows its errors; and the digits of which the network is least
  sure.

Usage: `python examples/human_in_the_loop.py [--quick] [--out NAME.png]`

References:
    - [Geifman and El-Yaniv, 2017](https://arxiv.org/abs/1705.08500).
    - Digits: E. Alpaydin and C. Kaynak, UCI repository (1998), as shipped with
      scikit-learn.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _quiet import silent_stderr

with silent_stderr():
    import keras
    from matplotlib.figure import Figure
    from sklearn.datasets import load_digits

    import keras_bayesdrop
    from keras_bayesdrop.metrics import risk_coverage

Array = npt.NDArray[Any]

TRAINED = 200  # of 1797 digits
UNITS = 128
RATE = 0.5
SEED = 2017
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
SHOWN = (3, 6)  # digits in the picture: rows, columns

# Colours of Okabe and Ito, which the colour-blind can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"


def load() -> tuple[Array, Array, Array, Array]:
    """Returns digits to train on with classes, and digits to read."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))
    x, y = (x[order] / 16.0).astype("float32"), y[order]
    return x[:TRAINED], y[:TRAINED], x[TRAINED:], y[TRAINED:]


def train(x: Array, y: Array, epochs: int) -> keras.Model:
    """Returns a trained network."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(UNITS, activation="relu"),
            layers.Dropout(RATE),
            layers.Dense(UNITS, activation="relu"),
            layers.Dropout(RATE),
            layers.Dense(10, activation="softmax"),
        ],
        name="digits",
    )
    # XLA would take longer to compile than it saves.
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    model.fit(x, y, batch_size=20, epochs=epochs, verbose=0)
    return model


def print_table(p: Any, y: Array) -> None:
    """Prints the remaining errors, by the share that the human reads."""
    everything = p.defer(budget=0, y=y).full_risk
    print()
    print(
        f"{'to the human':14}{'threshold':>10}{'wrong among kept':>18}"
        f"{'wrong in all':>14}{'at random':>11}"
    )
    for share in SHARES:
        d = p.defer(budget=share, y=y)
        print(
            f"{share:12.0%}  {d.threshold:10.3f}{d.risk:18.2%}"
            f"{d.residual_risk:14.2%}{everything * (1 - share):11.2%}"
        )
    print()


def draw(p: Any, x: Array, y: Array) -> Figure:
    """Returns the picture: the curve, and the digits handed over first."""
    figure = Figure(figsize=(10, 4.2), dpi=100, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1])
    _draw_curve(left.subplots(), p, y)
    rows, columns = SHOWN
    unsure = p.defer(budget=rows * columns).rows
    pictures = right.subplots(rows, columns)
    for axes, row in zip(pictures.flat, unsure, strict=True):
        axes.imshow(x[row].reshape(8, 8), cmap="Greys")
        axes.set_xticks([])
        axes.set_yticks([])
        first, second = np.argsort(-p.mean[row])[:2]
        good = first == y[row]
        axes.set_title(
            f"{first} or {second}?\nis {y[row]}",
            fontsize=9,
            color=GREY if good else ORANGE,
        )
    right.suptitle("Handed over first (orange: would be wrong)", fontsize=11)
    return figure


def _draw_curve(axes: Any, p: Any, y: Array) -> None:
    d = p.defer(budget=0, y=y)
    handed = 100 * (1 - d.curve.coverage)
    wrong = p.mean.argmax(axis=1) != y
    best = risk_coverage(wrong, wrong)
    axes.plot(
        handed,
        np.full_like(handed, 100 * d.full_risk),
        color=GREY,
        ls=":",
        label="a random choice goes",
    )
    axes.plot(
        handed, 100 * d.curve.risk, color=BLUE, lw=2, label="the unsure go"
    )
    axes.plot(
        handed,
        100 * best.risk,
        color=GREEN,
        ls="--",
        lw=1.2,
        label="the wrong ones go (nobody can)",
    )
    tenth = p.defer(budget=0.1, y=y)
    axes.plot(10, 100 * tenth.risk, "o", color=BLUE, ms=6)
    axes.annotate(
        f"10 % to the human:\n{100 * d.full_risk:.1f} % wrong becomes "
        f"{100 * tenth.risk:.1f} %",
        (10, 100 * tenth.risk),
        xytext=(14, 12),
        textcoords="offset points",
        fontsize=10,
    )
    axes.set_xlim(0, 50)
    axes.set_ylim(0, 145 * d.full_risk)
    axes.set_xlabel("Digits handed to a human, %", fontsize=11)
    axes.set_ylabel("Wrong among those kept, %", fontsize=11)
    axes.set_title("A little help goes a long way", fontsize=12)
    axes.grid(color="black", alpha=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", fontsize=10, frameon=False)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, help="default: 60")
    parser.add_argument("--samples", type=int, help="default: 200")
    parser.add_argument(
        "--out", type=Path, default=Path("human_in_the_loop.png")
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few seconds: 20 epochs, 50 samples",
    )
    return parser.parse_args()


def main() -> None:
    """Trains, predicts, prints the table and writes the picture."""
    began = time.perf_counter()
    arguments = parse_arguments()
    epochs = arguments.epochs or (20 if arguments.quick else 60)
    samples = arguments.samples or (50 if arguments.quick else 200)
    keras.utils.set_random_seed(SEED)
    x, y, x_new, y_new = load()
    print(f"Training on {len(x)} digits, then reading {len(x_new)} others.")
    model = train(x, y, epochs)
    p = keras_bayesdrop.predict_with_uncertainty(
        model, x_new, num_samples=samples, seed=SEED, verbose=0
    )
    print_table(p, y_new)
    draw(p, x_new, y_new).savefig(arguments.out)
    seconds = time.perf_counter() - began
    print(f"Wrote {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
