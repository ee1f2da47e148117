# SPDX-License-Identifier: Apache-2.0
"""The one call: samples of a model's predictions, reduced to a `Predictive`."""

import random
import time
import warnings
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop import _data
from keras_bayesdrop import _keras
from keras_bayesdrop._geometry import rows_per_batch
from keras_bayesdrop._moments_run import COVARIANCES
from keras_bayesdrop._moments_run import MomentsRun
from keras_bayesdrop._moments_run import require_graph
from keras_bayesdrop._partial_run import PartialRun
from keras_bayesdrop._partial_run import part_to_sample
from keras_bayesdrop._progress import Progress
from keras_bayesdrop._run import Request
from keras_bayesdrop._run import Run
from keras_bayesdrop._tasks import TASKS
from keras_bayesdrop._validate import check_choice
from keras_bayesdrop._validate import check_int
from keras_bayesdrop._validate import check_levels
from keras_bayesdrop._validate import check_model
from keras_bayesdrop._validate import check_positive
from keras_bayesdrop._validate import check_positive_int
from keras_bayesdrop.engines.select import ENGINES
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import survey
from keras_bayesdrop.sites import LayerSelection
from keras_bayesdrop.sites import Site
from keras_bayesdrop.sites import hidden_noise
from keras_bayesdrop.sites import select_sites
from keras_bayesdrop.views import MASKS
from keras_bayesdrop.views import StochasticView
from keras_bayesdrop.views import View
from keras_bayesdrop.views import source_of

METHODS = ("sampling", "moments", "rao_blackwell")
FALLBACKS = ("sampling",)
_LAYERS_NAMED = 12


