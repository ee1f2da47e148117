# SPDX-License-Identifier: Apache-2.0
"""Draws which inputs and layers a network needs, in three pictures.

Trains one small residual network on the handwritten digits of scikit-learn
(8 x 8 pixels) under four priors: dropout, and the structured priors ARD, ADD
and ARD-ADD of Nalisnick et al. (2019). The output:

- a table: all four have about the same accuracy, but those with ADD do not use
  their hidden layer, and ARD removes the pixels at the border, which are blank
  in nearly all digits;
- `weight_heatmap.png`: the weights of all four on one colour scale. Rows, or
  the whole of a map, are blank where a prior removed them;
- `importance_weights.png`: the weight of each of 10 noise samples in a training
  step, by objective and by dropout rate;
- `scale_curves.png`: the best scale under each hyper-prior, against the size of
  a group of weights.

They are figures 2, 1(a) and 1(b) of the paper for other data. The paper uses
the regressions of the UCI repository and Gaussian posteriors; this example uses
digits and the most probable weights.

Usage: `python examples/shrinkage_figures.py [--quick] [--out figures]`

References:
    - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    - Digits: E. Alpaydin and C. Kaynak, UCI repository (1998), as shipped with
      scikit-learn.
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _quiet import silent_stderr

with silent_stderr():
    import keras
    from sklearn.datasets import load_digits

    import keras_bayesdrop
    from keras_bayesdrop import plots
    from keras_bayesdrop.priors import InverseGammaScale
    from keras_bayesdrop.regularizers import ADD
    from keras_bayesdrop.regularizers import ARD
    from keras_bayesdrop.regularizers import ARDADD

Array = npt.NDArray[Any]

TRAINED = 1200  # of 1797 digits; the others are for the table
UNITS = 32
BATCH = 100
LEARNING_RATE = 0.01
RATE, HIGH_RATE = 0.05, 0.5
SAMPLES = 10  # of the noise, in a training step
SEED = 2019
# The prior of all scales in the paper.
PRIOR = InverseGammaScale(3.0, 3.0)
# Where the colours end: only dropout leaves many larger weights.
LARGEST = 0.5


@dataclasses.dataclass(frozen=True)
class Digits:
    """Pixels in [0, 1] and classes."""

    x: Array  # [digits, 64]
    y: Array  # [digits]


def load() -> tuple[Digits, Digits]:
    """Returns the digits to train on, and those to test on."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))
    x, y = (x[order] / 16.0).astype("float32"), y[order]
    return (
        Digits(x[:TRAINED], y[:TRAINED]),
        Digits(x[TRAINED:], y[TRAINED:]),
    )


def build(hidden: Any = None, rate: float | None = None) -> keras.Model:
    """Returns a network of one residual block.

    Args:
        hidden: Prior of the kernel inside the block. The other two kernels
            have an ARD prior then, as in the paper.
        rate: Rate of dropout, which takes the place of the priors.
    """

    def dropped(x: Any) -> Any:
        return x if rate is None else keras_bayesdrop.MCDropout(rate)(x)

    def dense(units: int, activation: str, name: str, prior: Any) -> Any:
        return keras.layers.Dense(
            units, activation, kernel_regularizer=prior, name=name
        )

    outer = None if rate is not None else ARD(PRIOR, TRAINED)
    inputs = keras.Input((64,))
    x = dense(UNITS, "relu", "pixels", outer)(dropped(inputs))
    block = dense(UNITS, "relu", "hidden", hidden)(dropped(x))
    x = keras.layers.Add()([x, block])
    outputs = dense(10, "softmax", "classes", outer)(dropped(x))
    return keras.Model(inputs, outputs)


