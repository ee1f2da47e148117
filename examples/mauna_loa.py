# SPDX-License-Identifier: Apache-2.0
"""CO2 over Mauna Loa: a network that knows where its data ends.

Fits the network of Gal and Ghahramani (2016), section 5.1, to the CO2 record
of Mauna Loa up to 2001 and lets it predict until 2024. The output:

- a progress bar of the training, then one of the prediction, which averages
  1000 samples of the network;
- a small table: the band is narrow at the data, and wider 5, 10 and 20 years
  later; beside it, the measurements of those years;
- `demo.png`: the record, the predicted mean with its bands of 68 % and 95 %,
  a few of the sampled functions, and the later measurements, which the network
  never saw.

As in the paper: five hidden layers of 1024 ReLU units, dropout before every
layer of weights but the first, the weight decay that follows from prior and
noise, and 1000 samples. Different from the paper:

- The paper trained for a million steps and let the network find the seasons in
  time alone. This example trains for some hundred steps, so the season is an
  input beside the time, as a sine and a cosine.
- The thresholds of the first layer are spread over the data at the start. With
  zero biases all of them would lie in the middle of the record.

This is not a climate model. Far from the data every sample continues as a
straight line, but the rise of CO2 accelerates: in less than 20 years the
measurements leave the band.

The band is not calibrated. It always widens, but its width depends on the
dropout rate, the initial weights and the length of training.

Usage: `python examples/mauna_loa.py [--quick] [--out demo.png]`

References:
    - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    - Record to 2001: Keeling and Whorf, Scripps Institution of Oceanography,
      as shipped with statsmodels.
    - Annual means from 2002: X. Lan, NOAA/GML, and R. Keeling, Scripps
      (https://gml.noaa.gov/ccgg/trends/data.html).
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _co2_record import MEASURED_LATER
from _co2_record import Array
from _co2_record import Record
from _co2_record import load_record
from _quiet import silent_stderr

with silent_stderr():
    import keras
    from matplotlib.figure import Figure

    import keras_bayesdrop
    from keras_bayesdrop.losses import GaussianLikelihood
    from keras_bayesdrop.regularizers import DropoutL2


RATE = 0.2
HIDDEN_LAYERS = 5
LEARNING_RATE = 1e-3
BATCHES_PER_EPOCH = 4
SEED = 2016
# Prior: the deviation of a weight is 1 / LENGTH_SCALE.
LENGTH_SCALE = 1.0
# Standard deviation of monthly means around a smooth curve with seasons.
NOISE_PPM = 0.6

FIRST_YEAR, LAST_YEAR = 1958, 2025
# Points of the prediction per year: enough to draw the seasons.
POINTS_PER_YEAR = 6
DISTANCES = (5, 10, 20)  # years beyond the data


# Colours of Okabe and Ito, which the colour-blind can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The forecast of the network in ppm, each field [years]."""

    years: Array
    mean: Array
    std: Array
    band68: tuple[Array, Array]
    band95: tuple[Array, Array]
    draws: Array  # [draws, years]

    def average(self, values: Array, begin: float, end: float) -> float:
        """Returns the mean of values between two years."""
        return float(values[(self.years >= begin) & (self.years < end)].mean())


def build_model(record: Record, units: int) -> keras.Model:
    """Returns the network of the paper, with weight decay as derived."""
    examples = len(record.years)
    likelihood = GaussianLikelihood((record.scale / NOISE_PPM) ** 2)

    def decay(rate: float) -> DropoutL2:
        return DropoutL2(rate, LENGTH_SCALE, examples, likelihood)

    layers = [keras.Input((3,))]
    for number in range(HIDDEN_LAYERS):
        first = number == 0
        layers += [
            keras.layers.Dense(
                units,
                activation="relu",
                # Small in the first layer: slow functions of time.
                kernel_initializer="glorot_uniform" if first else "he_normal",
                kernel_regularizer=decay(0.0 if first else RATE),
                bias_initializer=keras.initializers.RandomUniform(-0.1, 0.1)
                if first
                else "zeros",
            ),
            keras_bayesdrop.MCDropout(RATE),
        ]
    layers.append(keras.layers.Dense(1, kernel_regularizer=decay(RATE)))
    return keras.Sequential(layers, name="mauna_loa")


