# SPDX-License-Identifier: Apache-2.0
"""Learning by trying: a contextual bandit of handwritten digits.

Digits come one after the other. A player takes a digit or leaves it. An even
digit wins 1, an odd digit loses 5, and a digit that is left wins nothing. Only
a player who takes a digit learns its value. At the start nothing is known.
Three players:

- uniform: takes half of the digits at random;
- epsilon-greedy: takes the digits that the network predicts to win, but every
  tenth time plays like the first;
- Thompson: draws one function from the network's posterior for each episode of
  20 digits, and takes the digits that this function predicts to win. It
  explores where it is unsure.

The output:

- a table of the regret: how much more a player who knows all digits would have
  won;
- `bandit.png`: the regret over time, and the recent cost per digit.

The network learns from the digits taken so far. Runs differ: the bands in the
picture are the range over repetitions. It is the mushroom bandit of Blundell et
al. with other data.

Thompson sampling does not always win. It wins where trying is expensive, as
here. Where all errors cost the same, epsilon-greedy may be better, because the
spread of a fixed dropout rate does not vanish with more data.

Usage: `python examples/bandit.py [--quick] [--out NAME.png]`

References:
    - Thompson, 1933: On the likelihood that one unknown probability exceeds
      another. Biometrika 25.
    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 5.3.
    - [Riquelme et al., 2018](https://arxiv.org/abs/1802.09127).
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

    from keras_bayesdrop.decisions import ThompsonSampler

Array = npt.NDArray[Any]

WIN, LOSS = 1.0, -5.0
UNITS = 128
RATE = 0.2
EPSILON = 0.1
EPISODE = 20  # digits
STEPS, BATCH = 20, 64  # of training, after each episode
LEARNING_RATE = 2e-3
SEED = 1933

# Colours of Okabe and Ito, which the colour-blind can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"
PLAYERS = {"uniform": GREY, "epsilon-greedy": ORANGE, "Thompson": BLUE}


def build() -> keras.Model:
    """Returns a network that predicts the value of taking a digit."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(UNITS, activation="relu"),
            layers.Dropout(RATE),
            layers.Dense(UNITS, activation="relu"),
            layers.Dropout(RATE),
            layers.Dense(1),
        ],
        name="worth",
    )
    # XLA would take longer to compile than it saves.
    model.compile(
        keras.optimizers.Adam(LEARNING_RATE), "mse", jit_compile=False
    )
    return model


def play(player: str, x: Array, worth: Array, seed: int) -> Array:
    """Plays all digits in turn. Returns the regret after each."""
    keras.utils.set_random_seed(seed)
    random = np.random.default_rng(seed)
    model = build()
    sampler = ThompsonSampler(model, seed=seed)
    taken = np.zeros(len(x), bool)
    for begin in range(0, len(x), EPISODE):
        some = slice(begin, begin + EPISODE)
        contexts = x[some]
        take = random.uniform(size=len(contexts)) < 0.5
        if player == "Thompson":
            function = sampler.sample()
            take = function(contexts)[:, 0] > 0
        elif player == "epsilon-greedy":
            greedy = random.uniform(size=len(contexts)) >= EPSILON
            best = np.asarray(model(contexts))[:, 0] > 0
            take = np.where(greedy, best, take)
        taken[some] = take
        if player != "uniform" and taken.any():
            rows = random.choice(np.flatnonzero(taken), STEPS * BATCH)
            model.fit(x[rows], worth[rows], batch_size=BATCH, verbose=0)
    return np.cumsum(np.maximum(worth, 0.0) - np.where(taken, worth, 0.0))


def print_table(regrets: dict[str, Array]) -> None:
    """Prints the regret of each player, averaged over repetitions."""
    digits = next(iter(regrets.values())).shape[1]
    stops = [digits * part // 4 for part in (1, 2, 3, 4)]
    print()
    print(
        f"{'regret after':16}" + "".join(f"{stop:8d}" for stop in stops), end=""
    )
    print(f"{'per digit at the end':>22}")
    for player, regret in regrets.items():
        mean = regret.mean(axis=0)
        values = "".join(f"{mean[stop - 1]:8.0f}" for stop in stops)
        late = (mean[-1] - mean[stops[2] - 1]) / (digits - stops[2])
        print(f"{player:16}{values}{late:22.3f}")
    print()


def draw(regrets: dict[str, Array]) -> Figure:
    """Returns the picture: the regret, and the recent cost per digit."""
    figure = Figure(figsize=(10, 4.2), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    window = 5 * EPISODE
    for player, regret in regrets.items():
        colour = PLAYERS[player]
        turn = np.arange(1, regret.shape[1] + 1)
        left.fill_between(
            turn,
            regret.min(axis=0),
            regret.max(axis=0),
            color=colour,
            alpha=0.2,
            lw=0,
        )
        mean = regret.mean(axis=0)
        left.plot(turn, mean, color=colour, lw=2, label=player)
        recent = (mean[window:] - mean[:-window]) / window
        right.plot(turn[window:], recent, color=colour, lw=2)
    learned = max(
        regret.max() for name, regret in regrets.items() if name != "uniform"
    )
    left.set_ylim(0, 1.2 * learned)
    left.set_title("Regret: won less than possible, so far", fontsize=12)
    left.legend(fontsize=10, frameon=False, loc="lower right")
    right.set_title(f"Regret per digit, last {window} digits", fontsize=12)
    right.set_ylim(0, 2)
    for axes in (left, right):
        axes.set_xlabel("Digits played", fontsize=11)
        axes.set_xlim(0, len(turn))
        axes.grid(color="black", alpha=0.08)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, help="default: 1000")
    parser.add_argument("--repetitions", type=int, help="default: 2")
    parser.add_argument("--out", type=Path, default=Path("bandit.png"))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few seconds: 400 digits, played once",
    )
    return parser.parse_args()


def main() -> None:
    """Plays, prints the table and writes the picture."""
    began = time.perf_counter()
    arguments = parse_arguments()
    digits = arguments.digits or (400 if arguments.quick else 1000)
    repetitions = arguments.repetitions or (1 if arguments.quick else 2)
    x, y = load_digits(return_X_y=True)
    x = (x / 16.0).astype("float32")
    worth = np.where(y % 2 == 0, WIN, LOSS)
    print(f"Playing {digits} digits, {repetitions} time(s):", end="")
    runs: dict[str, list[Array]] = {player: [] for player in PLAYERS}
    for repetition in range(repetitions):
        seed = SEED + repetition
        order = np.random.default_rng(seed).permutation(len(x))[:digits]
        for player, regrets in runs.items():
            print(f" {player}", end="", flush=True)
            regrets.append(play(player, x[order], worth[order], seed))
    print()
    stacked = {player: np.stack(regrets) for player, regrets in runs.items()}
    print_table(stacked)
    draw(stacked).savefig(arguments.out)
    seconds = time.perf_counter() - began
    print(f"Wrote {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
