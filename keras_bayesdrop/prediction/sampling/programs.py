# SPDX-License-Identifier: Apache-2.0
"""Compiles the programs of a plan, and keeps them per model.

    prefix   inputs [rows, ...]        -> cut values [rows, ...]
    suffix   cut values, seed, first
             sample, samples, first row -> outputs [rows, samples, ...]

Programs hold no reference to the model (only to its variables), so the cache
does not keep a model alive; weights that `fit` changes in between are read
anew, because programs read variables when they run.
"""

import functools
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.compiled import compiled
from keras_bayesdrop.engines import Engine
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.noise.draws import MaskRule
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.logit_noise import LogitNoise
from keras_bayesdrop.prediction.logit_noise import with_logit_noise

# Shape (`None` for an axis that stays open) and dtype of a tensor.
_Type = tuple[tuple[int | None, ...], tf.DType]

# Seed, first sample, samples, first row, rows.
_SCALARS: tuple[_Type, ...] = tuple(
    ((), dtype) for dtype in (tf.uint64, tf.int64, tf.int32, tf.int64, tf.int32)
)


class Block(NamedTuple):
    """Samples and rows by number. Masks follow from these numbers alone.

    Attributes:
        first_sample: Number of the first sample.
        num_samples: How many samples.
        first_row: Number of the first row, in the whole of which `x` is part.
            Shared masks do not depend on it.
        num_rows: How many rows.
    """

    first_sample: Any
    num_samples: Any
    first_row: Any
    num_rows: Any


def sampler_for(
    model: Any,
    plan: Plan,
    engine: Engine,
    masks: MaskRule,
    logit_noise: tuple[LogitNoise, ...] = (),
) -> "Sampler":
    """Returns the sampler of a model for plans like `plan`."""
    key = (plan.signature, engine.key, masks, logit_noise)
    return Sampler(masks, model, key, logit_noise)


