# SPDX-License-Identifier: Apache-2.0
"""A part of a network that runs without the channels that a sample drops.

    work done / work of the whole = E[channels in kept * channels out kept]

for each convolution, with the numbers of kept channels rounded up to a multiple
of 16: a library of convolutions then meets few shapes.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bayesdrop.plan.cuts.channels import Channels
from keras_bayesdrop.plan.cuts.channels import Joined
from keras_bayesdrop.plan.cuts.channels import Kept
from keras_bayesdrop.plan.cuts.channels import Whole
from keras_bayesdrop.plan.steps import CallStep
from keras_bayesdrop.plan.steps import NoiseStep
from keras_bayesdrop.plan.steps import Step
from keras_bayesdrop.plan.thin_forms import ProductForm

# Numbers of channels are rounded up to a multiple of this.
MULTIPLE = 16
# Samples that run at the same time: one uses all cores in its convolutions,
# and another while it gathers kernels.
SAMPLES_AT_ONCE = 2
# Costs for each sample, in multiply-adds of a convolution, as fitted by
# benchmarks/lab/06_cut_convolutions.py: an entry of a kernel whose channels in
# are gathered, and the operations around a convolution.
_GATHERED_ENTRY = 130
_CONVOLUTION = 12_000_000
_WORD_RANGE = 2.0**32
# A part that pays with more rows than this never pays.
MOST_ROWS = 1024
# Stands for the size of an axis that the model leaves open.
_OPEN_AXIS = 32


@dataclasses.dataclass(frozen=True)
class CutStep:
    """Steps that run sample by sample, without dropped channels.

    Attributes:
        path: Path of its first step.
        kind: What it is, in words.
        inputs: Numbers of the values it takes, whole.
        outputs: Numbers of the values it makes, whole.
        steps: The steps that it stands for, in an order in which they can run.
        kept: Per value, the channels that a sample has of it.
        specs: Per value, something with a shape.
    """

    path: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[Step, ...]
    kept: Mapping[int, Channels]
    specs: Sequence[Any]

    @functools.cached_property
    def noise(self) -> dict[int, NoiseStep]:
        """The active noise steps by the number of their site."""
        return {
            step.site: step
            for step in self.steps
            if isinstance(step, NoiseStep) and step.active
        }

    @functools.cached_property
    def products(self) -> tuple[CallStep, ...]:
        """The steps that multiply by a kernel."""
        return tuple(
            step
            for step in self.steps
            if isinstance(step, CallStep) and isinstance(step.thin, ProductForm)
        )

    def work(self, step: CallStep) -> int:
        """Returns the multiply-adds of a product that is not cut, per row."""
        form = step.thin
        assert isinstance(form, ProductForm)
        (at,) = step.inputs if form.transposed else step.outputs
        return self._places(at) * form.places * math.prod(form.sizes)

    @property
    def whole_work(self) -> int:
        """Multiply-adds of all products if nothing is cut, per row."""
        return sum(map(self.work, self.products))

    def share(self, step: CallStep, settings: "Settings") -> Any:
        """Returns the expected share of the work of a product that is done."""
        one, other = (
            fraction(self.kept[value], settings)
            for value in (step.inputs[0], step.outputs[0])
        )
        return one * other

    def done_work(self, settings: "Settings") -> Any:
        """Returns the expected multiply-adds for a row and a sample."""
        return sum(
            self.work(step) * self.share(step, settings)
            for step in self.products
        )

    def least_rows(self, settings: "Settings") -> Any:
        """Returns the number of rows from which on cutting is faster.

        What is saved grows with the rows, and what gathering kernels costs
        does not. It is infinite if nothing is saved.

        Args:
            settings: Returns the threshold of the noise of a site, as a number
                or a tensor.
        """
        saved = self.whole_work - self.done_work(settings)
        for step in self.steps:
            saved = saved - self._moved(step, settings)
        gathered = 0.0
        for step in self.products:
            form = step.thin
            assert isinstance(form, ProductForm)
            share = fraction(self.kept[step.inputs[0]], settings)
            entries = form.places * math.prod(form.sizes) * share
            gathered = gathered + entries * _GATHERED_ENTRY + _CONVOLUTION
        return _ratio(gathered, saved)

    def describe(self, step: Step) -> str:
        """Returns how a step runs, with its work for a row and a sample."""
        settings = thresholds(self)
        if not isinstance(step, CallStep) or step not in self.products:
            return "without the channels that a sample drops"
        whole = self.work(step)
        done = round(whole * float(self.share(step, settings)))
        least = math.ceil(float(self.least_rows(settings)))
        rows = f" from {least} rows on" if least > 1 else ""
        return f"cut to {done} of {whole} multiply-adds{rows}"

    def _moved(self, step: Step, settings: "Settings") -> Any:
        """Returns the multiply-adds, per row, that select channels."""
        if isinstance(step, CallStep) and isinstance(step.thin, ProductForm):
            return 0
        moved = 0.0
        target = self.kept[step.outputs[0]]
        for value in step.inputs:
            held = self.kept[value]
            if held != target and held.size == target.size:
                entries = self._places(value) * held.size * target.size
                share = fraction(held, settings) * fraction(target, settings)
                moved = moved + entries * share
        return moved

    def _places(self, value: int) -> int:
        dims = tuple(self.specs[value].shape)[1:-1]
        return math.prod(_OPEN_AXIS if dim is None else dim for dim in dims)

    @property
    def row_elements(self) -> int | None:
        """Elements that a row has in the largest step, if that is known."""
        largest = 0
        for step in self.steps:
            elements = 0
            for value in (*step.inputs, *step.outputs):
                dims = tuple(self.specs[value].shape)[1:]
                if None in dims:
                    return None
                elements += math.prod(dims)
            largest = max(largest, elements)
        return largest


# Returns the threshold of the noise of a site.
Settings = Callable[[int], Any]


def fraction(channels: Channels, settings: Settings) -> Any:
    """Returns the expected share of channels that run, between 0 and 1.

    Args:
        channels: The channels.
        settings: Returns the threshold of the noise of a site, as a number or
            a tensor.
    """
    if isinstance(channels, Whole):
        return 1.0
    if isinstance(channels, Kept):
        kept = 1.0
        for site in sorted(channels.sites):
            kept = kept * (1.0 - settings(site) / _WORD_RANGE)
        # Rounding up adds this much on average.
        return _at_most_one(kept + (MULTIPLE - 1) / 2 / channels.size)
    if isinstance(channels, Joined):
        return (
            sum(part.size * fraction(part, settings) for part in channels.parts)
            / channels.size
        )
    return fraction(channels.of, settings)


def thresholds(part: CutStep) -> Settings:
    """Returns the thresholds of the noise of a part as numbers.

    Those of learned noise are as they are now.
    """
    now: dict[int, float] = {}
    with tf.init_scope():
        for site, step in part.noise.items():
            settings = step.noise.op_settings()
            assert settings is not None
            now[site] = float(settings[0])
    return now.__getitem__


def _ratio(above: Any, below: Any) -> Any:
    """Returns a ratio; infinite unless the number below is positive."""
    if isinstance(below, tf.Tensor):
        return tf.where(below > 0, above / below, math.inf)
    return above / below if below > 0 else math.inf


def _at_most_one(share: Any) -> Any:
    return min(share, 1.0) if isinstance(share, float) else tf.minimum(share, 1)
