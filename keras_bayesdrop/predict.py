# SPDX-License-Identifier: Apache-2.0
"""The one call: samples of a model's predictions, reduced to a `Predictive`."""

import dataclasses
import math
import random
import time
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop import _accumulate
from keras_bayesdrop import _data
from keras_bayesdrop import _keras
from keras_bayesdrop._geometry import Geometry
from keras_bayesdrop._geometry import choose_geometry
from keras_bayesdrop._geometry import rows_per_batch
from keras_bayesdrop._progress import Progress
from keras_bayesdrop._rng import seed_to_key
from keras_bayesdrop._sampler import Sampler
from keras_bayesdrop._sampler import sampler_for
from keras_bayesdrop._sketch import QuantileSketch
from keras_bayesdrop._tasks import Head
from keras_bayesdrop._tasks import resolve_heads
from keras_bayesdrop._validate import check_choice
from keras_bayesdrop._validate import check_int
from keras_bayesdrop._validate import check_levels
from keras_bayesdrop._validate import check_model
from keras_bayesdrop._validate import check_positive
from keras_bayesdrop._validate import check_positive_int
from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.engines.select import ENGINES
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import find_sites
from keras_bayesdrop.predictive import EngineStep
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Stats
from keras_bayesdrop.sites import LayerSelection
from keras_bayesdrop.sites import hidden_noise
from keras_bayesdrop.sites import select_sites
from keras_bayesdrop.views import MASKS
from keras_bayesdrop.views import StochasticView
from keras_bayesdrop.views import View

METHODS = ("sampling",)
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
        method: `"sampling"`.
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
    check_choice(engine, "engine", ENGINES)
    if steps is not None:
        check_positive_int(steps, "steps")
    model, layers = _unwrap(model, layers)
    _check_noise(model, layers)
    num_rows = _data.count_rows(x)
    run = None
    rows = request.batch_size or 0
    progress = Progress(model, callbacks, verbose)
    if num_rows is not None:
        _data.check_shapes(model, x)
        _data.check_arrays(x)
        example = _data.specs_of(x)
        run = Run(model, layers, example, engine, task, from_logits, request)
        rows = rows_per_batch(run.plan, request.batch_size)
        progress.expect(run.count_steps(num_rows, rows, steps))
    with progress:
        for batch in _data.iterate(x, rows, steps):
            if run is None:
                run = Run(
                    model,
                    layers,
                    batch.inputs,
                    engine,
                    task,
                    from_logits,
                    request,
                )
            run.add(batch, progress, checked=num_rows is not None)
            if progress.stopped:
                break
    if run is None:
        raise BayesdropError(
            "`x` is empty. Expected at least one row. Received: a stream "
            "without rows"
        )
    return run.result(time.perf_counter() - began, rows)


@dataclasses.dataclass(frozen=True)
class Request:
    """What was asked for, checked."""

    num_samples: int
    batch_size: int | None
    shared: bool
    seed: int
    quantiles: tuple[float, ...] | None
    return_samples: bool
    noise_precision: float | None


class Run:
    """One prediction under way: the plan, and what has been collected."""

    def __init__(
        self,
        model: Any,
        layers: LayerSelection,
        example: Any,
        engine: str,
        task: Any,
        from_logits: bool | None,
        request: Request,
    ) -> None:
        self.model = model
        self.request = request
        self.plan: Plan = build_plan(model, layers, example)
        self.engine: Engine
        self.engine, self.reason = choose_engine(self.plan, engine)
        self.heads: list[Head] = resolve_heads(
            model, len(self.plan.outputs), task, from_logits, self.plan.pack
        )
        self.sampler: Sampler = sampler_for(
            model, self.plan, self.engine, request.shared
        )
        self.key = tf.constant(seed_to_key(request.seed), tf.uint64)
        self.collected: list[list[Collected]] = [[] for _ in self.heads]
        self.num_rows = 0

    def count_steps(
        self, num_rows: int, rows_per_batch: int, batches: int | None
    ) -> int:
        """Returns how many steps predicting so many rows takes."""
        if batches is not None:
            num_rows = min(num_rows, batches * rows_per_batch)
        full, rest = divmod(num_rows, rows_per_batch)
        total = 0
        for count, rows in ((full, rows_per_batch), (1, rest)):
            if count and rows:
                geometry = self._geometry(rows)
                tiles = math.ceil(rows / geometry.tile_rows)
                blocks = math.ceil(self.request.num_samples / geometry.samples)
                total += count * tiles * blocks
        return total

    def _geometry(self, num_rows: int) -> Geometry:
        return choose_geometry(
            self.plan,
            self.request.batch_size,
            num_rows,
            self.request.num_samples,
            self.request.shared,
        )

    def add(
        self, batch: _data.Batch, progress: Progress, checked: bool
    ) -> None:
        """Predicts one batch of rows."""
        if not checked:
            _data.check_shapes(self.model, batch.inputs)
            for leaf in keras.tree.flatten(batch.inputs):
                _data.check_finite(leaf, "the inputs `x`", batch.first_row)
        geometry = self._geometry(batch.num_rows)
        progress.begin_batch()
        inputs = self.plan.flatten(batch.inputs)
        cut = self.sampler.prefix(self.plan, self.engine, inputs)
        parts: list[list[Collected]] = [[] for _ in self.heads]
        for begin in range(0, batch.num_rows, geometry.tile_rows):
            end = min(begin + geometry.tile_rows, batch.num_rows)
            tile = cut
            if end - begin < batch.num_rows:
                tile = self._rows(cut, begin, end)
            first_row = batch.first_row + begin
            made = self._tile(tile, first_row, geometry, progress)
            for part, collected in zip(parts, made, strict=True):
                part.append(collected)
        for head_parts, kept in zip(parts, self.collected, strict=True):
            kept.extend(head_parts)
        self.num_rows += batch.num_rows
        progress.end_batch(
            lambda: self.plan.pack(
                [
                    np.concatenate([part.moments.mean for part in head_parts])
                    for head_parts in parts
                ]
            )
        )

    def _rows(
        self, cut: Sequence[tf.Tensor | None], begin: int, end: int
    ) -> list[tf.Tensor | None]:
        """Cuts rows out of what the prefix returned, values and masks."""
        numbers = (*self.plan.cut, *self.plan.cut)
        return [
            value
            if value is None or number in self.plan.batchless
            else value[begin:end]
            for number, value in zip(numbers, cut, strict=True)
        ]

    def _tile(
        self,
        cut: Sequence[tf.Tensor | None],
        first_row: int,
        geometry: Geometry,
        progress: Progress,
    ) -> list["Collected"]:
        """Draws all samples for some rows."""
        request = self.request
        collectors = [Collector(head, request) for head in self.heads]
        for first, count in _blocks(request.num_samples, geometry.samples):
            outputs = self.sampler.suffix(
                self.plan,
                self.engine,
                cut,
                geometry.num_blocks,
                self.key,
                tf.constant(first, tf.int64),
                tf.constant(count, tf.int32),
                tf.constant(first_row, tf.int64),
            )
            for collector, output in zip(collectors, outputs, strict=True):
                collector.add(output)
            progress.step()
        return [collector.finish(first_row) for collector in collectors]

    def result(self, seconds: float, batch_size: int) -> Any:
        """Returns the `Predictive` of each output, in the model's structure."""
        request = self.request
        stats = Stats(
            num_samples=request.num_samples,
            num_rows=self.num_rows,
            seed=request.seed,
            masks="shared" if request.shared else "independent",
            method="sampling",
            engine=self._engine_steps(),
            seconds=seconds,
            samples_per_second=self.num_rows * request.num_samples / seconds,
            batch_size=batch_size,
        )
        return self.plan.pack(
            [
                _predictive(head, parts, stats, request)
                for head, parts in zip(self.heads, self.collected, strict=True)
            ]
        )

    def _engine_steps(self) -> tuple[EngineStep, ...]:
        once = "no noise reaches it: runs once"
        return tuple(
            EngineStep(
                name=step.path or step.kind, engine=self.engine.name, reason=why
            )
            for steps, why in (
                (self.plan.prefix, once),
                (self.plan.suffix, self.reason),
            )
            for step in steps
        )