def predict_with_uncertainty(
    model: keras.Model,
    x: Any,
    num_samples: int = 50,
    *,
    batch_size: int | None = None,
    masks: str = "shared",
    method: str = "sampling",
    seed: int | None = None,
    task: Any = "auto",
    from_logits: bool | None = None,
    quantiles: Sequence[float] | None = None,
    return_samples: bool = False,
    layers: LayerSelection = None,
    engine: str = "auto",
    noise_precision: float | None = None,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: Any = None,
    covariance: str | None = None,
    fallback: str | None = None,
) -> Any:
    """Predicts with a Keras model and says how sure it is.

    Draws `num_samples` dropout masks, predicts with each, and reduces the
    predictions as they come:

        y[t] = f(x; mask[t]),    mean = sum{ y[t] : t } / T

    Works on any built Keras model with dropout in it: `keras.layers.Dropout`
    and its relatives, the layers of this package, dropout inside recurrent and
    attention layers, nested and subclassed models. The model is not changed;
    BatchNormalization stays in inference mode.

    Args:
        model: A built Keras model.
        x: Whatever `model.predict` takes: arrays, lists and dicts of arrays,
            a `tf.data.Dataset`, a `PyDataset`, a generator.
        num_samples: Number `T` of samples, at least 2.
        batch_size: Bounds the memory: no more is used than a forward pass of
            `batch_size` rows takes, whatever `num_samples` and the number of
            rows. By default chosen by the size of the model. Results do not
            depend on it. A batch of a stream is cut if it is larger.
        masks: `"shared"`: sample `t` is one mask for all rows, so it is one
            function of `x`. `"independent"`: a fresh mask per row, as in
            training. Every single row has the same distribution in both.
        method: `"sampling"`, or `"moments"`: mean and variance in one pass
            without samples, by a rule for each layer (see
            `keras_bayesdrop.analytic`). Exact for linear networks; for others
            units before an activation count as normal. Or `"rao_blackwell"`:
            samples all noise but the last site, and takes mean and variance
            of that and what follows in closed form given each sample. The
            cost is that of sampling, the Monte Carlo error smaller
            (`mc_error`; `stats.variance_reduction` says by how much). Not
            biased if what follows is one linear layer, or with
            `covariance="full"` several; through an activation such as softmax
            by the rules of `"moments"`, which are approximate there. If one
            site is all noise there is, nothing is left to sample, and the
            result is one of `"moments"`.
        seed: Any integer. The same seed gives the same masks, whatever the
            batch size, engine, or process, and the first samples do not
            change when `num_samples` grows. By default drawn at random (from
            Python's generator, so `keras.utils.set_random_seed` governs it).
        task: `"regression"`, `"classification"`, `"binary"`, or `"auto"` to
            read it off the last activation or the compiled loss; or a
            structure of these, like the outputs of the model.
        from_logits: Whether the outputs lack their softmax or sigmoid. By
            default taken from the compiled loss.
        quantiles: Levels in `[0, 1]` to estimate without keeping samples.
        return_samples: Whether to keep all samples, `[T, rows, ...]`.
        layers: Which noise sites are active: a name or path, a regular
            expression, a predicate of the layer, or a sequence of these. All
            by default.
        engine: `"auto"`, `"fused"` or `"reference"`.
        noise_precision: Precision `tau` of the observation noise; adds
            `1 / tau` to the variance of a regression.
        verbose: 0, 1 (progress bar), 2, or `"auto"`, as in `model.predict`.
        steps: Batches of `x` after which to stop.
        callbacks: Keras callbacks; their `on_predict_*` methods are called.
        covariance: For what is in closed form: `"diagonal"` takes units as
            independent and costs two to four passes; `"full"` carries the
            covariances between units of dense layers. By default
            `"diagonal"`, but `"full"` for `"rao_blackwell"` if no layer
            behind the last site has more than 64 units.
        fallback: `"sampling"` samples everything up to a layer that has no
            rule, and goes on in closed form given each of `num_samples`
            samples. By default such a layer is an error. `stats.engine` tells
            what was sampled.

    Returns:
        A `Predictive`, or a structure of them like the model's outputs.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(model, x, num_samples=100)
    p.mean, p.std, p.interval(0.9)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """
    began = time.perf_counter()
    _keras.require_tensorflow()
    request = Request(
        num_samples=_check_num_samples(num_samples),
        batch_size=None
        if batch_size is None
        else check_positive_int(batch_size, "batch_size"),
        shared=check_choice(masks, "masks", MASKS) == "shared",
        seed=_seed(seed),
        quantiles=check_levels(quantiles, "quantiles"),
        return_samples=bool(return_samples),
        noise_precision=None
        if noise_precision is None
        else check_positive(noise_precision, "noise_precision"),
    )
    check_choice(method, "method", METHODS)
    if covariance is not None:
        check_choice(covariance, "covariance", COVARIANCES)
    check_choice(engine, "engine", ENGINES)
    _check_fallback(fallback, method)
    if method != "sampling":
        samples_a_part = method == "rao_blackwell" or fallback is not None
        _check_no_samples(
            method,
            return_samples=return_samples,
            quantiles=quantiles,
            **({} if samples_a_part else {"engine": engine}),
        )
    for leaf in keras.tree.flatten(task):
        check_choice(leaf, "task", TASKS)
    if steps is not None:
        check_positive_int(steps, "steps")
    model, layers = _unwrap(model, layers)
    surveyed = survey(model)
    _check_noise(model, surveyed.sites, layers)

    def start(example: Any) -> Run | MomentsRun:
        plan = build_plan(model, layers, example, surveyed)
        if method == "sampling":
            return Run(model, plan, engine, task, from_logits, request)
        graph = require_graph(model, surveyed)
        part, full = part_to_sample(
            model, graph, plan, method, covariance, fallback
        )
        if part is None:
            return MomentsRun(
                model, graph, plan, full, task, from_logits, request
            )
        return PartialRun(
            model,
            graph,
            plan,
            part,
            method,
            full,
            engine,
            task,
            from_logits,
            request,
        )

    num_rows = _data.count_rows(x)
    run = None
    rows = request.batch_size or 0
    progress = Progress(model, callbacks, verbose)
    if num_rows is not None:
        _data.check_shapes(model, x)
        _data.check_arrays(x)
        run = start(_data.specs_of(x))
        rows = rows_per_batch(run.plan, request.batch_size)
        progress.expect(run.count_steps(num_rows, rows, steps))
    with progress:
        for batch in _data.iterate(x, rows, steps):
            if run is None:
                _data.check_shapes(model, batch.inputs)
                run = start(batch.inputs)
            run.add(batch, progress, checked=num_rows is not None)
            if progress.stopped:
                break
    if run is None:
        raise BayesdropError(
            "`x` is empty. Expected at least one row. Received: a stream "
            "without rows"
        )
    return run.result(time.perf_counter() - began)


