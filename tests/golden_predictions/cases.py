# SPDX-License-Identifier: Apache-2.0
"""What the golden arrays hold, and the few places that compute it.

A change of the interface needs an edit in `predict` and `quantities` alone, a
move of internals one in `raw_words` and `thresholds`.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.golden_predictions.models import MASK_MODELS
from tests.golden_predictions.models import MODELS
from tests.helpers import flat

SEED = 20240607
SAMPLES = 20  # a block of 16, and a part of the next
LEVELS = (0.05, 0.5, 0.95)
ENGINES = ("reference", "fused")


@dataclasses.dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        model: Name of the model.
        options: What `predict` takes beside the model, inputs and engine.
        engines: The engines that can run it. `None` stands for no engine: all
            noise is taken in closed form.
    """

    model: str
    options: dict[str, Any]
    engines: tuple[str | None, ...]


# What changes when the interface or the internals do.


def predict(
    model: Any,
    x: Any,
    engine: str | None = None,
    num_samples: int = SAMPLES,
    seed: int = SEED,
    **options: Any,
) -> dict[str, Any]:
    """Predicts, and returns the prediction of each output under its name.

    This is the only call of `predict_with_uncertainty` here.

    Args:
        model: The model.
        x: Its inputs.
        engine: Name of the engine, or `None` for the default.
        num_samples: Number of samples.
        seed: Seed of the masks.
        **options: Any of `masks`, `draws`, `method`, `head`, `quantiles`,
            `return_samples`, `layers`, `noise_precision`, `covariance`,
            `fallback`, `tolerance`, `absolute_tolerance`, `first_row` and
            `batch_size`.
    """
    if engine is not None:
        options["engine"] = engine
    # Most arrays are older than balanced draws.
    options.setdefault("draws", "independent")
    prediction = kbd.predict_with_uncertainty(
        model, x, num_samples, seed=seed, verbose=0, **flat(**options)
    )
    if isinstance(prediction, dict):
        return prediction
    if isinstance(prediction, list):
        return {str(number): each for number, each in enumerate(prediction)}
    return {"output": prediction}


def quantities(prediction: Any) -> dict[str, Any]:
    """Returns the arrays of a prediction by name, those that it has."""
    p = prediction
    lower, upper = p.interval(0.9)
    found = {
        "samples": p.samples,
        "mean": p.mean,
        "variance": p.variance,
        "num_samples_used": p.num_samples_used,
        "vote_counts": p.vote_counts,
        "std": p.std,
        "total": p.total,
        "mc_error": p.mc_error,
        "lower": lower,
        "upper": upper,
    }
    has_samples = p.samples is not None
    if has_samples or p.quantile_levels is not None:
        found["quantiles"] = p.quantile(LEVELS)
    if p.task != "regression":
        found["predictive_entropy"] = p.predictive_entropy
        if has_samples or p.mean_entropy is not None:
            found["expected_entropy"] = p.expected_entropy
            found["mutual_information"] = p.mutual_information
    return {
        name: np.asarray(array)
        for name, array in found.items()
        if array is not None
    }


def why_no_fused_engine() -> str:
    """Returns why this machine has no fused engine; empty if it has."""
    return kbd.info().library_problem


def raw_words(balanced: bool = False) -> Any:
    """Returns random words of two sites, uint32 [sites, rows, samples, units].

    Rows do not begin at 0, and samples cross from one block to the next.
    """
    from keras_bayesdrop.random.philox import counter_words

    seed = tf.constant(SEED, tf.uint64)
    sites = [
        counter_words(seed, site, 14, 5, 2, 3, 4, 6, balanced)
        for site in (0, 3)
    ]
    return np.stack([np.asarray(words) for words in sites])


def balanced_words() -> Any:
    """Returns the same of balanced draws."""
    return raw_words(balanced=True)


