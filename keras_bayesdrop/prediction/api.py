# SPDX-License-Identifier: Apache-2.0
"""The one call: samples of a model's predictions, reduced to a `Predictive`."""

import contextlib
import dataclasses
import math
import os
import random
import time
import warnings
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop._core.validate import check_not_negative
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_return_samples
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.engines.select import ENGINES
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.survey import KERAS_BATCH
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import complete
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import TASKS
from keras_bayesdrop.prediction.distribute.replicas import replicas_of
from keras_bayesdrop.prediction.distribute.workers import agree
from keras_bayesdrop.prediction.methods.moments import COVARIANCES
from keras_bayesdrop.prediction.methods.moments import MomentsRun
from keras_bayesdrop.prediction.methods.moments import require_graph
from keras_bayesdrop.prediction.methods.rao_blackwell import PartialRun
from keras_bayesdrop.prediction.methods.rao_blackwell import part_to_sample
from keras_bayesdrop.prediction.methods.sampling import Run
from keras_bayesdrop.prediction.model_checks import check_noise
from keras_bayesdrop.prediction.model_checks import check_num_samples
from keras_bayesdrop.prediction.model_checks import unwrap
from keras_bayesdrop.prediction.progress import Progress
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch
from keras_bayesdrop.prediction.sampling.tolerance import Tolerance
from keras_bayesdrop.views import MASKS