def train(model: keras.Model, digits: Digits, epochs: int) -> None:
    """Fits a model to the digits."""
    steps = -(-len(digits.y) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(LEARNING_RATE, epochs * steps)
    # XLA is faster per step, but takes seconds to compile.
    model.compile(
        keras.optimizers.Adam(rate),
        "sparse_categorical_crossentropy",
        jit_compile=False,
        steps_per_execution=steps,
    )
    model.fit(digits.x, digits.y, batch_size=BATCH, epochs=epochs, verbose=0)


def probabilities(
    model: keras.Model, digits: Digits, stochastic: bool
) -> Array:
    """Returns class probabilities, the mean over 100 samples of the noise."""
    if not stochastic:
        return np.asarray(model(digits.x))
    return keras_bayesdrop.predict_with_uncertainty(
        model, digits.x, num_samples=100, seed=SEED, verbose=0
    ).mean


def log_likelihoods(model: keras.Model, digits: Digits) -> Array:
    """Returns log p(y | x, noise) as training sees it, [digits, samples]."""
    samples = keras_bayesdrop.predict_with_uncertainty(
        model,
        digits.x,
        num_samples=SAMPLES,
        return_samples=True,
        seed=SEED,
        verbose=0,
        method=keras_bayesdrop.Sampling(masks="independent"),
    ).samples  # [samples, digits, classes]
    likelihoods = samples[:, np.arange(len(digits.y)), digits.y]
    return np.log(likelihoods + 1e-30).T


def print_table(models: dict[str, keras.Model], digits: Digits) -> None:
    """Prints the accuracy of each network, and what its prior removed."""
    print()
    print(
        f"{'':10}{'accuracy':>9}{'log-lik.':>10}"
        f"{'weights: border':>17}{'inner pixels':>14}{'hidden':>8}"
    )
    place = np.arange(64) % 8
    border = (place == 0) | (place == 7)
    for name, model in models.items():
        p = probabilities(model, digits, name == "dropout")
        right = np.mean(np.argmax(p, axis=-1) == digits.y)
        score = np.mean(np.log(p[np.arange(len(digits.y)), digits.y]))
        pixels, hidden = (
            np.asarray(model.get_layer(layer).kernel)
            for layer in ("pixels", "hidden")
        )
        sizes = (pixels[border], pixels[~border], hidden)
        typical = [np.sqrt(np.mean(np.square(part))) for part in sizes]
        print(
            f"{name:10}{right:9.3f}{score:10.3f}"
            f"{typical[0]:17.3f}{typical[1]:14.3f}{typical[2]:8.3f}"
        )
    print()


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, help="default: 60")
    parser.add_argument(
        "--out", type=Path, default=Path("figures"), help="folder of the PNGs"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds: 10 epochs"
    )
    return parser.parse_args()


def main() -> None:
    """Trains, prints the table and writes the pictures."""
    began = time.perf_counter()
    arguments = parse_arguments()
    epochs = arguments.epochs or (10 if arguments.quick else 60)
    trained, tested = load()
    arms: dict[str, dict[str, Any]] = {
        "dropout": {"rate": RATE},
        "ARD": {"hidden": ARD(PRIOR, TRAINED)},
        "ADD": {"hidden": ADD(PRIOR, TRAINED)},
        "ARD-ADD": {"hidden": ARDADD(PRIOR, PRIOR, TRAINED)},
        "high rate": {"rate": HIGH_RATE},
    }
    print(f"Training {len(arms)} networks on {TRAINED} digits:", end="")
    models = {}
    for name, arm in arms.items():
        print(f" {name}", end="", flush=True)
        keras.utils.set_random_seed(SEED)
        models[name] = build(**arm)
        train(models[name], trained, epochs)
    print()
    high = models.pop("high rate")
    print_table(models, tested)

    arguments.out.mkdir(parents=True, exist_ok=True)
    noisy = {
        f"rate {RATE}": log_likelihoods(models["dropout"], trained),
        f"rate {HIGH_RATE}": log_likelihoods(high, trained),
    }
    figures = {
        "weight_heatmap": plots.weight_heatmap(
            models, layers=["pixels", "hidden"], largest=LARGEST
        ),
        "importance_weights": plots.importance_weights(noisy).figure,
        "scale_curves": plots.scale_curves().figure,
    }
    for name, figure in figures.items():
        figure.savefig(arguments.out / f"{name}.png", dpi=100)
    seconds = time.perf_counter() - began
    print(f"Wrote 3 pictures to {arguments.out} after {seconds:.0f} s.")


if __name__ == "__main__":
    main()