def thresholds() -> Any:
    """Returns the integers that drop rates are rounded to."""
    from keras_bayesdrop.random.philox import rate_to_threshold

    rates = (0.0, 1e-10, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
    return np.array([rate_to_threshold(rate) for rate in rates], "uint32")


# Cases.

# Models with a chain of dense layers behind their noise.
_CHAINS = (
    "dense_relu",
    "dense_softmax",
    "binary_sigmoid",
    "compiled_logits",
    "conv_net",
    "dict_outputs",
    "gaussian_and_alpha",
    "concrete",
    "nested",
)
# Those that have one before their last noise site, too.
_LONG_CHAINS = (
    "dense_relu",
    "dense_softmax",
    "compiled_logits",
    "gaussian_and_alpha",
    "concrete",
    "nested",
)
_WITHOUT_RULES = ("lstm", "attention", "subclassed", "own_layer")
# Nothing is left to sample if one site is all noise there is.
_ONE_SITE = ("binary_sigmoid",)


def _sampled(masks: str) -> dict[str, Any]:
    return {"masks": masks, "return_samples": True}


def _cases() -> dict[str, Case]:
    cases = {}
    for model in MODELS:
        sampling = ENGINES if model in _CHAINS else ENGINES[:1]
        for masks in ("shared", "independent"):
            cases[f"{model}/{masks}"] = Case(model, _sampled(masks), sampling)
        if model not in _WITHOUT_RULES:
            options = {"method": "moments"}
            cases[f"{model}/moments"] = Case(model, options, (None,))
        if model not in (*_WITHOUT_RULES, *_ONE_SITE) or model == "attention":
            partly = ENGINES if model in _LONG_CHAINS else ENGINES[:1]
            for masks in ("shared", "independent"):
                options = {"method": "rao_blackwell", "masks": masks}
                name = f"{model}/rao_blackwell_{masks}"
                cases[name] = Case(model, options, partly)
    for name, options in _OPTIONS.items():
        model = name.split("/")[0]
        engines = ENGINES if model in _CHAINS else ENGINES[:1]
        closed = options.get("method") == "moments"
        if closed and "fallback" not in options:
            engines = (None,)
        cases[name] = Case(model, options, engines)
    return cases


_OPTIONS: dict[str, dict[str, Any]] = {
    "dense_relu/no_samples_kept": {},
    "dense_relu/balanced": {"draws": "balanced", "return_samples": True},
    "dense_softmax/balanced": {
        "draws": "balanced",
        "masks": "independent",
        "num_samples": 50,
    },
    "dense_relu/balanced_rao_blackwell": {
        "draws": "balanced",
        "method": "rao_blackwell",
    },
    "dense_relu/quantiles": {"quantiles": LEVELS},
    # More samples than quantiles are exact for: they come from a sketch.
    "dense_relu/quantiles_of_many": {"quantiles": LEVELS, "num_samples": 1100},
    "dense_relu/noise_precision": {
        "noise_precision": 4.0,
        "return_samples": True,
    },
    "dense_relu/noise_precision_no_samples": {"noise_precision": 4.0},
    "dense_relu/tolerance": {
        "tolerance": 0.11,
        "noise_precision": 2.0,
        "num_samples": 100,
    },
    "dense_relu/tolerance_independent": {
        "tolerance": 0.13,
        "noise_precision": 2.0,
        "num_samples": 100,
        "masks": "independent",
        "quantiles": LEVELS,
    },
    "dense_relu/first_row": {
        "first_row": 10**6 + 3,
        **_sampled("independent"),
    },
    "dense_relu/batch_size": {"batch_size": 2, **_sampled("independent")},
    "dense_relu/one_layer": {"layers": "second", **_sampled("shared")},
    "dense_relu/negative_seed": {"seed": -1, **_sampled("shared")},
    "dense_relu/moments_full": {"method": "moments", "covariance": "full"},
    "dense_relu/moments_noise_precision": {
        "method": "moments",
        "noise_precision": 4.0,
    },
    "dense_relu/rao_blackwell_diagonal": {
        "method": "rao_blackwell",
        "covariance": "diagonal",
    },
    "dense_relu/rao_blackwell_tolerance": {
        "method": "rao_blackwell",
        "absolute_tolerance": 0.055,
        "num_samples": 100,
    },
    "dense_softmax/quantiles": {"quantiles": LEVELS, "masks": "independent"},
    "dense_softmax/absolute_tolerance": {
        "absolute_tolerance": 0.02,
        "num_samples": 100,
        "masks": "independent",
    },
    "dense_softmax/first_row": {
        "first_row": 2**20,
        "masks": "independent",
        "return_samples": True,
    },
    "compiled_logits/as_regression": {
        "head": "regression",
        "from_logits": False,
        **_sampled("shared"),
    },
    "dict_outputs/tasks": {
        "head": {"value": "regression", "label": "classification"},
        "quantiles": LEVELS,
    },
    "dict_outputs/moments_full": {"method": "moments", "covariance": "full"},
    "lstm/moments_fallback": {"method": "moments", "fallback": "sampling"},
    "own_layer/moments_fallback": {
        "method": "moments",
        "fallback": "sampling",
        "masks": "independent",
    },
}
CASES = _cases()
CALLS = [(name, engine) for name in CASES for engine in CASES[name].engines]

_MASK_OPTIONS: dict[str, dict[str, Any]] = {
    "shared": {"masks": "shared"},
    "independent": {"masks": "independent"},
    "first_row": {"masks": "independent", "first_row": 2**31 + 7},
    "batch_size": {"masks": "independent", "batch_size": 2},
    "large_seed": {"masks": "shared", "seed": 2**63 + 11},
}
MASK_CASES = {
    f"{model}/{name}": Case(
        model,
        options,
        ENGINES if model.endswith("_in_a_chain") else ENGINES[:1],
    )
    for model in MASK_MODELS
    for name, options in _MASK_OPTIONS.items()
}
MASK_CALLS = [
    (name, engine) for name in MASK_CASES for engine in MASK_CASES[name].engines
]

# Integers that masks are made of.
WORDS = {
    "raw_words": raw_words,
    "balanced_words": balanced_words,
    "thresholds": thresholds,
}


# Arrays of cases.


def arrays_of(name: str, engine: str | None) -> dict[str, Any]:
    """Runs a case, and returns its arrays by `output/quantity`."""
    case = CASES[name]
    model, x = MODELS[case.model]()
    made = predict(model, x, engine, **case.options)
    return {
        f"{output}/{quantity}": array
        for output, prediction in made.items()
        for quantity, array in quantities(prediction).items()
    }


def all_samples_of(name: str) -> dict[str, Any]:
    """Runs a case so that it keeps all samples that it could draw."""
    case = CASES[name]
    model, x = MODELS[case.model]()
    without = ("tolerance", "absolute_tolerance", "quantiles")
    options = {k: v for k, v in case.options.items() if k not in without}
    return predict(model, x, "reference", **{**options, "return_samples": True})


def used_by(name: str, factor: float) -> Any:
    """Returns how many samples rows take if tolerances change by a factor."""
    case = CASES[name]
    model, x = MODELS[case.model]()
    options = {
        key: value * factor if key.endswith("tolerance") else value
        for key, value in case.options.items()
    }
    return predict(model, x, "reference", **options)["output"].num_samples_used


def masks_of(name: str, engine: str | None) -> dict[str, Any]:
    """Runs a case of masks, and returns the masks of each output."""
    case = MASK_CASES[name]
    model, x = MASK_MODELS[case.model]()
    made = predict(model, x, engine, return_samples=True, **case.options)
    return {
        output: np.asarray(prediction.samples)
        for output, prediction in made.items()
    }
