# SPDX-License-Identifier: Apache-2.0
"""Concrete dropout: the rates it learns, and what a training step costs.

    python benchmarks/bench_concrete.py            # all, some minutes
    python benchmarks/bench_concrete.py --cost     # only the training step
    python benchmarks/bench_concrete.py --quick    # seconds, writes nothing

The data, network, loss and budget are those of the authors' published
notebooks (github.com/yaringal/ConcreteDropout), whose figures stand beside
ours. Writes `benchmarks/results/concrete.json`, or the file of `--out`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import harness
import keras
import numpy as np
import tensorflow as tf

import keras_bayesdrop as kbd

CONVENTIONS = (
    "y = 2 x + 8 + N(0, 1), x ~ N(0, 1); 3 x 1024 relu, a head each for mean "
    "and log variance, concrete dropout before all five layers; loss "
    "(y - mean)^2 / var + log var, twice the negative log-likelihood, so the "
    "KL counts twice (GaussianLikelihood(1.0): l^2 / N and 2 / N in the "
    "notebooks); l = 1e-4, temperature 0.1, initial rate 0.1, batch 20, Adam "
    "at 1e-3. Means of 3 runs (7 for the two smallest sets, which differ most) "
    "after a fixed number of epochs, not of convergence; 20 relaxed masks a "
    "test point, 1000 test points."
)
LENGTH_SCALE = 1e-4
BATCH, SAMPLES, TEST_ROWS = 20, 20, 1000
EPOCHS = {10: 2000, 25: 1000, 50: 500, 100: 200, 1000: 20, 10000: 2}
# What a run comes to depends on the data drawn, the more the fewer they are.
REPEATS = {10: 7, 25: 7, 50: 3, 100: 3, 1000: 3, 10000: 3}
LAYERS = ("layer 1", "layer 2", "layer 3", "mean", "log variance")
# RMSE; rates of the five layers; aleatoric and epistemic deviation.
PUBLISHED = {
    10: {
        "keras": (1.82, (0.077, 0.404, 0.404, 0.403, 0.404), 1.32, 1.09),
        "pytorch": (1.90, (0.076, 0.404, 0.403, 0.403, 0.404), 1.26, 1.28),
    },
    25: {
        "keras": (1.18, (0.069, 0.404, 0.403, 0.403, 0.404), 1.36, 0.82),
        "pytorch": (1.35, (0.080, 0.403, 0.403, 0.403, 0.404), 1.20, 1.08),
    },
    50: {
        "keras": (1.15, (0.071, 0.326, 0.325, 0.325, 0.326), 1.27, 0.75),
        "pytorch": (1.24, (0.068, 0.325, 0.325, 0.325, 0.326), 1.08, 0.90),
    },
    100: {
        "keras": (1.14, (0.079, 0.236, 0.236, 0.236, 0.236), 1.25, 0.67),
        "pytorch": (1.26, (0.073, 0.236, 0.236, 0.236, 0.236), 1.32, 0.72),
    },
    1000: {
        "keras": (1.07, (0.075, 0.231, 0.225, 0.224, 0.233), 1.32, 0.65),
        "pytorch": (1.04, (0.056, 0.232, 0.232, 0.232, 0.236), 1.22, 0.64),
    },
    10000: {
        "keras": (1.21, (0.079, 0.137, 0.127, 0.112, 0.169), 1.23, 0.54),
        "pytorch": (1.00, (0.051, 0.157, 0.158, 0.136, 0.219), 1.12, 0.53),
    },
}


def network(num_train: int) -> keras.Model:
    """The network of the notebooks; outputs [rows, (mean, log variance)]."""

    def dropped(layer: Any) -> Any:
        return kbd.layers.ConcreteDropout(
            layer,
            num_train_examples=num_train,
            length_scale=LENGTH_SCALE,
            sampling="concrete",
            likelihood=kbd.losses.GaussianLikelihood(1.0),
        )

    inputs = x = keras.Input((1,))
    for _ in range(3):
        x = dropped(keras.layers.Dense(1024, activation="relu"))(x)
    heads = [dropped(keras.layers.Dense(1))(x) for _ in range(2)]
    return keras.Model(inputs, keras.layers.Concatenate()(heads))


def loss(y: Any, outputs: Any) -> Any:
    """Twice the negative log-likelihood, as in the notebooks."""
    mean, log_variance = keras.ops.split(outputs, 2, axis=-1)
    errors = keras.ops.square(y - mean) * keras.ops.exp(-log_variance)
    return keras.ops.sum(errors + log_variance, axis=-1)


def run_once(num_train: int, epochs: int, seed: int) -> dict[str, Any]:
    """Trains and tests one network."""
    keras.utils.set_random_seed(seed)
    random = np.random.default_rng([seed, num_train])
    x = random.normal(size=(num_train + TEST_ROWS, 1)).astype("float32")
    noise = random.normal(size=x.shape).astype("float32")
    y = 2 * x + 8 + noise
    model = network(num_train)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    model.fit(
        x[:num_train],
        y[:num_train],
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
    )
    drawn = kbd.predict_with_uncertainty(
        model,
        x[num_train:],
        SAMPLES,
        seed=seed,
        return_samples=True,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
        head="regression",
    ).samples  # [samples, rows, 2]
    means, log_variances = drawn[..., 0], drawn[..., 1]
    errors = means.mean(axis=0) - y[num_train:, 0]
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "rates": [
            layer.rate
            for layer in model.layers
            if isinstance(layer, kbd.layers.ConcreteDropout)
        ],
        # The order of the notebooks: variances are averaged, then the root.
        "aleatoric": float(np.sqrt(np.exp(log_variances.mean(axis=0)).mean())),
        "epistemic": float(np.sqrt(means.var(axis=0).mean())),
    }


def learned_rates(repeats: int | None, quick: bool) -> dict[str, Any]:
    """Trains for every size of the data; ours beside the published."""
    sizes = {10: 20, 100: 4} if quick else EPOCHS
    print(f"{'N':>6} {'epochs':>6}  {'':9} {'RMSE':>5}  ", end="")
    print(*(f"{name:>12}" for name in LAYERS), "  aleatoric  epistemic")
    rows = []
    for num_train, epochs in sizes.items():
        began = time.perf_counter()
        seeds = range(repeats or REPEATS[num_train])
        runs = [run_once(num_train, epochs, seed) for seed in seeds]
        seconds = time.perf_counter() - began
        row: dict[str, Any] = {"num_train": num_train, "epochs": epochs}
        row["ours"] = means(runs)
        for name, (rmse, rates, noise, model) in PUBLISHED[num_train].items():
            row[name] = {
                "rmse": rmse,
                "rates": list(rates),
                "aleatoric": noise,
                "epistemic": model,
            }
        row["hidden_rates_differ_by"] = min(
            max(
                abs(row["ours"]["rates"][layer] - row[name]["rates"][layer])
                for layer in (1, 2)
            )
            for name in PUBLISHED[num_train]
        )
        row["runs"] = runs
        row["seconds"] = seconds
        rows.append(row)
        for name in ("ours", *PUBLISHED[num_train]):
            print_row(row, name)
    return {"conventions": CONVENTIONS, "layers": list(LAYERS), "rows": rows}


def means(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the mean over the runs of each figure."""
    return {
        key: np.mean([run[key] for run in runs], axis=0).round(4).tolist()
        for key in runs[0]
    }


