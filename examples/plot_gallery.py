# SPDX-License-Identifier: Apache-2.0
"""Draws one picture of each kind of a prediction with uncertainty.

Trains two small networks with dropout, one on noisy values of a function of
one input and one on the handwritten digits of scikit-learn (8 x 8 pixels), and
draws their uncertainty. The output, as PNG files in a folder:

- `predictive_band`: the function, inside the data, in a gap and beyond the end;
- `parity`: predicted against observed values, each with its interval;
- `regression_calibration`: the coverage of the intervals at every level;
- `reliability_diagram`: the accuracy on digits against the confidence;
- `risk_coverage`: the remaining errors if the network may abstain where it is
  unsure;
- `entropy_histogram`: the entropy for digits of known classes, and for digits
  of classes that are not in the training data.

It also prints a case that dropout does not detect: digits that lie on their
side.

`docs/plots.md` shows these pictures.

Usage: `python examples/plot_gallery.py [--quick] [--out figures]`

References:
    - Digits: E. Alpaydin and C. Kaynak, UCI repository (1998), as shipped with
      scikit-learn.
"""

import argparse
import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _quiet import silent_stderr

with silent_stderr():
    import keras
    from matplotlib.figure import Figure
    from PIL import Image
    from sklearn.datasets import load_digits

    import keras_bayesdrop
    from keras_bayesdrop import metrics
    from keras_bayesdrop import plots

Array = npt.NDArray[Any]

SEED = 2016
SAMPLES = 200
NOISE = 0.15  # deviation of an observation
KNOWN = 8  # the reader of digits never sees an 8 or a 9
TRAINED = 150  # digits: few, so that there are errors to draw


def observe(count: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Returns inputs in [-3, -1] and [1, 3], and noisy values there."""
    x = random.uniform(1.0, 3.0, count) * random.choice([-1.0, 1.0], count)
    y = np.sin(2.0 * x) + random.normal(0.0, NOISE, count)
    return x[:, np.newaxis].astype("float32"), y[:, np.newaxis]


def train(
    x: Array, y: Array, outputs: int, rate: float, epochs: int
) -> keras.Model:
    """Returns a trained network: classes if there are several outputs."""
    classes = outputs > 1
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            keras.layers.Dense(128, activation="relu"),
            keras_bayesdrop.MCDropout(rate),
            keras.layers.Dense(128, activation="relu"),
            keras_bayesdrop.MCDropout(rate),
            keras.layers.Dense(outputs, "softmax" if classes else None),
        ]
    )
    loss = "sparse_categorical_crossentropy" if classes else "mse"
    # XLA is faster per step, but takes seconds to compile.
    model.compile(keras.optimizers.Adam(3e-3), loss, jit_compile=False)
    model.fit(x, y, batch_size=50, epochs=epochs, verbose=0)
    return model


def predict(
    model: keras.Model,
    x: Array,
    head: str | keras_bayesdrop.Regression = "auto",
) -> keras_bayesdrop.Predictive:
    """Returns the prediction of the inputs, with its samples."""
    return keras_bayesdrop.predict_with_uncertainty(
        model,
        x,
        num_samples=SAMPLES,
        seed=SEED,
        return_samples=True,
        verbose=0,
        head=head,
    )


def draw_regression(quick: bool) -> dict[str, Any]:
    """Returns the pictures of a regression, by name."""
    random = np.random.default_rng(SEED)
    x, y = observe(100, random)
    x_test, y_test = observe(150, random)
    model = train(x, y, 1, 0.1, epochs=100 if quick else 300)
    grid = np.linspace(-4.5, 4.5, 301, dtype="float32")[:, np.newaxis]
    head = keras_bayesdrop.Regression(noise_precision=NOISE**-2)
    band = predict(model, grid, head)
    tested = predict(model, x_test, head)
    between, beyond = np.abs(grid[:, 0]) < 0.5, np.abs(grid[:, 0]) > 4.0
    print(
        "Deviation of the function: "
        f"{tested.std.mean():.2f} where the data are, "
        f"{band.std[between].mean():.2f} between them, "
        f"{band.std[beyond].mean():.2f} beyond them"
    )
    return {
        "predictive_band": plots.predictive_band(band, grid, y, x_observed=x),
        "parity": plots.parity(y_test, tested),
        "regression_calibration": plots.regression_calibration(y_test, tested),
    }


def draw_digits(quick: bool) -> dict[str, Any]:
    """Returns the pictures of a classification, by name."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))
    x, y = (x[order] / 16.0).astype("float32"), y[order]
    known = y < KNOWN
    x_known, y_known, strange = x[known], y[known], x[~known]
    model = train(
        x_known[:TRAINED],
        y_known[:TRAINED],
        KNOWN,
        0.5,
        epochs=15 if quick else 40,
    )
    x_test, y_test = x_known[TRAINED:], y_known[TRAINED:]
    inside, outside = predict(model, x_test), predict(model, strange)
    lying = np.rot90(x_test.reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64)
    print(f"Accuracy: {metrics.accuracy(y_test, inside):.3f}")
    for what, other in (
        ("digits 8 and 9", outside),
        ("digits on their side", predict(model, lying)),
    ):
        every = [inside.predictive_entropy, other.predictive_entropy]
        auroc = metrics.uncertainty_auroc(
            np.repeat([0, 1], [len(p) for p in every]), np.concatenate(every)
        )
        print(f"AUROC of the entropy for {what}: {auroc:.3f}")
    quantities = ("predictive_entropy", "mutual_information")
    return {
        "reliability_diagram": plots.reliability_diagram(y_test, inside, 10),
        "risk_coverage": plots.risk_coverage(y_test, inside, quantities),
        "entropy_histogram": plots.entropy_histogram(inside, outside),
    }


def save(figure: Figure, path: Path) -> None:
    """Writes a small file without transparency."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    Image.open(drawn).convert("RGB").save(path, format="PNG", optimize=True)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("figures"), help="folder of the PNGs"
    )
    parser.add_argument(
        "--quick", action="store_true", help="train for fewer epochs"
    )
    return parser.parse_args()


def main() -> None:
    """Trains, predicts, and writes the pictures."""
    began = time.perf_counter()
    arguments = parse_arguments()
    keras.utils.set_random_seed(SEED)
    pictures = draw_regression(arguments.quick) | draw_digits(arguments.quick)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, ax in pictures.items():
        save(ax.figure, arguments.out / f"{name}.png")
    seconds = time.perf_counter() - began
    count = len(pictures)
    print(f"Wrote {count} pictures to {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
