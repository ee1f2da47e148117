# SPDX-License-Identifier: Apache-2.0
"""The compiled op: against TensorFlow, against the arithmetic, by size.

    python benchmarks/bench_fused.py            # all, some ten minutes
    python benchmarks/bench_fused.py --quick    # seconds, writes nothing

Writes `benchmarks/results/fused.json`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import harness
import numpy as np
import tensorflow as tf
from networks import RATES
from networks import WIDTHS
from networks import dense_network
from networks import inputs
from networks import matmul_program
from networks import tiled_program
from networks import uci_network

import keras_bayesdrop as kbd
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction.sampling.programs import Block
from keras_bayesdrop.prediction.sampling.programs import sampler_for

HERE = pathlib.Path(__file__).parent
TILED = "one tf.function, tiled batch"
MATMULS = "only the matmuls + relu on the tiled batch"
SHARED = "keras_bayesdrop, shared masks"
INDEPENDENT = "keras_bayesdrop, independent masks"


def compare(
    model: Any, x: np.ndarray, samples: int, rounds: int
) -> dict[str, Any]:
    """Times both kinds of masks beside a tiled batch and its matmuls."""
    tiled = tiled_program(model, samples)
    matmuls = matmul_program(model, samples)

    def ours(masks: str) -> Any:
        return kbd.predict_with_uncertainty(
            model,
            x,
            samples,
            seed=0,
            verbose=0,
            method=kbd.Sampling(masks=masks, engine="fused"),
        )

    check(model, x, min(samples, 64))
    cases = {
        TILED: lambda: tiled(x).numpy(),
        MATMULS: lambda: matmuls(x).numpy(),
        INDEPENDENT: lambda: ours("independent"),
        SHARED: lambda: ours("shared"),
    }
    seconds = harness.time_in_turn(cases, rounds)
    medians = {name: each["median"] for name, each in seconds.items()}
    return {
        "seconds": seconds,
        "shared_times_faster_than_tiled": medians[TILED] / medians[SHARED],
        "independent_times_faster_than_tiled": medians[TILED]
        / medians[INDEPENDENT],
        "independent_in_matmuls": medians[INDEPENDENT] / medians[MATMULS],
    }


def check(model: Any, x: np.ndarray, samples: int) -> None:
    """Both engines agree: the masks are the same, the rest is rounding."""
    for masks in ("shared", "independent"):
        fused, reference = (
            kbd.predict_with_uncertainty(
                model,
                x,
                samples,
                seed=0,
                verbose=0,
                return_samples=True,
                method=kbd.Sampling(masks=masks, engine=engine),
            ).samples
            for engine in ("fused", "reference")
        )
        # Four matmuls of 1,200 terms in float32, values of about 1.
        np.testing.assert_allclose(fused, reference, rtol=1e-3, atol=2e-5)


def surviving_flops(
    widths: Sequence[int], rates: Sequence[float], entries: int
) -> float:
    """Floating-point operations of the networks that dropout leaves."""
    kept = [1 - rate for rate in rates] + [1.0]
    return (
        2.0
        * entries
        * sum(
            widths[n] * kept[n] * widths[n + 1] * kept[n + 1]
            for n in range(len(rates))
        )
    )


def sgemm_rate(rounds: int, size: int = 2048) -> float:
    """Best rate of a square product in TensorFlow, in operations a second."""
    a = tf.random.normal([size, size])
    product = tf.function(lambda b: tf.linalg.matmul(a, b))
    seconds = harness.time_in_turn({"": lambda: product(a).numpy()}, rounds)
    return 2.0 * size**3 / float(seconds[""]["best"])


def bench_large(rounds: int, quick: bool) -> dict[str, Any]:
    """The network of Baldi and Sadowski, and how near it is to sgemm."""
    return against_sgemm("relu", rounds, quick)


def bench_no_zeros(rounds: int, quick: bool) -> dict[str, Any]:
    """The same with tanh: relu makes zeros, and those are skipped."""
    return against_sgemm("tanh", rounds, quick)


def against_sgemm(activation: str, rounds: int, quick: bool) -> dict[str, Any]:
    """Compares, and counts the arithmetic that survives."""
    rows, samples = (32, 16) if quick else (256, 50)
    model = dense_network(activation=activation)
    result = compare(model, inputs(rows), samples, rounds)
    rate = sgemm_rate(max(rounds, 3))
    flops = surviving_flops(WIDTHS, RATES, rows * samples)
    best = result["seconds"][SHARED]["best"]
    return {
        "what": f"{'-'.join(map(str, WIDTHS))}, {activation}, rates 0.2/0.5, "
        f"T = {samples}, {rows} rows",
        **result,
        "sgemm_gflops": rate / 1e9,
        "surviving_gflop": flops / 1e9,
        "ceiling_seconds": flops / rate,
        "share_of_sgemm_rate": flops / best / rate,
    }


def bench_low_rate(rounds: int, quick: bool) -> dict[str, Any]:
    """Rate 0.1 everywhere: little to cut."""
    rows, samples = (32, 16) if quick else (256, 50)
    model = dense_network(rates=[0.1] * len(RATES))
    return {
        "what": f"{'-'.join(map(str, WIDTHS))}, rate 0.1, T = {samples}, "
        f"{rows} rows",
        **compare(model, inputs(rows), samples, rounds),
    }


def bench_small(rounds: int, quick: bool) -> dict[str, Any]:
    """Gal's UCI protocol."""
    samples = 1000 if quick else 10_000
    return {
        "what": f"13-50-1, rate 0.05, T = {samples}, 51 rows",
        **compare(uci_network(), inputs(51, 13), samples, rounds),
    }


