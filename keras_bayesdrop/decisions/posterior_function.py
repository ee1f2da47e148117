# SPDX-License-Identifier: Apache-2.0
"""One function drawn from the posterior, without a program of its own."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction.sampling.block import Block
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.random.philox import seed_to_key
from keras_bayesdrop.views import SampleFunction
from keras_bayesdrop.views import sample_function


class PosteriorFunction:
    """A model with one frozen mask; made by `ThompsonSampler.sample`.

        f(x) = model(x; mask[sample])

    The same function as `sample_function(model, seed, sample)`. But the
    number of the sample is an input of a program that all functions of a model
    share, so that a new function costs nothing to make.

    Weights are read when it is called: after more training it is the same
    mask of another network.

    Args:
        model: A built Keras model.
        seed: Int.
        sample: Int of at least 0.
        layers: Which noise sites are active, as in `stochastic`.
    """

    def __init__(
        self,
        model: keras.Model,
        seed: int,
        sample: int,
        layers: LayerSelection = None,
    ) -> None:
        self.model = model
        self.seed = seed
        self.sample = sample
        self.layers = layers

    def __call__(self, x: Any, batch_size: int | None = None) -> Any:
        """Evaluates the function.

        Args:
            x: An array `[rows, ...]`, or lists and dicts of such arrays.
            batch_size: Bounds the memory. By default chosen by the size of
                the model.

        Returns:
            Array `[rows, outputs]`, or a structure of them like the model's
            outputs.
        """
        if batch_size is not None:
            check_positive_int(batch_size, "batch_size")
        if input_data.count_rows(x) is None:
            raise BayesdropError(
                "A posterior function takes rows. Expected an array "
                "[rows, ...], or lists and dicts of arrays. Received: "
                f"{type(x).__name__}"
            )
        input_data.check_shapes(self.model, x)
        input_data.check_arrays(x)
        plan = build_plan(self.model, self.layers, input_data.specs_of(x))
        plan.require_samples()
        engine = Reference()
        sampler = sampler_for(self.model, plan, engine, True)
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
            parts.append([output.numpy()[:, 0] for output in outputs])
        joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return plan.pack(joined)

    def to_model(self) -> SampleFunction:
        """Returns the function as a Keras model: to save, or to derive."""
        return sample_function(self.model, self.seed, self.sample, self.layers)

    def __repr__(self) -> str:
        """Short summary."""
        return (
            f"PosteriorFunction(model={self.model.name!r}, seed={self.seed}, "
            f"sample={self.sample})"
        )
