# SPDX-License-Identifier: Apache-2.0
"""Rotates a digit, and shows how a network with dropout reads it.

Trains a small convolutional network on the handwritten digits of scikit-learn
(8 x 8 pixels), takes a digit 1 that it has not seen, and turns it step by step
until it is upside down. The output:

- a table: for every angle the predicted class, its probability, and the
  uncertainty in nats: the whole and the epistemic part (mutual information);
- `rotated_digits.png`: above, the softmax inputs of 100 samples of the network,
  and below, the softmax outputs, for the three most relevant classes.

The difference shows the paper's point. A softmax output near 1 is not
certainty: one sample of the network may be far on one side, while other samples
put the same input on the other. Where the clouds above overlap, the points
below are spread over all of [0, 1].

A second point is not in the paper: at some angles the network is sure and
wrong. Dropout shows how far networks that fit the data differ. It does not show
an error that all of them make.

As in the paper, dropout of 0.5 is on the last hidden layer alone. The digits
there are those of MNIST, and the network is LeNet.

Usage: `python examples/rotated_digits.py [--quick] [--out rotated_digits.png]`

References:
    - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142), section
      5.2 and figure 4.
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
    from scipy import ndimage
    from sklearn.datasets import load_digits

    import keras_bayesdrop
    from keras_bayesdrop import plots

Array = npt.NDArray[Any]

SEED = 2016
TRAINED = 1200  # of 1797 digits
DIGIT = 1
ANGLES = np.arange(0, 181, 15)  # degrees
SAMPLES = 100
CLASSES = 3  # that are drawn


def load() -> tuple[Array, Array, Array]:
    """Returns digits and classes to train on, and the digit to turn."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))
    x, y = (x[order] / 16.0).astype("float32").reshape(-1, 8, 8, 1), y[order]
    first = TRAINED + int(np.argmax(y[TRAINED:] == DIGIT))
    return x[:TRAINED], y[:TRAINED], x[first, :, :, 0]


def turn(digit: Array) -> Array:
    """Returns the digit at all angles, [angles, 8, 8, 1]."""
    turned = [
        ndimage.rotate(digit, angle, reshape=False, order=1) for angle in ANGLES
    ]
    return np.clip(turned, 0.0, 1.0)[..., np.newaxis].astype("float32")


def train(x: Array, y: Array, epochs: int) -> keras.Model:
    """Returns a network that reads digits."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            keras_bayesdrop.MCDropout(0.5),
            layers.Dense(10),
            layers.Softmax(),
        ]
    )
    # XLA is faster per step, but takes seconds to compile.
    model.compile(
        keras.optimizers.Adam(3e-3),
        "sparse_categorical_crossentropy",
        jit_compile=False,
    )
    model.fit(x, y, batch_size=50, epochs=epochs, verbose=0)
    return model


def predict(
    model: keras.Model, x: Array, head: str
) -> keras_bayesdrop.Predictive:
    """Returns the prediction of the turned digit, with its samples."""
    return keras_bayesdrop.predict_with_uncertainty(
        model,
        x,
        num_samples=SAMPLES,
        seed=SEED,
        return_samples=True,
        verbose=0,
        head=head,
    )


def print_table(p: keras_bayesdrop.Predictive) -> None:
    """Prints the predicted class and the uncertainty at each angle."""
    print()
    print(
        f"{'angle':>5}{'read as':>9}{'probability':>13}{'entropy':>9}"
        f"{'mutual information':>20}"
    )
    for row, angle in enumerate(ANGLES):
        read = int(np.argmax(p.mean[row]))
        print(
            f"{angle:5d}{read:9d}{p.mean[row, read]:13.2f}"
            f"{p.predictive_entropy[row]:9.2f}"
            f"{p.mutual_information[row]:20.2f}"
        )
    print()


def draw(
    inputs: keras_bayesdrop.Predictive,
    outputs: keras_bayesdrop.Predictive,
    images: Array,
) -> Figure:
    """Returns the picture: softmax inputs above, outputs below."""
    figure = Figure(figsize=(8.8, 7.2), layout="constrained")
    above, below = figure.subplots(2, 1)
    order = np.argsort(-outputs.mean.max(axis=0))
    classes = sorted(int(number) for number in order[:CLASSES])
    plots.class_scatter(inputs, classes, x=ANGLES, ax=above)
    plots.class_scatter(outputs, classes, x=ANGLES, images=images, ax=below)
    above.set_title(f"A digit {DIGIT} is turned: {SAMPLES} samples per angle")
    above.set_ylabel("softmax input")
    below.set_title("")
    below.set_ylabel("softmax output")
    below.set_xlabel("angle in degrees")
    below.get_legend().remove()
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes a small file with a palette of few colours."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    few = Image.open(drawn).convert("RGB").quantize(64)
    few.save(path, format="PNG", optimize=True)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("rotated_digits.png"))
    parser.add_argument(
        "--quick", action="store_true", help="12 epochs instead of 20"
    )
    return parser.parse_args()


def main() -> None:
    """Trains, turns, predicts, and writes the picture."""
    began = time.perf_counter()
    arguments = parse_arguments()
    keras.utils.set_random_seed(SEED)
    x, y, digit = load()
    model = train(x, y, 12 if arguments.quick else 20)
    images = turn(digit)
    # The same masks, for they depend on the seed alone: a point above and a
    # point below are the same network.
    before = keras.Model(model.inputs, model.layers[-2].output)
    inputs = predict(before, images, "regression")
    outputs = predict(model, images, "classification")
    print_table(outputs)
    save(draw(inputs, outputs, images), arguments.out)
    seconds = time.perf_counter() - began
    print(f"Wrote {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
