# SPDX-License-Identifier: Apache-2.0
"""Which digits are worth a label? Active learning against chance.

A network begins with one label for each of the ten digits. In each round it
asks for ten more labels, from a pool of 1000, and is trained again. It asks in
three ways:

- random: any ten digits;
- BALD: the ten digits whose single labels carry most information about the
  network. They tend to be of the same kind;
- BatchBALD: the ten digits whose labels together carry most information.

The output:

- a table: the accuracy on unseen digits by the number of labels;
- `active_learning.png`: the same as curves, and the first digits that BALD and
  BatchBALD ask for.

The pool has every digit twice, with a little noise, as pictures of one object
often are. A method that scores each digit alone asks for both copies, so BALD
is worse than random here. BatchBALD is not, but its lead is within the spread.
Runs differ; the bands in the picture are the range over repetitions.

Usage: `python examples/active_learning.py [--quick] [--out NAME.png]`

References:
    - [Gal et al., 2017](https://arxiv.org/abs/1703.02910).
    - [Kirsch et al., 2019](https://arxiv.org/abs/1906.08158).
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
    from keras_bayesdrop.decisions import acquire
    from keras_bayesdrop.metrics import accuracy

Array = npt.NDArray[Any]

TESTED = 500  # digits
POOL, COPIES = 500, 2  # digits, and how often each is there
NOISE = 0.05  # on the pixels of a copy, which go from 0 to 1
ASKED = 10  # labels in a round
UNITS = 128
RATE = 0.5
STEPS, BATCH = 200, 32  # of training, in each round
SAMPLES = 60
CONFIGURATIONS = 300
SEED = 2019

# Colours of Okabe and Ito, which the colour-blind can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"
METHODS = {"random": GREY, "bald": ORANGE, "batchbald": BLUE}
NAMES = {"random": "random", "bald": "BALD", "batchbald": "BatchBALD"}


def load(seed: int) -> tuple[Array, Array, Array, Array]:
    """Returns the pool with its classes, and digits to test on.

    The first ten of the pool are one of each class.
    """
    x, y = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    order = random.permutation(len(x))
    x, y = (x[order] / 16.0).astype("float32"), y[order]
    first = [int(np.argmax(y == digit)) for digit in range(10)]
    rest = [row for row in range(POOL) if row not in first][: POOL - 10]
    chosen = [*first, *rest]
    others = np.setdiff1d(np.arange(len(x)), chosen)[:TESTED]
    pool, labels = np.tile(x[chosen], (COPIES, 1)), np.tile(y[chosen], COPIES)
    noise = random.normal(scale=NOISE, size=pool.shape)
    pool = (pool + noise).astype("float32")
    return pool, labels, x[others], y[others]


def build() -> keras.Model:
    """Returns the network."""
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
    return model


def train_anew(
    model: keras.Model, start: list[Array], x: Array, y: Array, seed: int
) -> None:
    """Fits the network from its first weights, without compiling it again."""
    model.set_weights(start)
    for variable in model.optimizer.variables:
        if "learning_rate" not in variable.path:
            variable.assign(np.zeros(variable.shape))
    rows = np.random.default_rng(seed).integers(0, len(x), STEPS * BATCH)
    model.fit(x[rows], y[rows], batch_size=BATCH, verbose=0)


def learn(
    model: keras.Model, method: str, rounds: int, seed: int
) -> tuple[list[float], Array]:
    """Asks for labels round by round.

    Returns:
        The accuracy after each round, and the digits asked for in the first.
    """
    keras.utils.set_random_seed(seed)
    start = [array.copy() for array in build().get_weights()]
    x, y, x_test, y_test = load(seed)
    labelled = np.arange(10)
    scores, asked = [], x[:0]
    for number in range(rounds + 1):
        train_anew(model, start, x[labelled], y[labelled], seed + number)
        p = keras_bayesdrop.predict_with_uncertainty(
            model, x_test, num_samples=SAMPLES, seed=seed, verbose=0
        )
        scores.append(accuracy(y_test, p))
        if number == rounds:
            break
        rest = np.setdiff1d(np.arange(len(x)), labelled)
        p = keras_bayesdrop.predict_with_uncertainty(
            model,
            x[rest],
            num_samples=SAMPLES,
            return_samples=True,
            seed=seed + number,
            verbose=0,
            method=keras_bayesdrop.Sampling(masks="shared"),
        )
        new = acquire(
            p,
            ASKED,
            method,
            seed=seed + number,
            num_configurations=CONFIGURATIONS,
        )
        labelled = np.concatenate([labelled, rest[new.rows]])
        if number == 0:
            asked = x[rest[new.rows]]
    return scores, asked


def print_table(scores: dict[str, Array]) -> None:
    """Prints the accuracy by the number of labels, averaged."""
    rounds = next(iter(scores.values())).shape[1]
    print()
    print(f"{'labels':>8}", end="")
    print("".join(f"{NAMES[method]:>12}" for method in scores))
    for number in range(rounds):
        print(f"{10 + ASKED * number:8d}", end="")
        means = (table[:, number].mean() for table in scores.values())
        print("".join(f"{mean:12.1%}" for mean in means))
    print()


def draw(scores: dict[str, Array], asked: dict[str, Array]) -> Figure:
    """Returns the picture: curves, and the digits asked for first."""
    figure = Figure(figsize=(10, 4.2), dpi=100, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.2, 1])
    axes = left.subplots()
    for method, table in scores.items():
        labels = 10 + ASKED * np.arange(table.shape[1])
        colour = METHODS[method]
        axes.fill_between(
            labels,
            100 * table.min(axis=0),
            100 * table.max(axis=0),
            color=colour,
            alpha=0.15,
            lw=0,
        )
        axes.plot(
            labels,
            100 * table.mean(axis=0),
            ".-",
            color=colour,
            lw=2,
            label=NAMES[method],
        )
    axes.set_xlabel("Labels", fontsize=11)
    axes.set_ylabel("Digits read right, %", fontsize=11)
    axes.set_title("What a label is worth depends on who asks", fontsize=12)
    axes.grid(color="black", alpha=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=10, frameon=False)
    parts = right.subfigures(2, 1)
    for part, method in zip(parts, ("bald", "batchbald"), strict=True):
        part.suptitle(f"{NAMES[method]} asks first for", fontsize=11)
        for cell, digit in zip(
            part.subplots(2, ASKED // 2).flat, asked[method], strict=True
        ):
            cell.imshow(digit.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
            cell.set_xticks([])
            cell.set_yticks([])
    return figure


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help="default: 7")
    parser.add_argument("--repetitions", type=int, help="default: 2")
    parser.add_argument("--out", type=Path, default=Path("active_learning.png"))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few seconds: 4 rounds, one repetition",
    )
    return parser.parse_args()


def main() -> None:
    """Learns in three ways, prints the table and writes the picture."""
    began = time.perf_counter()
    arguments = parse_arguments()
    rounds = arguments.rounds or (4 if arguments.quick else 7)
    repetitions = arguments.repetitions or (1 if arguments.quick else 2)
    keras.utils.set_random_seed(SEED)
    model = build()
    runs: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    asked = {}
    print(f"{rounds} rounds, {repetitions} time(s):", end="")
    for repetition in range(repetitions):
        for method, curves in runs.items():
            print(f" {NAMES[method]}", end="", flush=True)
            curve, first = learn(model, method, rounds, SEED + repetition)
            curves.append(curve)
            asked.setdefault(method, first)
    print()
    scores = {method: np.array(curves) for method, curves in runs.items()}
    print_table(scores)
    draw(scores, asked).savefig(arguments.out)
    seconds = time.perf_counter() - began
    print(f"Wrote {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