def bench_latency(rounds: int, quick: bool) -> dict[str, Any]:
    """One row: the whole call, and the compiled program in it alone.

    The program returns samples, as the tiled batch does; the call plans,
    checks, and reduces the samples to a `Predictive`.
    """
    samples = 50
    model, x = dense_network(), inputs(1)
    found = compare(model, x, samples, 3 * rounds)
    tiled = tiled_program(model, samples)
    cases = {
        TILED: lambda: tiled(x).numpy(),
        **{
            masks: compiled_program(model, x, samples, masks == "shared")
            for masks in ("shared", "independent")
        },
    }
    seconds = harness.time_in_turn(cases, 12 * rounds)
    return {
        "what": f"{'-'.join(map(str, WIDTHS))}, rates 0.2/0.5, "
        f"T = {samples}, 1 row",
        **found,
        "program_seconds": seconds,
        "program_times_faster_than_tiled": {
            masks: seconds[TILED]["median"] / seconds[masks]["median"]
            for masks in ("shared", "independent")
        },
    }


def compiled_program(
    model: Any, x: np.ndarray, samples: int, shared: bool
) -> Callable[[], Any]:
    """Returns what runs per sample, without what a whole call does around."""
    plan = build_plan(model)
    engine, _ = choose_engine(plan, "fused")
    masks = kbd.Sampling(masks="shared" if shared else "independent").mask_rule
    sampler = sampler_for(model, plan, engine, masks)
    cut = sampler.prefix(plan, engine, plan.flatten(tf.constant(x)))
    seed = tf.constant(0, tf.uint64)
    block = Block(
        tf.constant(0, tf.int64),
        tf.constant(samples, tf.int32),
        tf.constant(0, tf.int64),
        tf.constant(len(x), tf.int32),
    )
    blocks = math.ceil(samples / 16)

    def run() -> Any:
        outputs = sampler.suffix(plan, engine, cut, blocks, seed, block)
        return outputs[0].numpy()

    return run


def bench_scaling(rounds: int, quick: bool) -> dict[str, Any]:
    """Exponents of time in the number of samples, and of rows."""
    model = dense_network()
    sizes = (16, 32, 64) if quick else (32, 64, 128, 256, 512)
    few = 32

    def ours(rows: int, samples: int, masks: str) -> Any:
        x = inputs(rows)
        return lambda: kbd.predict_with_uncertainty(
            model,
            x,
            samples,
            seed=0,
            verbose=0,
            method=kbd.Sampling(masks=masks),
        )

    found: dict[str, Any] = {"what": f"sizes {sizes}, the other {few}"}
    for masks in ("shared", "independent"):
        for name, cases in (
            ("samples", {f"{n}": ours(few, n, masks) for n in sizes}),
            ("rows", {f"{n}": ours(n, few, masks) for n in sizes}),
        ):
            seconds = harness.time_in_turn(cases, rounds)
            medians = [each["median"] for each in seconds.values()]
            exponent, _ = np.polyfit(np.log(sizes), np.log(medians), 1)
            found[f"{masks}, {name}"] = {
                "exponent": float(exponent),
                "seconds": seconds,
            }
    return found


def bench_threads(rounds: int, quick: bool) -> dict[str, Any]:
    """Two threads against one, each in a process of its own, in turn."""
    rows, samples = (32, 16) if quick else (256, 50)
    best: dict[str, dict[str, list[float]]] = {}
    for _ in range(1 if quick else 3):
        for threads in ("1", "2"):
            done = subprocess.run(
                [
                    sys.executable,
                    str(HERE / "time_threads.py"),
                    str(rows),
                    str(samples),
                    str(rounds),
                ],
                env={**os.environ, "TF_NUM_INTRAOP_THREADS": threads},
                capture_output=True,
                text=True,
                check=True,
            )
            for masks, seconds in json.loads(done.stdout).items():
                best.setdefault(masks, {}).setdefault(threads, []).append(
                    seconds
                )
    return {
        "seconds": best,
        "two_threads_against_one": {
            masks: min(each["1"]) / min(each["2"])
            for masks, each in best.items()
        },
    }


def main() -> None:
    """Runs all benchmarks, prints the figures and writes them."""
    options = harness.parser(__doc__ or "").parse_args()
    rounds = 1 if options.quick else options.rounds
    benches = {
        "large": bench_large,
        "no_zeros": bench_no_zeros,
        "low_rate": bench_low_rate,
        "small": bench_small,
        "latency": bench_latency,
        "scaling": bench_scaling,
        "threads": bench_threads,
    }
    chosen = [options.only] if options.only else list(benches)
    results = {name: benches[name](rounds, options.quick) for name in chosen}
    print(json.dumps(results, indent=2))
    if not options.quick:
        print(f"written: {harness.write('fused', results).name}")


if __name__ == "__main__":
    main()
