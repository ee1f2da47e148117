# SPDX-License-Identifier: Apache-2.0
"""Traces a whole prediction into one TensorFlow graph, for any number of rows.

    inputs --prefix--> cut values --suffix, in a loop over blocks of samples-->
    running statistics --> quantities

The graph has the steps of `predict_with_uncertainty` with the reference engine,
or with convolutions cut: the same code, traced instead of run.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop.engines import Engine
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.noise.draws import MaskRule
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.prediction.logit_noise import without_samples
from keras_bayesdrop.prediction.reading import Readings
from keras_bayesdrop.prediction.sampling import accumulate
from keras_bayesdrop.prediction.sampling.programs import Block
from keras_bayesdrop.prediction.sampling.programs import Sampler
from keras_bayesdrop.prediction.sampling.repeats import is_balanced
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK
from keras_bayesdrop.random.seeds import member_key
from keras_bayesdrop.serving.quantities import QUANTITIES
from keras_bayesdrop.serving.quantities import Statistics
from keras_bayesdrop.serving.quantities import is_defined
from keras_bayesdrop.serving.quantities import mixed
from keras_bayesdrop.serving.quantities import quantiles_of
from keras_bayesdrop.serving.quantities import statistics_of


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What was drawn of a result.

    Attributes:
        statistics: Of all samples.
        samples: Tensor [samples, rows, ...], if they were kept.
    """

    statistics: Statistics
    samples: Any


