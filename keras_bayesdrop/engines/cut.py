# SPDX-License-Identifier: Apache-2.0
"""Runs a part of a network sample by sample, without dropped channels.

Kernels are gathered for each sample: the channels that it keeps, with the scale
of the noise multiplied in. What is left is a thinner network of plain
TensorFlow operations.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.engines import interpreter
from keras_bayesdrop.engines.kept_channels import KeptChannels
from keras_bayesdrop.engines.thin_kernels import some_depthwise
from keras_bayesdrop.engines.thin_kernels import weights_of
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import CallStep
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import Step
from keras_bayesdrop.plan.cuts.channels import Channels
from keras_bayesdrop.plan.cuts.channels import Joined
from keras_bayesdrop.plan.cuts.channels import Tiled
from keras_bayesdrop.plan.cuts.channels import Whole
from keras_bayesdrop.plan.cuts.cut_step import SAMPLES_AT_ONCE
from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm
from keras_bayesdrop.plan.thin_forms import DepthwiseForm
from keras_bayesdrop.plan.thin_forms import EachForm
from keras_bayesdrop.plan.thin_forms import JoinForm
from keras_bayesdrop.plan.thin_forms import ProductForm


@dataclasses.dataclass(frozen=True)
class _Thin:
    """Some channels of a value, in one sample.

    Attributes:
        x: Tensor [rows, ..., channels].
        channels: Which channels it has.
        factor: What they are to be multiplied by, or `None`.
    """

    x: tf.Tensor
    channels: Channels
    factor: tf.Tensor | None = None


def run_if_it_pays(
    plan: Plan,
    part: CutStep,
    values: Sequence[tf.Tensor],
    folded: Sequence[bool],
    draws: Draws,
) -> list[tf.Tensor]:
    """Runs a part cut, or whole if there are few rows.

    Args:
        plan: The plan that the part belongs to.
        part: The part.
        values: Tensors for its inputs, [rows, ...] or folded.
        folded: Whether each is folded.
        draws: Which samples. Masks must be shared.

    Returns:
        Folded tensors for its outputs.
    """

    def cut() -> list[tf.Tensor]:
        return run_cut(part, values, folded, draws)

    def whole() -> list[tf.Tensor]:
        return interpreter.run_suffix(
            dataclasses.replace(plan, cut=part.inputs, outputs=part.outputs),
            part.steps,
            values,
            draws,
            folded_cut=[
                number
                for number, is_folded in zip(part.inputs, folded, strict=True)
                if is_folded
            ],
        )

    if any(private_keras.get_mask(value) is not None for value in values):
        return whole()
    pays = part.least_rows(_settings(part)) <= _number(draws.num_rows)
    if isinstance(pays, bool):
        return cut() if pays else whole()
    return list(tf.cond(pays, cut, whole))


def _settings(part: CutStep) -> Callable[[int], Any]:
    """Returns the thresholds of noise, as numbers where they are fixed."""

    def threshold(site: int) -> Any:
        settings = part.noise[site].noise.op_settings()
        assert settings is not None
        return _number(settings[0])

    return threshold


def _number(value: Any) -> Any:
    """Returns a number or a float64 tensor."""
    if isinstance(value, int | float):
        return float(value)
    return tf.cast(value, tf.float64)


def run_cut(
    part: CutStep,
    values: Sequence[tf.Tensor],
    folded: Sequence[bool],
    draws: Draws,
) -> list[tf.Tensor]:
    """Runs a part.

    Args:
        part: The part.
        values: Tensors for its inputs, [rows, ...] or folded.
        folded: Whether each is folded.
        draws: Which samples. Masks must be shared.

    Returns:
        Folded tensors for its outputs.
    """
    assert draws.shared
    kept = KeptChannels(part, draws)
    # Weights are read once for all samples.
    weights = {
        id(step): weights_of(step, part.kept[step.outputs[0]])
        for step in part.steps
        if isinstance(step, CallStep)
    }
    # Layers cast their inputs.
    inputs = [
        tf.cast(draws.unfold(value) if is_folded else value, spec.dtype)
        for value, is_folded, spec in zip(
            values, folded, [part.specs[n] for n in part.inputs], strict=True
        )
    ]

    def run(sample: tf.Tensor) -> list[tf.Tensor]:
        network = _Sample(part, kept, weights, sample)
        for number, value, is_folded in zip(
            part.inputs, inputs, folded, strict=True
        ):
            x = value[:, sample] if is_folded else value
            network.values[number] = _Thin(x, part.kept[number])
        for step in part.steps:
            network.run(step)
        return [network.whole(number) for number in part.outputs]

    dtypes = [tf.as_dtype(part.specs[number].dtype) for number in part.outputs]
    at_once = None if tf.executing_eagerly() else SAMPLES_AT_ONCE
    outputs = tf.map_fn(
        tf.autograph.experimental.do_not_convert(run),
        tf.range(draws.num_samples),
        fn_output_signature=dtypes,
        parallel_iterations=at_once,
    )
    return [
        _folded(output, part.specs[number])
        for number, output in zip(part.outputs, outputs, strict=True)
    ]


def _folded(y: tf.Tensor, spec: Any) -> tf.Tensor:
    """Returns [rows * samples, ...] of [samples, rows, ...]."""
    dims = tuple(spec.shape)[1:]
    y = tf.transpose(y, [1, 0, *range(2, 2 + len(dims))])
    y = tf.reshape(y, tf.concat([[-1], tf.shape(y)[2:]], axis=0))
    y.set_shape([None, *dims])
    return y


class _Sample:
    """The values of a part in one sample.

    Args:
        part: The part.
        kept: The channels that samples keep.
        weights: By the id of a step, its weights.
        sample: Number of the sample in its block.
    """

    def __init__(
        self,
        part: CutStep,
        kept: KeptChannels,
        weights: dict[int, Any],
        sample: tf.Tensor,
    ) -> None:
        self.values: dict[int, _Thin] = {}
        self._part = part
        self._kept = kept
        self._weights = weights
        self._sample = sample
        self._numbers: dict[Channels, tf.Tensor] = {}
        self._moved: dict[tuple[int, Channels], _Thin] = {}

    def run(self, step: Step) -> None:
        """Runs a step on the channels that its inputs have."""
        (number,) = step.outputs
        target = self._part.kept[number]
        if isinstance(step, NoiseStep):
            output = self._noise(step, target)
        elif isinstance(step.thin, ProductForm):
            output = self._product(step, step.thin, target)
        elif isinstance(step.thin, DepthwiseForm):
            output = self._depthwise(step, step.thin, target)
        elif isinstance(step.thin, JoinForm):
            output = self._join(step, target)
        elif isinstance(step.thin, FlattenForm):
            output = self._flatten(step, target)
        elif isinstance(step.thin, ScaleShiftForm):
            output = self._scale_shift(step, target)
        else:
            output = self._each(step, target)
        self.values[number] = output

    def whole(self, number: int) -> tf.Tensor:
        """Returns all channels of a value, 0 where it has none."""
        spec = self._part.specs[number]
        y = _multiplied(self._at(number, Whole(int(spec.shape[-1])))).x
        y.set_shape([None, *tuple(spec.shape)[1:]])
        return y

    def _list(self, channels: Channels) -> tf.Tensor:
        if channels not in self._numbers:
            self._numbers[channels] = self._kept.numbers(channels, self._sample)
        return self._numbers[channels]

    def _some(self, channels: Channels) -> tf.Tensor | None:
        return None if isinstance(channels, Whole) else self._list(channels)

    def _at(self, number: int, channels: Channels) -> _Thin:
        """Returns a value with other channels than it has.

        The matrix has a 1 (or the factor) where both have a channel: a product
        with it is faster than gathering the last axis.
        """
        value = self.values[number]
        if value.channels == channels:
            return value
        key = (number, channels)
        if key not in self._moved:
            old, new = self._list(value.channels), self._list(channels)
            matrix = tf.cast(old[:, tf.newaxis] == new, value.x.dtype)
            if value.factor is not None:
                matrix = matrix * value.factor[:, tf.newaxis]
            self._moved[key] = _Thin(_matmul(value.x, matrix), channels)
        return self._moved[key]

    def _noise(self, step: NoiseStep, target: Channels) -> _Thin:
        value = self._at(step.inputs[0], target)
        if not step.active:
            return value
        factor = self._kept.factors(
            step.site, self._list(target), self._sample, value.x.dtype
        )
        if value.factor is not None:
            factor = factor * value.factor
        return _Thin(value.x, target, factor)

    def _product(
        self, step: CallStep, form: ProductForm, target: Channels
    ) -> _Thin:
        value = self.values[step.inputs[0]]
        kernel, bias = self._weights[id(step)]
        numbers = self._some(target)
        if bias is not None and numbers is not None:
            bias = tf.gather(bias, numbers)
        x, factor, inside = value.x, value.factor, self._some(value.channels)
        if form.first is not None:
            each = some_depthwise(kernel.first, inside, factor, x)
            x, factor = form.first.product(x, each), None
        y = form.product(x, kernel.gather(inside, factor, numbers))
        if bias is not None:
            y = tf.nn.bias_add(y, bias)
        return _Thin(form.activate(y), target)

    def _depthwise(
        self, step: CallStep, form: DepthwiseForm, target: Channels
    ) -> _Thin:
        value = self._at(step.inputs[0], target)
        kernel, bias = self._weights[id(step)]
        numbers = self._some(target)
        if bias is not None and numbers is not None:
            bias = tf.gather(bias, numbers)
        kernel = some_depthwise(kernel, numbers, value.factor, value.x)
        y = form.product(value.x, kernel)
        if bias is not None:
            y = tf.nn.bias_add(y, bias)
        return _Thin(form.activate(y), target)

    def _join(self, step: CallStep, target: Channels) -> _Thin:
        sizes = [self._part.kept[number].size for number in step.inputs]
        parts: Sequence[Channels] = [Whole(size) for size in sizes]
        if isinstance(target, Joined):
            parts = target.parts
        thin = [
            _multiplied(self._at(number, part))
            for number, part in zip(step.inputs, parts, strict=True)
        ]
        return _Thin(tf.concat([value.x for value in thin], axis=-1), target)

    def _flatten(self, step: CallStep, target: Channels) -> _Thin:
        source = step.inputs[0]
        places = target.size // self._part.kept[source].size
        of: Channels = Whole(self._part.kept[source].size)
        if isinstance(target, Tiled):
            of = target.of
        elif places == 1:
            of = target
        value = self._at(source, of)
        rows = tf.shape(value.x)[0]
        width = places * tf.shape(value.x)[-1]
        factor = value.factor
        if factor is not None:
            factor = tf.tile(factor, [places])
        return _Thin(tf.reshape(value.x, [rows, width]), target, factor)

    def _scale_shift(self, step: CallStep, target: Channels) -> _Thin:
        value = self._at(step.inputs[0], target)
        scale, shift = self._weights[id(step)]
        numbers = self._some(target)
        if numbers is not None:
            scale, shift = tf.gather(scale, numbers), tf.gather(shift, numbers)
        if value.factor is not None:
            scale = scale * value.factor
        return _Thin(value.x * scale + shift, target)

    def _each(self, step: CallStep, target: Channels) -> _Thin:
        values = [self._at(number, target) for number in step.inputs]
        factor = None
        if isinstance(step.thin, IdentityForm) or (
            isinstance(step.thin, EachForm) and step.thin.scales
        ):
            # A positive factor passes through.
            factor = values[0].factor
        else:
            values = [_multiplied(value) for value in values]
        (y,) = step.call([value.x for value in values], None)
        return _Thin(y, target, factor)


def _multiplied(value: _Thin) -> _Thin:
    """Multiplies the factor of a value in."""
    if value.factor is None:
        return value
    return _Thin(value.x * value.factor, value.channels)


def _matmul(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Multiplies the last axis of a tensor of any rank by a matrix."""
    if x.shape.rank == 2:
        return tf.matmul(x, matrix)
    dims = tf.shape(x)[:-1]
    flat = tf.reshape(x, [-1, tf.shape(x)[-1]])
    y = tf.reshape(
        tf.matmul(flat, matrix), tf.concat([dims, tf.shape(matrix)[1:]], 0)
    )
    y.set_shape([*x.shape[:-1], None])
    return y