def print_row(row: dict[str, Any], name: str) -> None:
    """Prints a line of the table."""
    each = row[name]
    print(f"{row['num_train']:>6} {row['epochs']:>6}  {name:9} ", end="")
    print(f"{each['rmse']:5.2f}  ", end="")
    print(*(f"{rate:12.3f}" for rate in each["rates"]), end="")
    print(f"  {each['aleatoric']:9.2f}  {each['epistemic']:9.2f}", flush=True)


def training_step(layer: Any, shape: tuple[int, ...]) -> Callable[[], Any]:
    """Returns a compiled step of a layer in the middle of a network.

    That is: forward, gradients of the inputs and of the weights, and Adam.
    (For a layer on the data itself the gradient of the inputs is not needed,
    but the learned rate needs it: there a step takes three matrix products
    instead of two.)
    """
    random = np.random.default_rng(0)
    layer.build(shape)
    weights = layer.trainable_variables
    optimizer = keras.optimizers.Adam()
    optimizer.build(weights)

    @tf.function(jit_compile=True)
    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            errors = tf.square(layer(x, training=True) - y)
            total = tf.reduce_mean(errors) + tf.add_n(
                [tf.constant(0.0), *layer.losses]
            )
        below, gradients = tape.gradient(total, (x, weights))
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return total, below

    x = tf.constant(random.normal(size=shape), tf.float32)
    y = tf.random.stateless_normal(layer.compute_output_shape(shape), (0, 1))
    return lambda: step(x, y)[0].numpy()


def cost(rounds: int, quick: bool) -> dict[str, Any]:
    """Times a training step with concrete dropout beside one without."""
    width, batch, maps = (64, 8, 8) if quick else (1024, 128, 64)

    def dense() -> Any:
        return keras.layers.Dense(width, activation="relu")

    def conv() -> Any:
        return keras.layers.Conv2D(maps, 3, padding="same", activation="relu")

    kinds: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
        f"Dense {width} x {width}, batch {batch}": (dense, (batch, width)),
        f"Conv2D 3 x 3 x {maps} x {maps}, batch 32 of 16 x 16": (
            conv,
            (32, 16, 16, maps),
        ),
    }
    results: dict[str, Any] = {}
    for what, (make, shape) in kinds.items():
        drop = (
            keras.layers.Dropout
            if len(shape) == 2
            else keras.layers.SpatialDropout2D
        )
        cases = {
            "plain": make(),
            "concrete": kbd.layers.ConcreteDropout(make(), 1000),
            "dropout of Keras": keras.Sequential([drop(0.1), make()]),
        }
        steps = {
            name: training_step(layer, shape) for name, layer in cases.items()
        }
        seconds = harness.time_in_turn(steps, rounds)
        ratio = seconds["concrete"]["median"] / seconds["plain"]["median"]
        results[what] = {"seconds": seconds, "concrete_over_plain": ratio}
        medians = {
            name: f"{1e3 * each['median']:.2f} ms"
            for name, each in seconds.items()
        }
        print(f"{what}: {medians}, concrete over plain {ratio:.2f}")
    return results


def main() -> None:
    """Runs what was asked for."""
    options = harness.parser(__doc__.splitlines()[0])
    options.add_argument("--cost", action="store_true", help="only the step")
    options.add_argument("--repeats", type=int, help="runs of each size")
    options.add_argument("--out", type=pathlib.Path, help="file of the results")
    given = options.parse_args()
    rounds = 3 if given.quick else 15 * given.rounds
    results: dict[str, Any] = {"cost": cost(rounds, given.quick)}
    if not given.cost:
        repeats = 1 if given.quick else given.repeats
        results["rates"] = learned_rates(repeats, given.quick)
    if given.out is not None:
        text = {"machine": harness.machine(), **results}
        given.out.write_text(json.dumps(text, indent=2) + "\n")
    elif not given.quick:
        harness.write("concrete", results)


if __name__ == "__main__":
    main()
