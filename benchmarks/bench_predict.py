# SPDX-License-Identifier: Apache-2.0
"""How long prediction with uncertainty takes, beside what people do today.

    python benchmarks/bench_predict.py            # all, about five minutes
    python benchmarks/bench_predict.py --quick    # seconds, writes nothing

Writes `benchmarks/results/predict.json`; `benchmarks/readme_table.py` makes the
table of the README from it.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

import harness
import keras
import numpy as np
import tensorflow as tf
from networks import dense_network
from networks import inputs
from networks import matmul_program
from networks import tiled_program
from networks import uci_network

import keras_bayesdrop as kbd

HERE = pathlib.Path(__file__).parent


def bench_dense(rounds: int, quick: bool) -> dict[str, Any]:
    """All layers stochastic: T = 50 samples of 256 rows."""
    rows, samples = (64, 16) if quick else (256, 50)
    model, x = dense_network(), inputs(rows)

    tiled = tiled_program(model, samples)
    matmuls = matmul_program(model, samples)

    def ours(masks: str, engine: str = "auto") -> Any:
        return kbd.predict_with_uncertainty(
            model,
            x,
            samples,
            seed=0,
            verbose=0,
            method=kbd.Sampling(masks=masks, engine=engine),
        )

    began = time.perf_counter()
    first = ours("shared")
    first_call = time.perf_counter() - began

    # Checked before timed: both ways of sampling agree with the tiled batch.
    # Means of T samples differ by 4 standard errors of a difference at most.
    stacked = np.reshape(tiled(x), (rows, samples, -1))
    tolerance = 4 * np.sqrt(2) * np.max(first.std) / np.sqrt(samples)
    for masks in ("shared", "independent"):
        assert np.max(np.abs(ours(masks).mean - stacked.mean(1))) < tolerance

    cases = {
        "50 calls of model.predict": lambda: [
            model.predict(x, batch_size=rows, verbose=0) for _ in range(samples)
        ],
        "50 calls of model(x, training=True)": lambda: [
            model(x, training=True) for _ in range(samples)
        ],
        "one tf.function, batch tiled 50 times": lambda: tiled(x).numpy(),
        "only the 5 matmuls + relu on the tiled batch": lambda: matmuls(
            x
        ).numpy(),
        "keras_bayesdrop in pure TensorFlow, independent masks": lambda: ours(
            "independent", "reference"
        ),
        "keras_bayesdrop in pure TensorFlow, shared masks": lambda: ours(
            "shared", "reference"
        ),
        "keras_bayesdrop, independent masks": lambda: ours("independent"),
        "keras_bayesdrop, shared masks": lambda: ours("shared"),
    }
    peers, versions = time_peers(rows, samples, rounds)
    return {
        "what": f"784-1200-1200-1200-1200-10, rates 0.2/0.5, T = {samples}, "
        f"{rows} rows",
        "first_call_seconds": first_call,
        "engine": first.stats.engine[-1].engine,
        "peers": versions,
        "seconds": {**peers, **harness.time_in_turn(cases, rounds)},
    }


def time_peers(
    rows: int, samples: int, rounds: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Times other libraries, each in a process of its own, if installed.

    `KBD_PEERS_PYTHON` names the Python that has them; this one by default.
    """
    python = os.environ.get("KBD_PEERS_PYTHON", sys.executable)
    seconds: dict[str, Any] = {}
    versions: dict[str, str] = {}
    for script in sorted((HERE / "peers").glob("*.py")):
        done = subprocess.run(
            [python, str(script), str(rows), str(samples), str(rounds)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:]
            print(f"{script.stem} left out: {' '.join(reason)}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        seconds.update(found["seconds"])
        versions[script.stem] = found["version"]
    return seconds, versions


def bench_head(rounds: int, quick: bool) -> dict[str, Any]:
    """Dropout only in the head of a convolutional network."""
    size, rows, samples = (32, 8, 50) if quick else (96, 32, 50)
    keras.utils.set_random_seed(0)
    stack: list[Any] = [keras.Input((size, size, 3))]
    for filters in (32, 64, 128):
        for _ in range(2):
            stack.append(
                keras.layers.Conv2D(
                    filters, 3, padding="same", activation="relu"
                )
            )
        stack += [
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
        ]
    stack += [
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(10, activation="softmax"),
    ]
    model = keras.Sequential(stack)
    x = np.random.default_rng(0).random((rows, size, size, 3), np.float32)
    once = tf.function(lambda rows: model(rows, training=False))

    def ours() -> Any:
        return kbd.predict_with_uncertainty(
            model, x, samples, seed=0, batch_size=rows, verbose=0
        )

    assert np.all(ours().std.max(axis=0) > 0)
    began = time.perf_counter()
    cases = {
        "one deterministic pass": lambda: once(x).numpy(),
        "T = 50 with uncertainty": ours,
    }
    seconds = harness.time_in_turn(cases, rounds)
    return {
        "what": f"6 convolutions on {size} x {size}, dropout in the head, "
        f"T = {samples}, {rows} rows",
        "seconds": seconds,
        "passes": seconds["T = 50 with uncertainty"]["median"]
        / seconds["one deterministic pass"]["median"],
        "total_seconds": time.perf_counter() - began,
    }


def bench_uci(rounds: int, quick: bool) -> dict[str, Any]:
    """Gal's protocol: 13-50-1, 51 test rows, T = 10,000."""
    samples, timed = (1000, 5) if quick else (10_000, 50)
    model = uci_network()
    x = np.random.default_rng(0).normal(size=(51, 13)).astype(np.float32)
    tiled = tiled_program(model, samples)

    def ours() -> Any:
        return kbd.predict_with_uncertainty(
            model, x, samples, seed=0, verbose=0
        )

    prediction = ours()
    stacked = np.reshape(tiled(x), (51, samples))
    tolerance = 4 * np.sqrt(2) * np.max(prediction.mc_error)
    assert np.max(np.abs(prediction.mean[:, 0] - stacked.mean(1))) < tolerance

    model.predict(x, verbose=0)
    began = time.perf_counter()
    for _ in range(timed):
        model.predict(x, verbose=0)
    a_call = (time.perf_counter() - began) / timed
    cases = {
        "one tf.function, batch tiled": lambda: tiled(x).numpy(),
        "keras_bayesdrop, shared masks": ours,
    }
    seconds = harness.time_in_turn(cases, rounds)
    loop = a_call * samples
    seconds["calls of model.predict (scaled)"] = harness.summary([loop])
    return {
        "what": f"13-50-1, rate 0.05, T = {samples}, 51 rows",
        "predict_calls_timed": timed,
        "seconds": seconds,
        "times_faster_than_predict": loop
        / seconds["keras_bayesdrop, shared masks"]["median"],
    }


def bench_memory(quick: bool) -> dict[str, Any]:
    """Peak memory above the loaded model, in a process of its own each."""
    rows, sizes, runs = (64, (20, 40), 1) if quick else (512, (200, 2000), 3)
    script = str(HERE / "peak_memory.py")

    def peak(samples: int) -> float:
        done = subprocess.run(
            [sys.executable, script, str(rows), str(samples)],
            capture_output=True,
            text=True,
            check=True,
        )
        return float(json.loads(done.stdout)["megabytes"])

    peaks = {f"T = {t}": [peak(t) for _ in range(runs)] for t in sizes}
    return {
        "what": f"784-1200-1200-1200-1200-10, {rows} rows, batch_size 64",
        "runs_in_megabytes": peaks,
        "megabytes_above_loaded_model": {
            name: statistics.median(values) for name, values in peaks.items()
        },
    }


def bench_import(rounds: int) -> dict[str, Any]:
    """What importing adds to importing Keras."""
    code = (
        "import time, keras; began = time.perf_counter(); "
        "import keras_bayesdrop; print(time.perf_counter() - began)"
    )
    seconds = [
        float(
            subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(rounds)
    ]
    return {"seconds_added": harness.summary(seconds)}


def main() -> None:
    """Runs all benchmarks, prints the figures and writes them."""
    options = harness.parser(__doc__ or "").parse_args()
    rounds = 1 if options.quick else options.rounds
    benches = {
        "dense": lambda: bench_dense(rounds, options.quick),
        "head": lambda: bench_head(rounds, options.quick),
        "uci": lambda: bench_uci(rounds, options.quick),
        "import": lambda: bench_import(min(rounds, 5)),
        "memory": lambda: bench_memory(options.quick),
    }
    chosen = [options.only] if options.only else list(benches)
    results = {name: benches[name]() for name in chosen}
    print(json.dumps(results, indent=2))
    if not options.quick:
        print(f"written: {harness.write('predict', results).name}")


if __name__ == "__main__":
    main()