class EpochBar(keras.callbacks.Callback):
    """One progress bar for all of the training."""

    def __init__(self, verbose: int) -> None:
        """Makes a callback; `verbose` is that of `keras.utils.Progbar`."""
        super().__init__()
        self.verbose = verbose

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Makes the bar."""
        self.bar = keras.utils.Progbar(
            self.params["epochs"],
            verbose=self.verbose,
            stateful_metrics=["loss"],
            unit_name="epoch",
        )

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Moves the bar."""
        self.bar.update(epoch + 1, list((logs or {}).items()))


def train(
    model: keras.Model, record: Record, epochs: int, verbose: int
) -> None:
    """Fits the model to the record."""
    batch_size = -(-len(record.years) // BATCHES_PER_EPOCH)
    rate = keras.optimizers.schedules.CosineDecay(
        LEARNING_RATE, epochs * BATCHES_PER_EPOCH
    )
    # XLA is faster per step, but takes seconds to compile.
    model.compile(keras.optimizers.Adam(rate), "mse", jit_compile=epochs >= 80)
    model.fit(
        record.features(record.years),
        record.targets(),
        batch_size=batch_size,
        epochs=epochs,
        verbose=0,
        callbacks=[EpochBar(verbose)],
    )


def forecast(
    model: keras.Model, record: Record, samples: int, verbose: int
) -> Forecast:
    """Predicts from the beginning of the record to long after its end."""
    points = (LAST_YEAR - FIRST_YEAR) * POINTS_PER_YEAR
    years = FIRST_YEAR + (np.arange(points) + 0.5) / POINTS_PER_YEAR
    p = keras_bayesdrop.predict_with_uncertainty(
        model,
        record.features(years),
        num_samples=samples,
        seed=SEED,
        return_samples=True,
        verbose=verbose,
        head=keras_bayesdrop.Regression(
            noise_precision=(record.scale / NOISE_PPM) ** 2
        ),
    )
    low68, high68 = (record.to_ppm(edge) for edge in p.interval(0.68))
    low95, high95 = (record.to_ppm(edge) for edge in p.interval(0.95))
    return Forecast(
        years=years,
        mean=record.to_ppm(p.mean),
        std=np.sqrt(p.total[:, 0]) * record.scale,
        band68=(low68, high68),
        band95=(low95, high95),
        draws=record.to_ppm(p.samples[:4]),
    )


def print_table(record: Record, predicted: Forecast) -> None:
    """Prints the uncertainty inside the data and beyond."""
    rows = [("inside the data", float(FIRST_YEAR), record.end, "-")]
    for distance in DISTANCES:
        year = int(record.end) + distance
        measured = f"{MEASURED_LATER[year]:.1f}"
        when = f"{distance:2d} years beyond ({year})"
        rows.append((when, float(year), float(year + 1), measured))
    print()
    print(f"{'CO2 in ppm':24}{'mean':>8}{'std':>8}{'95 % band':>18}", end="")
    print(f"{'measured':>11}")
    for when, begin, end, measured in rows:
        mean, std, low, high = (
            predicted.average(values, begin, end)
            for values in (predicted.mean, predicted.std, *predicted.band95)
        )
        band = f"+-{(high - low) / 2:.1f}" if measured == "-" else ""
        band = band or f"{low:.1f} .. {high:.1f}"
        print(f"{when:24}{mean:8.1f}{std:8.2f}{band:>18}{measured:>11}")
    print()


def draw(record: Record, predicted: Forecast, samples: int) -> Figure:
    """Returns the picture: the forecast, and below it its deviation."""
    figure = Figure(figsize=(11, 7.5), dpi=120, layout="constrained")
    above, below = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [4, 1]}
    )
    _draw_forecast(above, record, predicted)
    below.fill_between(predicted.years, predicted.std, color=BLUE, alpha=0.3)
    below.plot(predicted.years, predicted.std, color=BLUE, lw=1.5)
    below.set_ylim(0, None)
    below.set_ylabel("Standard\ndeviation, ppm", fontsize=12)
    below.set_xlabel("Year", fontsize=12)
    below.set_xlim(FIRST_YEAR, LAST_YEAR)
    for axes in (above, below):
        axes.axvspan(record.end, LAST_YEAR, color="black", alpha=0.04, lw=0)
        axes.axvline(record.end, color=GREY, ls="--", lw=1.2)
        axes.grid(color="black", alpha=0.08)
        axes.tick_params(labelsize=11)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        "The further from its data, the less sure the network is",
        fontsize=17,
        fontweight="bold",
    )
    above.set_title(
        f"CO$_2$ over Mauna Loa: {samples} Monte Carlo dropout samples "
        "of one Keras model",
        fontsize=12,
        color=GREY,
    )
    return figure