@dataclasses.dataclass(frozen=True)
class Collected:
    """Statistics of one output for some rows."""

    moments: _accumulate.Moments
    samples: Any = None
    quantiles: Any = None


class Collector:
    """Takes blocks of samples of one output and reduces them."""

    def __init__(self, head: Head, request: Request) -> None:
        self.head = head
        self.request = request
        self.state: _accumulate.State | None = None
        self.samples: list[Any] = []
        self.sketch = (
            QuantileSketch()
            if request.quantiles and not request.return_samples
            else None
        )

    def add(self, outputs: tf.Tensor) -> None:
        """Takes a block [rows, samples, ...]."""
        values = self.head.probabilities(outputs)
        if self.state is None:
            self.state = _accumulate.start(values, self.head.task)
        else:
            self.state = _accumulate.advance(self.state, values, self.head.task)
        if self.request.return_samples:
            self.samples.append(np.swapaxes(values.numpy(), 0, 1))
        if self.sketch is not None:
            self.sketch.update(np.swapaxes(values.numpy(), 0, 1))

    def finish(self, first_row: int) -> Collected:
        """Returns the statistics, after checking that they are finite."""
        assert self.state is not None
        moments = _accumulate.finish(self.state)
        _data.check_finite(
            moments.mean + moments.variance, "the outputs", first_row
        )
        samples = np.concatenate(self.samples) if self.samples else None
        quantiles = None
        if self.sketch is not None:
            quantiles = self.sketch.quantile(self.request.quantiles)
        elif samples is not None and self.request.quantiles:
            quantiles = np.quantile(samples, self.request.quantiles, axis=0)
        return Collected(moments, samples, quantiles)


def _predictive(
    head: Head, parts: Sequence[Collected], stats: Stats, request: Request
) -> Predictive:
    def joined(name: str, axis: int = 0) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays, axis)

    def moment(name: str) -> Any:
        arrays = [getattr(part.moments, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    regression = head.task == "regression"
    return Predictive(
        task=head.task,
        mean=moment("mean"),
        variance=moment("variance"),
        stats=stats,
        samples=joined("samples", axis=1),
        quantile_levels=request.quantiles,
        quantile_values=joined("quantiles", axis=1),
        mean_entropy=moment("mean_entropy"),
        vote_counts=moment("vote_counts"),
        noise_precision=request.noise_precision if regression else None,
    )


def _blocks(num_samples: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the first sample and the number of samples of each step."""
    for first in range(0, num_samples, size):
        yield first, min(size, num_samples - first)


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
    while isinstance(model, View):
        if not isinstance(model, StochasticView):
            raise NothingToSampleError(
                f"View `{model.name}` has its noise frozen or off: nothing to "
                "sample. Expected the model itself, or a view made by "
                f"`stochastic`. Received: a {type(model).__name__}"
            )
        layers = model.selection if layers is None else layers
        model = model.source
    return model, layers


def _check_noise(model: Any, layers: LayerSelection) -> None:
    """Raises if no noise is active; warns of noise that cannot be reached."""
    sites = find_sites(model)
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
            "Some layers draw noise in their own `call`, which cannot be "
            "reached: it stays off, and the uncertainty leaves it out. Use a "
            f"dropout layer inside instead. {reasons}",
            BayesdropWarning,
            stacklevel=3,
        )
