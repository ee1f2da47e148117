# SPDX-License-Identifier: Apache-2.0
"""Thompson sampling: one function from the posterior for each episode."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.sites import select_sites
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.graph.survey import find_sites
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.detection import check_heads
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.prediction.reading import readings_of
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch
from keras_bayesdrop.prediction.sampling.programs import Block
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.prediction.start import Reader
from keras_bayesdrop.random.philox import LAST_SAMPLE
from keras_bayesdrop.random.philox import seed_to_key
from keras_bayesdrop.views import SampleFunction
from keras_bayesdrop.views import sample_function


class PosteriorFunction:
    """A model with one fixed mask; the result of `ThompsonSampler.sample`.

        f(x) = model(x; mask[sample])

    It is the same function as `sample_function(model, seed, sample)`. All
    functions of a model share one compiled program, which takes the number of
    the sample as an input, so that a new function compiles nothing.

    Each call reads the current weights: after more training the same mask
    applies to the new weights.

    Args:
        model: A built Keras model.
        seed: Int.
        sample: Int of at least 0.
        layers: Which noise sites are active, as in `stochastic`.
        method: `"sampling"`, or a `Sampling` object with shared masks and no
            tolerance; its engine runs the function.
        head: As in `predict_with_uncertainty`: logits become probabilities.
            By default outputs are those of the model.
        reader: Reads the model, if others read it too.
    """

    def __init__(
        self,
        model: keras.Model,
        seed: int,
        sample: int,
        layers: LayerSelection = None,
        *,
        method: str | Sampling = "sampling",
        head: Any = None,
        reader: Reader | None = None,
    ) -> None:
        self.model = model
        self.seed = seed
        self.sample = sample
        self.layers = layers
        self.method = _check_method(method)
        if head is not None:
            check_heads(head)
        self.head = head
        self._reader = _reader(model, layers) if reader is None else reader

    def __call__(self, x: Any, batch_size: int | None = None) -> Any:
        """Evaluates the function.

        Args:
            x: An array `[rows, ...]`, or lists and dicts of such arrays.
            batch_size: Bound on memory. By default chosen by the size of
                the model.

        Returns:
            Array `[rows, outputs]`, or a structure of arrays like the outputs
            of the model.
        """
        if batch_size is not None:
            check_positive_int(batch_size, "batch_size")
        if input_data.count_rows(x) is None:
            raise BayesdropError(
                "A posterior function does not take a stream. Expected an "
                "array [rows, ...], or lists and dicts of arrays. Received: "
                f"{type(x).__name__}"
            )
        input_data.check_shapes(self.model, x)
        input_data.check_arrays(x)
        starter = self._reader.current()
        plan = starter.plan(input_data.specs_of(x))
        plan.require_samples()
        engine, _ = choose_engine(plan, self.method.engine)
        readings = None
        if self.head is not None:
            version = starter.surveyed.version
            readings = readings_of(self.model, plan, self.head, version)
        noise = () if readings is None else readings.logit_noise
        sampler = sampler_for(
            self.model, plan, engine, self.method.mask_rule, noise
        )
        parts: list[list[Any]] = []
        size = rows_per_batch(plan, batch_size)
        for batch in input_data.iterate(x, size, None):
            outputs = sampler.suffix(
                plan,
                engine,
                sampler.prefix(plan, engine, plan.flatten(batch.inputs)),
                1,
                tf.constant(seed_to_key(self.seed), tf.uint64),
                Block(self.sample, 1, 0, batch.num_rows),
            )
            if readings is not None:
                outputs = [values for values, *_ in readings.values(outputs)]
            parts.append([output.numpy()[:, 0] for output in outputs])
        joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return (plan if readings is None else readings).pack(joined)

    def to_model(self) -> SampleFunction:
        """Returns the function as a Keras model, to save or differentiate."""
        return sample_function(
            self.model, self.seed, self.sample, self.layers, self.method.draws
        )

    def __repr__(self) -> str:
        """Short summary."""
        return (
            f"PosteriorFunction(model={self.model.name!r}, seed={self.seed}, "
            f"sample={self.sample})"
        )


class ThompsonSampler:
    """Samples one function from the posterior per episode.

        f[e](x) = model(x; mask[e]),    action = argmax{ f[e](x)[a] : a }

    Acting as if one sampled function were true takes each action with the
    probability that it is the best. That explores only where the model is
    unsure. Within an episode the function stays the same, so that a plan of
    several steps is consistent.

    The function of episode `e` is sample number `e` of
    `predict_with_uncertainty(model, x, seed=seed)`. A new episode compiles
    nothing, and training between episodes needs no new sampler.

    A sampler is an endless iterator. It can be pickled with its model.
    `ThompsonSampler(model, seed=s.seed, episode=s.episode)` continues a
    sampler `s` elsewhere.

    Args:
        model: A built Keras model with dropout.
        seed: Any integer. By default drawn at random.
        episode: Number of the next episode. Defaults to `0`.
        layers: Which noise sites are active, as in `stochastic`.
        method: `"sampling"`, or a `Sampling` object with shared masks and no
            tolerance: within an episode all inputs see one function. Its
            engine runs the functions.
        head: As in `predict_with_uncertainty`: functions return probabilities
            in place of logits. By default they return the model's outputs.

    Example:
    ```python
    sampler = ThompsonSampler(model, seed=0)
    for x in contexts:
        action = sampler.sample()(x).argmax(axis=-1)
    ```

    References:
        - Thompson, 1933: On the likelihood that one unknown probability
          exceeds another. Biometrika 25.
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142), section
          5.3.
    """

    def __init__(
        self,
        model: keras.Model,
        seed: int | None = None,
        episode: int = 0,
        layers: LayerSelection = None,
        *,
        method: str | Sampling = "sampling",
        head: Any = None,
    ) -> None:
        private_keras.require_tensorflow()
        check_model(model)
        model, layers = source_of(model, layers)
        sites = find_sites(model)
        chosen = select_sites(layers, sites)
        if not any(s.noise.active and s.path in chosen for s in sites):
            raise NothingToSampleError(
                f"Model `{model.name}` has no active noise, so all functions "
                "are the same. Expected at least one dropout layer with "
                "a rate above 0. Received: "
                f"{[layer.name for layer in model.layers]}"
            )
        self.model = model
        self.seed = check_seed(seed)
        self.episode = check_int(episode, "episode", 0, LAST_SAMPLE)
        self.layers = layers
        self.method = _check_method(method)
        if head is not None:
            check_heads(head)
        self.head = head
        self._reader = _reader(model, layers)

    def sample(self) -> PosteriorFunction:
        """Returns the function of the next episode."""
        function = PosteriorFunction(
            self.model,
            self.seed,
            self.episode,
            self.layers,
            method=self.method,
            head=self.head,
            reader=self._reader,
        )
        self.episode += 1
        return function

    def __next__(self) -> PosteriorFunction:
        """Returns the function of the next episode."""
        return self.sample()

    def __iter__(self) -> Iterator[PosteriorFunction]:
        """Returns the sampler itself, an endless iterator."""
        return self

    def __repr__(self) -> str:
        """Short summary."""
        return (
            f"ThompsonSampler(model={self.model.name!r}, seed={self.seed}, "
            f"episode={self.episode})"
        )


def _reader(model: keras.Model, layers: LayerSelection) -> Reader:
    """Returns what reads a model, which may have lost its noise."""
    return Reader(model, layers, may_lack_noise=True)


def _check_method(method: Any) -> Sampling:
    """Returns the method, whose samples must be functions of all inputs."""
    sampling = get_choice(method, "method", (Sampling,))
    if not sampling.shared or sampling.stops_early:
        raise BayesdropError(
            "A function has one mask for all inputs. Expected Sampling with "
            f"masks='shared' and no tolerance. Received: {sampling}"
        )
    return sampling
