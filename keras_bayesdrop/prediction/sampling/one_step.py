# SPDX-License-Identifier: Apache-2.0
"""Predicts a batch that one step takes by one call of one program.

    inputs --prefix, suffix, readout, moments--> values and state per result

A run calls these programs one after another. Here they are parts of one, so
that a call from Python is made once. They stay apart in it, and give the same
bits.
"""

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.compiled import Compiled
from keras_bayesdrop._core.compiled import calls_apart
from keras_bayesdrop._core.compiled import compiled
from keras_bayesdrop.prediction.input_data import Batch
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.collect import Collector
from keras_bayesdrop.prediction.sampling.drawer import Drawer
from keras_bayesdrop.prediction.sampling.geometry import Geometry
from keras_bayesdrop.prediction.sampling.programs import Block
from keras_bayesdrop.prediction.sampling.programs import sampler_for
from keras_bayesdrop.prediction.sampling.programs import scalar
from keras_bayesdrop.prediction.sampling.readout import Readout
from keras_bayesdrop.prediction.sampling.readout import SampleReadout
from keras_bayesdrop.prediction.sampling.repeats import is_balanced


class OneStep:
    """Predicts batches of one shape by one call of one program.

    Args:
        program: Maps seed, first sample, samples, first row, rows and the
            inputs to values and the state of each result.
    """

    def __init__(self, program: Compiled) -> None:
        self._program = program

    def __call__(
        self,
        drawer: Drawer,
        readout: Readout,
        batch: Batch,
    ) -> list[Collected]:
        """Predicts a batch.

        Args:
            drawer: Has the seed, and the number of the first row.
            readout: Collects samples.
            batch: The rows.
        """
        results = self._program(*_arguments(drawer, batch))
        drawer.count(batch.num_rows, drawer.request.num_samples)
        balanced = is_balanced(drawer.plan, drawer.masks)
        numbers = batch.first_row + np.arange(batch.num_rows)
        collected = []
        for output, (values, state) in enumerate(results):
            collector = readout.collector(output, batch.first_row, 0, balanced)
            collector.begin(tuple(state), *values)
            collected.append(collector.finish(numbers))
        return collected


def one_step_for(
    drawer: Drawer, readout: Readout, geometry: Geometry, batch: Batch
) -> OneStep | None:
    """Compiles a program for batches like this one.

    Args:
        drawer: Draws samples, on one device.
        readout: Collects them.
        geometry: Rows and samples of a step, all rows of the batch at least.
        batch: The rows.

    Returns:
        `None` if that takes several steps, or if the parts would not be the
        programs that a run calls one after another.
    """
    plan, engine = drawer.plan, drawer.engine
    several = geometry.samples < drawer.request.num_samples
    if several or plan.one_at_a_time or not isinstance(readout, SampleReadout):
        return None
    balanced = is_balanced(plan, drawer.masks)
    sampler = sampler_for(
        drawer.model, plan, engine, drawer.masks, drawer.logit_noise
    )

    def run(
        seed: tf.Tensor,
        first_sample: tf.Tensor,
        num_samples: tf.Tensor,
        first_row: tf.Tensor,
        num_rows: tf.Tensor,
        *leaves: tf.Tensor,
    ) -> list[tuple[list[tf.Tensor], list[tf.Tensor]]]:
        inputs = keras.tree.pack_sequence_as(batch.inputs, leaves)
        outputs = sampler.suffix(
            plan,
            engine,
            sampler.prefix(plan, engine, plan.flatten(inputs)),
            geometry.num_blocks,
            seed,
            Block(first_sample, num_samples, first_row, num_rows),
        )
        results = []
        for output, values in enumerate(readout.read(outputs)):
            collector: Collector = readout.collector(output, 0, 0, balanced)
            state = collector.first_state(*values)
            results.append((list(values), list(state)))
        return results

    arguments = _arguments(drawer, batch)
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in arguments]
    with calls_apart() as alone:
        results = run(*arguments)
    for output, (values, _) in enumerate(results):
        collector = readout.collector(output, 0, 0, balanced)
        if collector.choose_outputs(values[0].shape) > 1:
            return None
    with calls_apart() as together:
        program = compiled(run, specs)
    return OneStep(program) if alone == together else None


def _arguments(drawer: Drawer, batch: Batch) -> list[tf.Tensor]:
    """Returns what the program takes."""
    return [
        drawer.key,
        scalar(0, tf.int64),
        scalar(drawer.request.num_samples, tf.int32),
        scalar(drawer.row_number(batch.first_row), tf.int64),
        scalar(batch.num_rows, tf.int32),
        *keras.tree.flatten(batch.inputs),
    ]
