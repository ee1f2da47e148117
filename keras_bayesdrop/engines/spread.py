# SPDX-License-Identifier: Apache-2.0
"""An engine on several devices: each has some of the rows, or of the samples.

Noise is a function of seed, site, sample and row, all of them counted over the
whole prediction. So a device draws its part of the noise without the others,
and the parts fit together.
"""

import abc
import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import ClassVar

import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK


class Spread(Engine):
    """Runs an engine on every device, in one compiled program.

    Args:
        engine: Runs a part.
        strategy: Whose variables have a copy on each device, so that none is
            sent from one to another.
        devices: Names of the devices.
    """

    name: ClassVar[str] = "spread"
    axis: ClassVar[str]

    def __init__(
        self, engine: Engine, strategy: Any, devices: Sequence[str]
    ) -> None:
        self._engine = engine
        self._strategy = strategy
        self._devices = tuple(devices)

    @property
    def key(self) -> str:
        """Tells engines apart that make different programs."""
        devices = ", ".join(self._devices)
        return f"{self._engine.key}, {self.axis} on {devices}"

    def steps(self, plan: Plan) -> Sequence[Step | ChainStep | CutStep]:
        """Returns the steps that the engine makes of the suffix."""
        return self._engine.steps(plan)

    def why_not_fused(self, plan: Plan) -> tuple[str, ...]:
        """Returns, per step of the suffix, why it is not compiled, or `""`."""
        return self._engine.why_not_fused(plan)

    @abc.abstractmethod
    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the rest for a block of samples, each device a part of it."""

    def _on_devices(
        self, run: Callable[[int], list[tf.Tensor]]
    ) -> list[list[tf.Tensor]]:
        """Returns, per output, the part of each device."""
        results = []
        with self._strategy.scope():
            for index, device in enumerate(self._devices):
                # Within the scope a variable is read from its copy there.
                with tf.device(device):
                    results.append(run(index))
        return [list(parts) for parts in zip(*results, strict=True)]

    def _share(self, total: Any, index: int) -> tuple[Any, Any]:
        """Returns begin and end of a device's share, as equal as can be."""
        number = len(self._devices)
        return total * index // number, total * (index + 1) // number


class SpreadRows(Spread):
    """Each device has some of the rows. There is at least one for each."""

    axis: ClassVar[str] = "rows"

    def run_prefix(
        self, plan: Plan, inputs: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Runs what no noise reaches, each device for its rows."""
        num_rows = tf.shape(inputs[0])[0]

        def run(index: int) -> list[tf.Tensor]:
            begin, end = self._share(num_rows, index)
            parts = [
                _rows(plan, number, value, num_rows, begin, end)
                for number, value in zip(plan.inputs, inputs, strict=True)
            ]
            return self._engine.run_prefix(plan, parts)

        return [
            # Every device has the same.
            parts[0] if number in plan.batchless else _concat(parts)
            for number, parts in zip(
                plan.cut, self._on_devices(run), strict=True
            )
        ]

    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the rest for a block of samples, each device for its rows."""
        assert draws is not None
        first_row = tf.cast(draws.first_row, tf.int64)

        def run(index: int) -> list[tf.Tensor]:
            begin, end = self._share(draws.num_rows, index)
            parts = [
                _rows(plan, number, value, draws.num_rows, begin, end)
                for number, value in zip(plan.cut, cut, strict=True)
            ]
            mine = dataclasses.replace(
                draws,
                first_row=first_row + tf.cast(begin, tf.int64),
                num_rows=end - begin,
            )
            return self._engine.run_suffix(plan, parts, mine)

        return [tf.concat(parts, axis=0) for parts in self._on_devices(run)]


class SpreadSamples(Spread):
    """Each device has some of the samples, in whole blocks of 16.

    There is at least one block for each.
    """

    axis: ClassVar[str] = "samples"

    def run_suffix(
        self, plan: Plan, cut: Sequence[tf.Tensor], draws: Draws | None
    ) -> list[tf.Tensor]:
        """Runs the rest, each device for its samples."""
        assert draws is not None
        size = SAMPLES_PER_BLOCK
        blocks = (draws.num_samples + size - 1) // size
        first_sample = tf.cast(draws.first_sample, tf.int64)

        def run(index: int) -> list[tf.Tensor]:
            begin, end = (size * at for at in self._share(blocks, index))
            count = tf.minimum(end, draws.num_samples) - begin
            mine = dataclasses.replace(
                draws,
                first_sample=first_sample + tf.cast(begin, tf.int64),
                num_samples=count,
                num_blocks=-(-draws.num_blocks // len(self._devices)),
            )
            outputs = self._engine.run_suffix(plan, cut, mine)
            return [mine.unfold(output) for output in outputs]

        return [
            _folded(tf.concat(parts, axis=1)) for parts in self._on_devices(run)
        ]


def _rows(
    plan: Plan,
    number: int,
    value: tf.Tensor,
    num_rows: Any,
    begin: Any,
    end: Any,
) -> tf.Tensor:
    """Cuts rows out of a value, and out of its Keras mask."""
    if number in plan.batchless:
        return value
    per_row = tf.shape(value)[0] // num_rows
    rows = slice(begin * per_row, end * per_row)
    part = value[rows]
    mask = private_keras.get_mask(value)
    if mask is not None:
        private_keras.set_mask(part, mask[rows])
    return part


def _concat(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Puts rows one after another, and those of their Keras masks."""
    whole = tf.concat(parts, axis=0)
    masks = [private_keras.get_mask(part) for part in parts]
    if masks[0] is not None:
        private_keras.set_mask(whole, tf.concat(masks, axis=0))
    return whole


def _folded(x: tf.Tensor) -> tf.Tensor:
    """Returns [rows * samples, ...] of [rows, samples, ...]."""
    return tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], axis=0))
