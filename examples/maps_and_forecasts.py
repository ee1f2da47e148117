# SPDX-License-Identifier: Apache-2.0
"""Draws uncertainty where an output has a shape: pixels and steps ahead.

Trains two small networks with dropout. One says for each pixel of a noisy image
whether it shows ground, a disc or a square; a part of each image is hidden. The
other forecasts a series for a day, and learns how large its errors are at each
step (`Heteroscedastic`). The output, as PNG files in a folder:

- `uncertainty_map`: an image, its classes, and their uncertainty;
- `fan_chart`: a forecast with bands that widen with time.

It also prints the mean entropy of hidden and of visible pixels, and the share
of later observations inside the bands.

`docs/plots.md` shows these pictures.

Usage: `python examples/maps_and_forecasts.py [--quick] [--out figures]`

References:
    - A. Kendall and Y. Gal, "What Uncertainties Do We Need in Bayesian Deep
      Learning for Computer Vision?" (2017).
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

    import keras_bayesdrop
    from keras_bayesdrop import metrics
    from keras_bayesdrop import plots

Array = npt.NDArray[Any]

SEED = 2017
SIZE = 32  # pixels
CLASSES = ("ground", "disc", "square")
PAST, STEPS = 48, 24  # hours


def paint(
    count: int, random: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Returns noisy images, the class of each pixel, and hidden pixels."""
    down, across = np.mgrid[:SIZE, :SIZE]
    middle = random.uniform(6, SIZE - 6, (2, 2, count, 1, 1))
    half = random.uniform(4, 7, (2, count, 1, 1))
    away = np.abs([down - middle[:, 0], across - middle[:, 1]])
    classes = np.zeros((count, SIZE, SIZE), int)
    classes[np.hypot(away[0, 0], away[1, 0]) < half[0]] = 1
    classes[np.maximum(away[0, 1], away[1, 1]) < half[1]] = 2
    shade = np.array([0.2, 0.5, 0.8])[classes]
    images = shade + random.normal(0.0, 0.08, shade.shape)
    begin = random.integers(4, SIZE - 12, (count, 1, 1))
    hidden = np.broadcast_to(
        (across >= begin) & (across < begin + 8), shade.shape
    )
    images = np.where(hidden, 0.0, images)
    return images[..., np.newaxis].astype("float32"), classes, hidden


def draw_map(quick: bool) -> Any:
    """Trains on painted images, and draws the map of a new one."""
    random = np.random.default_rng(SEED)
    images, classes, _ = paint(200 if quick else 1000, random)
    convolution = keras.layers.Conv2D
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            convolution(24, 5, padding="same", activation="relu"),
            keras_bayesdrop.MCSpatialDropout2D(0.1),
            convolution(
                24, 5, padding="same", dilation_rate=2, activation="relu"
            ),
            keras_bayesdrop.MCSpatialDropout2D(0.2),
            convolution(
                24, 5, padding="same", dilation_rate=2, activation="relu"
            ),
            convolution(len(CLASSES), 1, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        "sparse_categorical_crossentropy",
        jit_compile=False,
    )
    model.fit(
        images, classes, batch_size=25, epochs=6 if quick else 12, verbose=0
    )
    shown, truth, hidden = paint(20, random)
    p = keras_bayesdrop.predict_with_uncertainty(
        model, shown, num_samples=50, seed=SEED, verbose=0
    )
    entropy = p.predictive_entropy
    print(
        f"Accuracy of pixels: {metrics.accuracy(truth, p):.3f}; mean entropy "
        f"{entropy[hidden].mean():.3f} where hidden, "
        f"{entropy[~hidden].mean():.3f} where visible"
    )
    return plots.uncertainty_map(p, shown, row=1, labels=CLASSES)


def observe(count: int, random: np.random.Generator) -> Array:
    """Returns series with a daily wave and a slow random drift."""
    hours = np.arange(PAST + STEPS)
    wave = np.sin(2 * np.pi * (hours / 24 + random.uniform(size=(count, 1))))
    steps = random.normal(0.0, 0.12, (count, len(hours)))
    return (wave + np.cumsum(steps, axis=1))[..., np.newaxis]


def draw_forecast(quick: bool) -> Any:
    """Trains on many series, and draws the forecast of a new one."""
    random = np.random.default_rng(SEED)
    series = observe(1000 if quick else 4000, random).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((PAST, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras_bayesdrop.MCDropout(0.05),
            keras.layers.Dense(128, activation="relu"),
            keras_bayesdrop.MCDropout(0.05),
            keras.layers.Dense(2 * STEPS),  # means, then log variances
        ]
    )
    loss = keras_bayesdrop.losses.HeteroscedasticGaussianNLL()
    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=False)
    model.fit(
        series[:, :PAST],
        series[:, PAST:, 0],
        batch_size=50,
        epochs=20 if quick else 60,
        verbose=0,
    )
    later = observe(200, random)
    p = keras_bayesdrop.predict_with_uncertainty(
        model,
        later[:, :PAST].astype("float32"),
        num_samples=50,
        seed=SEED,
        head="heteroscedastic",
        return_samples=True,
        verbose=0,
    )
    y = later[:, PAST:, 0]
    width = np.sqrt(p.total).mean(axis=0)
    print(
        f"Inside 80 % bands: {metrics.interval_coverage(y, p, 0.8):.3f}; "
        f"deviation {width[0]:.2f} at the first step, {width[-1]:.2f} at the "
        "last"
    )
    return plots.fan_chart(p, later[0, :PAST, 0], y[0])


def save(figure: Figure, path: Path) -> None:
    """Writes a small file without transparency."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    Image.open(drawn).convert("RGB").save(path, format="PNG", optimize=True)


def main() -> None:
    """Trains, predicts, and writes the pictures."""
    began = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("figures"), help="folder of the PNGs"
    )
    parser.add_argument(
        "--quick", action="store_true", help="train with less data"
    )
    arguments = parser.parse_args()
    keras.utils.set_random_seed(SEED)
    pictures = {
        "uncertainty_map": draw_map(arguments.quick),
        "fan_chart": draw_forecast(arguments.quick),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, ax in pictures.items():
        save(ax.figure, arguments.out / f"{name}.png")
    seconds = time.perf_counter() - began
    print(f"Wrote 2 pictures to {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