def _draw_forecast(axes: Any, record: Record, predicted: Forecast) -> None:
    years = predicted.years
    for band, alpha, label in (
        (predicted.band95, 0.25, "95 % band"),
        (predicted.band68, 0.35, "68 % band"),
    ):
        axes.fill_between(
            years, *band, color=BLUE, alpha=alpha, lw=0, label=label
        )
    for number, function in enumerate(predicted.draws):
        axes.plot(
            years,
            function,
            color=BLUE,
            alpha=0.5,
            lw=0.6,
            label="_" if number else "single draws of the network",
        )
    axes.plot(years, predicted.mean, color=BLUE, lw=1.8, label="predicted mean")
    axes.plot(
        record.years,
        record.ppm,
        ".",
        color="black",
        ms=3,
        label="record: monthly means, trained on",
    )
    axes.plot(
        [year + 0.5 for year in MEASURED_LATER],
        list(MEASURED_LATER.values()),
        "o",
        color=ORANGE,
        ms=5,
        label="measured later: annual means, never seen",
    )
    axes.set_ylabel("CO$_2$ in the air, ppm", fontsize=12)
    axes.annotate(
        "the data ends here",
        (record.end, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(8, 0),
        textcoords="offset points",
        fontsize=11,
        color=GREY,
    )
    axes.legend(loc="upper left", fontsize=11, frameon=False)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, help="default: 90")
    parser.add_argument("--samples", type=int, help="default: 1000")
    parser.add_argument("--out", type=Path, default=Path("demo.png"))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few seconds: 128 units, 30 epochs, 100 samples",
    )
    return parser.parse_args()


def main() -> None:
    """Trains, predicts, prints the table and writes the picture."""
    began = time.perf_counter()
    arguments = parse_arguments()
    quick = arguments.quick
    epochs = arguments.epochs or (30 if quick else 90)
    samples = arguments.samples or (100 if quick else 1000)
    units = 128 if quick else 1024
    # Not a terminal: only the last line of a bar.
    verbose = 1 if sys.stdout.isatty() else 2
    keras.utils.set_random_seed(SEED)

    record = load_record()
    model = build_model(record, units)
    print(
        f"Training on {len(record.years)} months, {HIDDEN_LAYERS} hidden "
        f"layers of {units} units:",
        flush=True,
    )
    train(model, record, epochs, verbose)
    print(f"Predicting with {samples} samples:", flush=True)
    predicted = forecast(model, record, samples, verbose)
    print_table(record, predicted)
    draw(record, predicted, samples).savefig(arguments.out)
    seconds = time.perf_counter() - began
    print(f"Wrote {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