METHODS = ("sampling", "moments", "rao_blackwell")
FALLBACKS = ("sampling",)
# The square of a smaller one is zero in float64.
_SMALLEST_TOLERANCE = 1e-150


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
    return_samples: bool | str | os.PathLike[str] = False,
    layers: LayerSelection = None,
    engine: str = "auto",
    noise_precision: float | None = None,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: Any = None,
    covariance: str | None = None,
    fallback: str | None = None,
    tolerance: float | None = None,
    absolute_tolerance: float | None = None,
    first_row: int = 0,
    allow_hidden_noise: bool = False,
) -> Any:
    """Predicts with a Keras model and says how sure it is.

    Draws `num_samples` dropout masks, predicts with each, and reduces the
    predictions as they come:

        y[t] = f(x; mask[t]),    mean = sum{ y[t] : t } / T

    Works on any built Keras model with dropout in it: `keras.layers.Dropout`
    and its relatives, the layers of this package, dropout inside recurrent and
    attention layers, nested and subclassed models. The model is not changed;
    BatchNormalization stays in inference mode.

    Under a `tf.distribute.MirroredStrategy` the devices share the rows of every
    batch, or the samples if rows are few. So do the workers of a
    `MultiWorkerMirroredStrategy`: each calls this with the same arguments, and
    gets the whole result. Masks are those of one device. The strategy is that
    of the scope, or else the one that the model was made under.

    Args:
        model: A built Keras model.
        x: Whatever `model.predict` takes: arrays, lists and dicts of arrays,
            a `tf.data.Dataset`, a `PyDataset`, a generator.
        num_samples: Number `T` of samples, from 2 to 2^24. With a tolerance
            the most that a row may take.
        batch_size: Bounds the memory: no more is used than a forward pass of
            `batch_size` rows takes, whatever `num_samples` and the number of
            rows. By default chosen by the size of the model. Results do not
            depend on it. A batch of a stream is cut if it is larger.
        masks: `"shared"`: sample `t` is one mask for all rows, so it is one
            function of `x`. `"independent"`: a fresh mask per row, as in
            training. Every single row has the same distribution in both.
        method: `"sampling"`, or `"moments"`: mean and variance in one pass
            without samples, by a rule for each layer (see
            `keras_bayesdrop.moments`). Exact for linear networks; for others
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
            Exact up to 1024 samples; beyond from sketches, which take 128 MB
            at most, or what `batch_size` rows take. If those of one row do
            not fit, samples are drawn several times (a warning says so).
        return_samples: Whether to keep all samples, `[T, rows, ...]`. Refused
            if they do not fit into memory. Or the path of a `.npy` file to
            write them to: `samples` of the result is that file, mapped into
            memory. With several outputs a file for each,
            `samples.<name>.npy` for `samples.npy`. Not with a tolerance, nor
            with several workers.
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
            independent, but for what the noise that they share adds to the
            outputs, and costs two to four passes; `"full"` carries the
            covariances between units of dense layers. By default
            `"diagonal"`, but `"full"` for `"rao_blackwell"` if no layer
            behind the last site has more than 64 units.
        fallback: `"sampling"` samples everything up to a layer that has no
            rule, and goes on in closed form given each of `num_samples`
            samples. By default such a layer is an error. `stats.engine` tells
            what was sampled.
        tolerance: Float. Draws samples in blocks of 16, and after each goes
            on only with the rows that still have an output (a class) with

                mc_error > max(absolute_tolerance, tolerance * sqrt(total))

            `total` is the variance of an observation, noise included, so a
            row takes `T = epistemic / total / tolerance**2` samples: few
            where the noise is larger than what the model does not know. For
            a regression give `noise_precision`; without, the noise counts as
            zero, and every row takes `1 / tolerance**2` samples. Samples are
            the first ones of a prediction with fixed `T`. What each row took
            is in `num_samples_used`. 0 or `None`: nothing is relative.
        absolute_tolerance: Float, in units of the output (for classes, of
            the probability). Alone or together with `tolerance`: the larger
            of the two counts. 0 or `None`: nothing is absolute.
        first_row: Int, number of the first row of `x` in a larger whole of
            which `x` is a part. With independent masks a row has the noise of
            its number, so that parts predicted apart, with the same seed, are
            what the whole would be. Shared masks are the same for all rows.
            Masks are numbered for 2^32 rows at least, and for more if the
            model is small; what is beyond is refused.
        allow_hidden_noise: Bool. Noise that cannot be sampled (drawn by
            TensorFlow or NumPy in the code of a layer, or only in a training
            mode that changes more than the noise) is an error that names the
            layer. `True` makes it a warning, and leaves the noise out of the
            uncertainty. Defaults to `False`.

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
    private_keras.require_tensorflow()
    request = Request(
        num_samples=check_num_samples(num_samples),
        batch_size=None
        if batch_size is None
        else check_positive_int(batch_size, "batch_size"),
        shared=check_choice(masks, "masks", MASKS) == "shared",
        seed=_seed(seed),
        quantiles=check_levels(quantiles, "quantiles"),
        return_samples=check_return_samples(return_samples),
        noise_precision=None
        if noise_precision is None
        else check_positive(noise_precision, "noise_precision"),
        tolerance=_tolerance(tolerance, absolute_tolerance),
        first_row=check_int(first_row, "first_row", 0, 2**63 - 1),
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
            **(
                {}
                if samples_a_part
                else {
                    "engine": engine,
                    "tolerance": tolerance,
                    "absolute_tolerance": absolute_tolerance,
                }
            ),
        )
    _check_same_samples(request)
    for leaf in keras.tree.flatten(task):
        check_choice(leaf, "task", TASKS)
    if steps is not None:
        check_positive_int(steps, "steps")
    model, layers = unwrap(model, layers)
    surveyed = survey(model)
    if surveyed.is_complete:
        surveyed = complete(model, None, surveyed, layers)
        check_noise(model, surveyed, layers, allow_hidden_noise)

    def start(example: Any) -> Run | MomentsRun:
        seen = complete(model, example, surveyed, layers)
        if seen is not surveyed:
            check_noise(model, seen, layers, allow_hidden_noise)
        plan = build_plan(model, layers, example, seen)
        if method == "sampling":
            run = Run(model, plan, engine, task, from_logits, request)
            _warn_if_not_adaptive(run)
            return run
        graph = require_graph(model, seen)
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

    num_rows = input_data.count_rows(x)
    request = _with_replicas(
        request,
        model,
        {"seed": seed, "rows": num_rows, "steps": steps, "method": method},
    )
    run = None
    rows = request.batch_size or 0
    progress = Progress(model, callbacks, verbose)
    if num_rows is not None:
        input_data.check_shapes(model, x)
        input_data.check_arrays(x)
        size = request.batch_size or KERAS_BATCH
        run = start(input_data.specs_of(x, size))
        if isinstance(run, Run) and steps is None:
            run.reserve(num_rows)
        run.check_rows(x)
        # Moments are taken on one device.
        replicas = request.num_replicas if isinstance(run, Run) else 1
        rows = rows_per_batch(run.plan, request.batch_size, replicas)
        progress.expect(run.count_steps(num_rows, rows, steps))
    with contextlib.ExitStack() as files, progress:
        if isinstance(run, Run) and num_rows is not None:
            most = num_rows if steps is None else steps * rows
            run.begin(min(num_rows, most), files)
        for batch in input_data.iterate(x, rows, steps):
            if run is None:
                input_data.check_shapes(model, batch.inputs)
                run = start(batch.inputs)
                run.check_rows(batch.inputs)
                if isinstance(run, Run):
                    run.begin(None, files)
            run.add(batch, progress, checked=num_rows is not None)
            if progress.stopped:
                break
        if isinstance(run, Run):
            run.end()
    if run is None:
        raise BayesdropError(
            "`x` is empty. Expected at least one row. Received: a stream "
            "without rows"
        )
    return run.result(time.perf_counter() - began)


def _with_replicas(
    request: Request, model: Any, asked: dict[str, Any]
) -> Request:
    """Returns the request for the replicas there are, of one mind.

    Args:
        request: What this process was asked for.
        model: The model.
        asked: The rest of it that other workers have to be asked for too.
    """
    request = dataclasses.replace(request, replicas=replicas_of(model))
    if request.workers is None:
        return request
    if request.samples_path is not None:
        raise BayesdropError(
            "Workers of a strategy cannot write samples to one file. Expected "
            "return_samples=True or False with several workers. Received: "
            f"return_samples={str(request.samples_path)!r}, "
            f"{request.workers.num_workers} workers"
        )
    asked = {
        **{
            field.name: repr(getattr(request, field.name))
            for field in dataclasses.fields(request)
            if field.name != "replicas"
        },
        **asked,
    }
    return dataclasses.replace(
        request, seed=agree(request.workers, asked, request.seed)
    )


def _check_no_samples(method: str, **asked: Any) -> None:
    """Raises if something was asked for that only samples have."""
    plain = {
        "return_samples": False,
        "quantiles": None,
        "engine": "auto",
        "tolerance": None,
        "absolute_tolerance": None,
    }
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


def _tolerance(
    relative: float | None, absolute: float | None
) -> Tolerance | None:
    """Returns the tolerance asked for; `None` if every row takes the same."""
    given = Tolerance(
        0.0 if relative is None else check_not_negative(relative, "tolerance"),
        0.0
        if absolute is None
        else check_not_negative(absolute, "absolute_tolerance"),
    )
    if 0 < given.relative < _SMALLEST_TOLERANCE:
        raise invalid(
            "tolerance",
            relative,
            f"0, `None`, or a float of at least {_SMALLEST_TOLERANCE:g}: "
            "a row takes up to 1 / tolerance**2 samples",
        )
    return given if given.relative or given.absolute else None


def _check_same_samples(request: Request) -> None:
    if request.tolerance is not None and request.return_samples:
        path = request.samples_path
        kept = True if path is None else repr(str(path))
        raise BayesdropError(
            "`return_samples` needs as many samples for every row, and with a "
            "tolerance rows differ. Expected return_samples=False, or "
            "tolerance=None and absolute_tolerance=None (`quantiles` works "
            f"with both). Received: return_samples={kept}, "
            f"tolerance={request.tolerance.relative}, "
            f"absolute_tolerance={request.tolerance.absolute}"
        )


def _warn_if_not_adaptive(run: Run) -> None:
    """Warns of a relative tolerance that is the same for every row."""
    tolerance = run.request.tolerance
    if (
        tolerance is None
        or tolerance.absolute
        or run.request.noise_precision is not None
        or all(head.task != "regression" for head in run.heads)
    ):
        return
    every = f"{math.ceil(1 / tolerance.relative**2):.7g}"
    warnings.warn(
        "A relative `tolerance` of a regression without `noise_precision` "
        f"takes as many samples for every row: 1 / tolerance**2 = {every}, or "
        "`num_samples` if that is less. Give `noise_precision`, or "
        "`absolute_tolerance` in units of the output.",
        BayesdropWarning,
        stacklevel=4,
    )


def _seed(seed: int | None) -> int:
    if seed is None:
        return random.getrandbits(63)
    return check_int(seed, "seed")