def _check_no_samples(method: str, **asked: Any) -> None:
    """Raises if something was asked for that only samples have."""
    plain = {"return_samples": False, "quantiles": None, "engine": "auto"}
    for name, value in asked.items():
        if value != plain[name]:
            raise BayesdropError(
                f"`{name}` needs samples, and moments have none. Expected "
                f"{name}={plain[name]!r} or method='sampling'. Received: "
                f"{name}={value!r}, method={method!r}"
            )


def _check_fallback(fallback: str | None, method: str) -> None:
    if fallback is None:
        return
    check_choice(fallback, "fallback", FALLBACKS)
    if method == "sampling":
        raise BayesdropError(
            "`fallback` is for layers without a rule, and sampling needs "
            "none. Expected fallback=None, or another method. Received: "
            f"fallback={fallback!r}, method='sampling'"
        )


def _check_num_samples(num_samples: Any) -> int:
    count = check_int(num_samples, "num_samples", at_least=1)
    if count == 1:
        raise BayesdropError(
            "The variance of a single sample is undefined. Expected "
            "`num_samples` of at least 2 (for one function use "
            "`sample_function`). Received: num_samples=1"
        )
    return count


def _seed(seed: int | None) -> int:
    if seed is None:
        return random.getrandbits(63)
    return check_int(seed, "seed")


def _unwrap(
    model: Any, layers: LayerSelection
) -> tuple[keras.Model, LayerSelection]:
    """Looks through stochastic views; refuses views that have no noise."""
    check_model(model)
    if isinstance(model, View) and not isinstance(model, StochasticView):
        raise NothingToSampleError(
            f"View `{model.name}` has its noise frozen or off: nothing to "
            "sample. Expected the model itself, or a view made by "
            f"`stochastic`. Received: a {type(model).__name__}"
        )
    return source_of(model, layers)


def _check_noise(
    model: Any, sites: Sequence[Site], layers: LayerSelection
) -> None:
    """Raises if no noise is active; warns of noise that cannot be reached."""
    hidden = hidden_noise(model, "")
    reasons = "; ".join(f"`{path}`: {why}" for path, why in hidden)
    chosen = select_sites(layers, sites) if layers is not None else None
    active = any(
        site.noise.active and (chosen is None or site.path in chosen)
        for site in sites
    )
    if not active:
        seen = [
            f"`{layer.name}` ({type(layer).__name__})" for layer in model.layers
        ]
        named = ", ".join(seen[:_LAYERS_NAMED])
        more = ", ..." if len(seen) > _LAYERS_NAMED else ""
        out_of_reach = f" Out of reach: {reasons}." if hidden else ""
        raise NothingToSampleError(
            f"Model `{model.name}` has no active noise: nothing to sample. "
            "Expected at least one dropout layer with a rate above 0 (such as "
            f"`keras_bayesdrop.MCDropout`). Received: {named}{more}."
            f"{out_of_reach}"
        )
    if hidden:
        warnings.warn(
            "Some layers draw noise in code of their own, which cannot be "
            "reached: neither the seed nor the uncertainty covers it. Use a "
            f"dropout layer inside instead. {reasons}",
            BayesdropWarning,
            stacklevel=3,
        )