@dataclasses.dataclass(frozen=True)
class Network:
    """A network to draw samples from.

    Attributes:
        plan: Plan of the model.
        readings: How results are read off the model's outputs.
        num_samples: Number of samples to draw; 1 if it has no noise.
        masks: Which masks are related to each other.
        entries: Largest number of rows times samples in memory.
        keeps: Whether to keep the samples.
        engine: Runs the plan, without compiled ops.
    """

    plan: Plan
    readings: Readings
    num_samples: int
    masks: MaskRule
    entries: int
    keeps: bool
    engine: Engine = dataclasses.field(default_factory=Reference)

    def trace(
        self, inputs: Any, key: tf.Tensor, first_row: tf.Tensor
    ) -> list[Drawn]:
        """Adds the samples of the network to the current graph.

        Args:
            inputs: Structure of tensors like the inputs of the model.
            key: Scalar uint64, the seed.
            first_row: Scalar int64, number of the first row.

        Returns:
            What was drawn of each result.
        """
        plan, engine, heads = self.plan, self.engine, self.readings.heads
        noise = self.readings.logit_noise
        sampler = Sampler(self.masks, logit_noise=noise)
        flat = [tf.convert_to_tensor(leaf) for leaf in plan.flatten(inputs)]
        num_rows = tf.shape(flat[0])[0]
        cut = sampler.prefix(plan, engine, flat)
        if not plan.suffix:
            return self._without_noise(cut, key)
        size = self._samples_at_once(num_rows)
        last = tf.constant(self.num_samples)
        balanced = is_balanced(plan, self.masks)

        def draw(first: tf.Tensor) -> list[tuple[tf.Tensor, ...]]:
            """Returns blocks [rows, samples, ...] of every result."""
            outputs = sampler.suffix(
                plan,
                engine,
                cut,
                1,
                key,
                Block(
                    tf.cast(first, tf.int64),
                    tf.minimum(size, last - first),
                    first_row,
                    num_rows,
                ),
            )
            return self.readings.values(outputs)

        def next_block(first: tf.Tensor, states: Any, kept: Any) -> Any:
            blocks = draw(first)
            states = [
                accumulate.next_block(
                    state, values, head.task, *noise, balanced=balanced
                )
                for state, (values, *noise), head in zip(
                    states, blocks, heads, strict=True
                )
            ]
            return first + size, states, self._keep(kept, blocks, first // size)

        blocks = draw(tf.constant(0))
        states = [
            accumulate.first_block(values, head.task, *noise, balanced=balanced)
            for (values, *noise), head in zip(blocks, heads, strict=True)
        ]
        kept = self._keep(self._arrays(blocks), blocks, tf.constant(0))
        # Parallel iterations would hold several blocks in memory.
        _, states, kept = tf.while_loop(
            lambda first, states, kept: first < last,
            next_block,
            (size, states, kept),
            shape_invariants=(
                tf.TensorShape([]),
                [
                    [tf.TensorShape([None] * part.shape.rank) for part in state]
                    for state in states
                ],
                [tf.TensorShape(None) for _ in kept],
            ),
            parallel_iterations=1,
        )
        return self._drawn(states, kept, blocks)

    def _samples_at_once(self, num_rows: tf.Tensor) -> tf.Tensor:
        """Returns a power of two up to 16, the size of a block of counters."""
        most = self.entries // tf.maximum(num_rows, 1)
        sizes = [1]
        while sizes[-1] < SAMPLES_PER_BLOCK:
            sizes.append(2 * sizes[-1])
        fits = tf.constant(sizes) <= tf.maximum(most, 1)
        return tf.reduce_max(tf.where(fits, sizes, 1))

    def _arrays(
        self, blocks: Sequence[tuple[tf.Tensor, ...]]
    ) -> list[tf.TensorArray]:
        """Returns arrays for the samples, if there are quantiles."""
        if not self.keeps:
            return []
        return [
            tf.TensorArray(
                values.dtype, 0, dynamic_size=True, infer_shape=False
            )
            for values, *_ in blocks
        ]

    def _keep(
        self,
        arrays: Sequence[tf.TensorArray],
        blocks: Sequence[tuple[tf.Tensor, ...]],
        index: tf.Tensor,
    ) -> list[tf.TensorArray]:
        if not arrays:
            return []
        return [
            array.write(index, _samples_first(values))
            for array, (values, *_) in zip(arrays, blocks, strict=True)
        ]

    def _drawn(
        self,
        states: Sequence[Sequence[tf.Tensor]],
        kept: Sequence[tf.TensorArray],
        blocks: Sequence[tuple[tf.Tensor, ...]],
    ) -> list[Drawn]:
        drawn = []
        for number, head in enumerate(self.readings.heads):
            samples = None
            if self.keeps:
                samples = kept[number].concat()
                rows_on = blocks[number][0].shape[2:]
                samples.set_shape([None, None, *rows_on])
            statistics = statistics_of(
                states[number],
                head,
                self.num_samples,
                is_balanced(self.plan, self.masks),
            )
            drawn.append(Drawn(statistics, samples))
        return drawn

    def _without_noise(self, cut: Sequence[Any], key: tf.Tensor) -> list[Drawn]:
        """Returns the one sample of a network without noise."""
        values = dict(zip(self.plan.cut, cut, strict=False))
        outputs = without_samples(
            [values[number] for number in self.plan.outputs],
            self.readings.logit_noise,
            key,
        )
        drawn = []
        for head, parts in zip(
            self.readings.heads, self.readings.values(outputs), strict=True
        ):
            block, *noise = (part[:, None] for part in parts)
            state = accumulate.first_block(block, head.task, *noise)
            statistics = statistics_of(state, head, 1)
            drawn.append(Drawn(statistics, _samples_first(block)))
        return drawn


@dataclasses.dataclass(frozen=True)
class Program:
    """A prediction to trace.

    Attributes:
        networks: Those of an ensemble, or one.
        prefixes: Prefixes of names, one per result.
        quantities: Names of the quantities to compute.
        levels: Levels of quantiles; empty for none.
    """

    networks: Sequence[Network]
    prefixes: Sequence[str]
    quantities: Sequence[str]
    levels: Sequence[float]

    def trace(
        self, inputs: Sequence[Any], key: tf.Tensor, first_row: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Adds the prediction to the current graph.

        Args:
            inputs: For each network, a structure like its inputs.
            key: Scalar uint64, the seed.
            first_row: Scalar int64, number of the first row.

        Returns:
            Tensors [rows, ...] by name.
        """
        alone = len(self.networks) == 1
        drawn = [
            network.trace(
                each, key if alone else member_key(key, number), first_row
            )
            for number, (network, each) in enumerate(
                zip(self.networks, inputs, strict=True)
            )
        ]
        heads = self.networks[0].readings.heads
        outputs = {}
        for result, (head, prefix) in enumerate(
            zip(heads, self.prefixes, strict=True)
        ):
            members = [each[result] for each in drawn]
            statistics = mixed([each.statistics for each in members])
            for name in self.quantities:
                if is_defined(name, head.task):
                    outputs[prefix + name] = QUANTITIES[name](statistics)
            if self.levels:
                samples = self._all_samples([each.samples for each in members])
                outputs[prefix + "quantiles"] = quantiles_of(
                    samples, self.levels
                )
        return {name: tf.identity(x, name) for name, x in outputs.items()}

    def _all_samples(self, samples: Sequence[Any]) -> tf.Tensor:
        """Returns the samples of all networks, each with the same weight."""
        most = max(network.num_samples for network in self.networks)
        return tf.concat(
            [
                tf.repeat(each, most // network.num_samples, axis=0)
                for each, network in zip(samples, self.networks, strict=True)
            ],
            axis=0,
        )


def _samples_first(block: tf.Tensor) -> tf.Tensor:
    return tf.transpose(block, [1, 0, *range(2, block.shape.rank)])
