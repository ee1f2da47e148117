# SPDX-License-Identifier: Apache-2.0
"""The cases that `bench` times, and the check that they agree."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.prediction.api import predict_with_uncertainty
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.views import sample_function

_SEED = 0
# Size of an axis that the model leaves open.
_OPEN_SIZE = 32
# Largest rounding error through some layers, in units of the last place.
_ROUNDINGS = 1e4


def random_inputs(model: Any, rows: int) -> Any:
    """Returns standard normal inputs; zeros and ones for integer inputs."""
    graph = private_keras.graph_of(model)
    if graph is None:
        raise BayesdropError(
            f"The shape of the inputs of model `{model.name}` is unknown. "
            "Expected a Sequential or functional model. Received: "
            f"{type(model).__name__}"
        )
    random = np.random.default_rng(_SEED)

    def draw(spec: Any) -> Any:
        shape = [rows, *(size or _OPEN_SIZE for size in spec.shape[1:])]
        dtype = str(spec.dtype)
        if "float" in dtype:
            return random.standard_normal(shape, np.float32)
        return random.integers(0, 2, shape).astype(dtype)

    inputs = {spec.name: draw(spec) for spec in graph.inputs}
    return inputs if len(inputs) > 1 else next(iter(inputs.values()))


def plain_pass(model: Any, x: Any) -> Callable[[], Any]:
    """Returns one compiled forward pass, as in `model.predict`."""
    compiled = tf.function(lambda inputs: model(inputs, training=False))
    tensors = keras.tree.map_structure(tf.convert_to_tensor, x)

    def once() -> Any:
        outputs = compiled(tensors)
        return keras.tree.map_structure(lambda y: y.numpy(), outputs)

    return once


def engine_cases(
    model: Any, x: Any, samples: int, method: Sampling
) -> tuple[dict[str, Callable[[], Any]], list[str]]:
    """Returns a checked case per engine that can run, and notes on them.

    Every sample of every engine is compared with the reference engine. With
    shared masks, the first and the last sample of the reference engine are
    compared with the network that `sample_function` returns.
    """

    def predict(engine: str, keep: bool) -> Any:
        return predict_with_uncertainty(
            model,
            x,
            samples,
            seed=_SEED,
            method=dataclasses.replace(method, engine=engine),
            head="regression",
            return_samples=keep,
            verbose=0,
        )

    reference = [
        p.samples for p in keras.tree.flatten(predict("reference", True))
    ]
    if method.shared:
        for number in (0, samples - 1):
            alone = sample_function(model, _SEED, number, draws=method.draws)(x)
            _compare(
                f"sample_function {number}",
                [np.asarray(y) for y in keras.tree.flatten(alone)],
                [y[number] for y in reference],
                model,
            )
    cases = {"engine reference": lambda: predict("reference", False)}
    try:
        fused = keras.tree.flatten(predict("fused", True))
    except EngineUnavailableError as error:
        return cases, [f"Left out: {error}"]
    off = _compare("fused", [p.samples for p in fused], reference, model)
    cases["engine fused"] = lambda: predict("fused", False)
    return cases, [
        "Checked first: the engines' samples are equal up to rounding "
        f"(largest difference {off:.1e} of the largest value)."
    ]


def _compare(
    what: str, values: list[Any], right: list[Any], model: Any
) -> float:
    """Returns the largest relative difference; raises if it is too large."""
    off = 0.0
    for value, wanted in zip(values, right, strict=True):
        scale = float(np.max(np.abs(wanted))) or 1.0
        apart = np.abs(np.asarray(value, np.float64) - wanted)
        off = max(off, float(np.max(apart)) / scale)
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(
        str(model.compute_dtype), 2.0**-23
    )
    most = min(_ROUNDINGS * unit, 0.1)
    if not off <= most:
        raise BayesdropError(
            f"The samples of {what} are not those of the reference engine. "
            f"Expected a relative difference of at most {most:.1e}. Received: "
            f"{off:.1e}"
        )
    return off