class Sampler:
    """Programs of one plan, traced once per signature.

    Args:
        masks: Which masks are related to each other.
        model: Its programs are kept with it. By default the sampler itself
            owns them.
        key: Equal for samplers of the model that share programs.
        logit_noise: The noise of outputs that are logits. Probabilities take
            their place.
    """

    def __init__(
        self,
        masks: MaskRule,
        model: Any = None,
        key: Any = (),
        logit_noise: Sequence[LogitNoise] = (),
    ) -> None:
        self._masks = masks
        self._logit_noise = logit_noise
        self._owner = self if model is None else model
        self._key = key

    def prefix(
        self, plan: Plan, engine: Engine, inputs: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        """Runs what no noise reaches.

        Args:
            plan: The plan.
            engine: Runs it.
            inputs: Tensors [rows, ...] for `plan.inputs`.

        Returns:
            Values for `plan.cut`, followed by the Keras mask (or `None`) of
            each: masks do not survive the border of a compiled program as
            attributes of tensors.
        """
        if not plan.prefix:
            values = dict(zip(plan.inputs, inputs, strict=True))
            cut = [values[number] for number in plan.cut]
            return [*cut, *map(private_keras.get_mask, cut)]

        def run(*inputs: tf.Tensor) -> list[tf.Tensor | None]:
            cut = engine.run_prefix(plan, inputs)
            return [*cut, *map(private_keras.get_mask, cut)]

        types = [
            _declared(plan, number, tensor)
            for number, tensor in zip(plan.inputs, inputs, strict=True)
        ]
        program = self._program(("prefix",), run, types)
        return list(program(*inputs))

    def suffix(
        self,
        plan: Plan,
        engine: Engine,
        cut: Sequence[tf.Tensor | None],
        counter_blocks: int,
        seed: tf.Tensor,
        block: Block,
        watch: bool = False,
    ) -> list[tf.Tensor]:
        """Runs the rest for a block of samples.

        Args:
            plan: The plan.
            engine: Runs it.
            cut: What `prefix` returned, for all or some of its rows.
            counter_blocks: Blocks of counters that cover the samples.
            seed: Scalar uint64.
            block: Samples and rows, integers or scalar tensors.
            watch: Whether to return, after the outputs, what the first row
                has of every value that noise is put on.

        Returns:
            Tensors [rows, samples, ...] for `plan.outputs`, probabilities in
            the place of noisy logits.
        """
        half = len(plan.cut)
        watched: list[Any] | None = [] if watch else None
        masked = [mask is not None for mask in cut[half:]]

        def run(
            seed: tf.Tensor,
            first_sample: tf.Tensor,
            num_samples: tf.Tensor,
            first_row: tf.Tensor,
            num_rows: tf.Tensor,
            *tensors: tf.Tensor,
        ) -> list[tf.Tensor]:
            values = list(tensors[:half])
            of_values = iter(tensors[half:])
            for value, has_mask in zip(values, masked, strict=True):
                if has_mask:
                    private_keras.set_mask(value, next(of_values))
            alone = bool(plan.one_at_a_time)
            draws = Draws(
                seed=seed,
                first_sample=first_sample,
                num_samples=1 if alone else num_samples,
                num_blocks=1 if alone else counter_blocks,
                first_row=first_row,
                num_rows=num_rows,
                **self._masks._asdict(),
                unordered=plan.unordered,
                # Rows of a batch that depend on each other see one function.
                rows_mix=plan.mixes_rows,
                watched=watched,
            )
            outputs = [
                draws.unfold(output, number in plan.rows)
                for number, output in zip(
                    plan.outputs,
                    engine.run_suffix(plan, values, draws),
                    strict=True,
                )
            ]
            drawn = with_logit_noise(outputs, self._logit_noise, draws)
            return drawn + (watched or [])

        present = [tensor for tensor in cut if tensor is not None]
        scalars = [
            seed,
            scalar(block.first_sample, tf.int64),
            scalar(block.num_samples, tf.int32),
            scalar(block.first_row, tf.int64),
            scalar(block.num_rows, tf.int32),
        ]
        values = [
            _declared(plan, number, tensor)
            for number, tensor in zip(plan.cut, cut, strict=False)
        ]
        masks = [
            _mask_type(value, mask)
            for value, mask in zip(values, cut[half:], strict=True)
            if mask is not None
        ]
        types = [*_SCALARS, *values, *masks]
        key = ("suffix", counter_blocks, watch, tuple(masked))
        program = self._program(key, run, types)
        return list(program(*scalars, *present))

    def _program(
        self, key: tuple[Any, ...], run: Any, types: Sequence[_Type]
    ) -> Any:
        def trace() -> Any:
            specs = [tf.TensorSpec(*each) for each in types]
            return compiled(run, specs)

        return programs.get(
            self._owner, (*self._key, *key, tuple(types)), trace
        )


def _declared(plan: Plan, number: int, tensor: tf.Tensor) -> _Type:
    """Returns the type of a value as the model declares it, any batch size.

    Axes that the model leaves open stay open, so that sequences of another
    length do not trace again; so do axes about which it is mistaken.
    """
    declared = tuple(plan.specs[number].shape)
    sizes = tuple(tensor.shape)
    if plan.fixed_batch or plan.mixes_rows:
        return sizes, tensor.dtype
    if number not in plan.batchless:
        declared = (None, *declared[1:])
    if len(declared) != len(sizes):
        return (None,) * len(sizes), tensor.dtype
    dims = tuple(
        want if want == size else None
        for want, size in zip(declared, sizes, strict=True)
    )
    return dims, tensor.dtype


def _mask_type(value: _Type, mask: tf.Tensor) -> _Type:
    """Returns the type of a Keras mask, which has the first axes of its value.

    Layers that unroll time need its length to be static.
    """
    sizes = tuple(mask.shape)
    dims = value[0][: len(sizes)]
    dims += (None,) * (len(sizes) - len(dims))
    known = tuple(
        dim if dim == size else None
        for dim, size in zip(dims, sizes, strict=True)
    )
    return known, mask.dtype


def scalar(value: Any, dtype: tf.DType) -> tf.Tensor:
    """Returns a number as a tensor; tensors are returned as they are."""
    if not isinstance(value, int):
        return value
    # A tensor of a graph belongs to that graph.
    make = _constant if tf.executing_eagerly() else tf.constant
    return make(value, dtype)


@functools.lru_cache(maxsize=1024)
def _constant(value: int, dtype: tf.DType) -> tf.Tensor:
    """Returns a constant; the same few numbers come at every call."""
    return tf.constant(value, dtype)
