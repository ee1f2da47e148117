# SPDX-License-Identifier: Apache-2.0
"""The compiled op against TensorFlow on a GPU.

    python benchmarks/bench_gpu.py            # a minute
    python benchmarks/bench_gpu.py --quick    # seconds, writes nothing

Needs a GPU and an op library with kernels for it: `make test-gpu`. Writes
`benchmarks/results/gpu.json`.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sys
from collections.abc import Callable
from typing import Any

import harness
import keras
import numpy as np
import tensorflow as tf
from bench_fused import MATMULS
from bench_fused import TILED
from bench_fused import compiled_program
from networks import RATES
from networks import WIDTHS
from networks import dense_network
from networks import inputs

import keras_bayesdrop as kbd

# Largest difference of probabilities between engines, by what is multiplied:
# some 16 roundings, as in the tests.
TOLERANCES = {
    "float32": 16 * 2.0**-23,
    "TF32": 16 * 2.0**-10,
    "mixed_float16": 16 * 2.0**-10,
}


def tiled(model: Any, x: tf.Tensor, samples: int) -> Callable[[], Any]:
    """Returns TensorFlow's way: one call on the batch, tiled."""
    function = tf.function(
        lambda rows: model(tf.repeat(rows, samples, axis=0), training=True)
    )
    return lambda: function(x).numpy()


def matmuls(model: Any, x: tf.Tensor, samples: int) -> Callable[[], Any]:
    """Returns the products and relus of a tiled batch, and no noise."""
    kernels = [
        tf.cast(weight.value, model.compute_dtype)
        for weight in model.weights
        if weight.name == "kernel"
    ]

    def chain(rows: tf.Tensor) -> tf.Tensor:
        h = tf.repeat(tf.cast(rows, kernels[0].dtype), samples, axis=0)
        for kernel in kernels[:-1]:
            h = tf.nn.relu(h @ kernel)
        return h @ kernels[-1]

    function = tf.function(chain)
    return lambda: function(x).numpy()


def check(model: Any, x: np.ndarray, products: str) -> None:
    """Both engines agree, within what the numbers allow."""
    for masks in ("shared", "independent"):
        fused, reference = (
            np.asarray(
                kbd.predict_with_uncertainty(
                    model,
                    x,
                    16,
                    seed=0,
                    verbose=0,
                    return_samples=True,
                    method=kbd.Sampling(masks=masks, engine=engine),
                ).samples,
                np.float64,
            )
            for engine in ("fused", "reference")
        )
        np.testing.assert_allclose(
            fused, reference, rtol=0, atol=TOLERANCES[products]
        )


def compare(
    products: str, rows: int, samples: int, rounds: int
) -> dict[str, Any]:
    """Times both kinds of masks beside a tiled batch, on one precision."""
    keras.config.set_dtype_policy(
        products if products.startswith("mixed") else "float32"
    )
    tf.config.experimental.enable_tensor_float_32_execution(products == "TF32")
    model, x = dense_network(), inputs(rows)
    check(model, x, products)
    on_device = tf.constant(x)
    names = {
        True: "keras_bayesdrop, shared masks",
        False: "keras_bayesdrop, independent masks",
    }
    cases = {
        TILED: tiled(model, on_device, samples),
        MATMULS: matmuls(model, on_device, samples),
        **{
            name: compiled_program(model, x, samples, shared)
            for shared, name in names.items()
        },
    }
    seconds = harness.time_in_turn(cases, rounds)
    base = seconds[TILED]["median"]
    return {
        "what": f"{'-'.join(map(str, WIDTHS))}, rates {RATES[0]}/{RATES[1]}, "
        f"T = {samples}, {rows} rows, {products}",
        "seconds": seconds,
        "times_faster_than_tiled": {
            name: base / each["median"] for name, each in seconds.items()
        },
    }


def device() -> dict[str, Any]:
    """Describes the GPU."""
    found = tf.config.experimental.get_device_details(
        tf.config.list_physical_devices("GPU")[0]
    )
    build = tf.sysconfig.get_build_info()
    return {
        "name": found.get("device_name"),
        "compute_capability": list(found.get("compute_capability", ())),
        "cuda": build.get("cuda_version"),
    }


def main() -> int:
    """Times and writes."""
    options = harness.parser("Times the compiled op on a GPU.").parse_args()
    if not tf.config.list_physical_devices("GPU"):
        print("Expected a GPU. Received: none", file=sys.stderr)
        return 1
    rounds = 1 if options.quick else 5 * options.rounds
    sizes = {"few rows": (1, 50), "many rows": (256, 50)}
    results: dict[str, Any] = {"gpu": device()}
    for products in TOLERANCES:
        for size, (rows, samples) in sizes.items():
            name = f"{products}, {size}"
            if options.only in (None, name):
                found = compare(products, rows, samples, rounds)
                results[name] = found
                print(found["what"])
                for case, times in found["times_faster_than_tiled"].items():
                    print(f"  {times:6.2f} x  {case}")
    if not options.quick:
        print(harness.write("gpu", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
