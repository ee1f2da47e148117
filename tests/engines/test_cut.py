# SPDX-License-Identifier: Apache-2.0
"""Convolutions without dropped channels, against the reference engine."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines import thin_kernels
from keras_bayesdrop.engines.fused import Fused
from keras_bayesdrop.engines.kept_channels import KeptChannels
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import thresholds
from tests.engines.both_engines import assert_close
from tests.engines.both_engines import draws
from tests.engines.both_engines import run
from tests.engines.cut_models import MODELS
from tests.engines.cut_models import ROWS
from tests.engines.cut_models import always_cut
from tests.engines.cut_models import conv
from tests.engines.cut_models import in_both_precisions
from tests.engines.cut_models import inputs_of
from tests.engines.cut_models import moved
from tests.engines.cut_models import network
from tests.engines.cut_models import spatial

layers = keras.layers


def cutting():
    """The engine that cuts, and has no op library."""
    return Fused(None, (), problem="no library")


def parts_of(plan):
    return [s for s in cutting().steps(plan) if isinstance(s, CutStep)]


def block(**kwargs):
    return draws(num_rows=ROWS, shared=True, **kwargs)


def error(outputs, precise):
    """Root mean square of the error of all outputs."""
    squares = [
        np.square(np.float64(y) - z).ravel()
        for y, z in zip(outputs, precise, strict=True)
    ]
    return np.sqrt(np.mean(np.concatenate(squares)))


@pytest.mark.parametrize("name", MODELS)
def test_equals_reference(name, monkeypatch):
    """The error against float64 is at most twice that of the reference."""
    always_cut(monkeypatch)
    model, precise = in_both_precisions(MODELS[name])
    plan, precise_plan = build_plan(model), build_plan(precise)
    assert parts_of(plan)
    x = inputs_of(model)
    truth = run(Reference(), precise_plan, np.float64(x), block())
    desired = run(Reference(), plan, x, block())
    actual = run(cutting(), plan, x, block())
    assert [y.shape for y in actual] == [y.shape for y in desired]
    assert [y.dtype for y in actual] == [y.dtype for y in desired]
    assert error(actual, truth) <= 2 * error(desired, truth)
    # In float64 as well: sums of at most a thousand products.
    exact = run(cutting(), precise_plan, np.float64(x), block())
    scale = max(np.abs(y).max() for y in truth)
    for y, z in zip(exact, truth, strict=True):
        np.testing.assert_allclose(y, z, rtol=0, atol=1e-13 * scale)
    samples = truth[0].reshape(ROWS, 4, -1)
    assert samples.std(axis=1).max() > 0


@pytest.mark.parametrize("name", ["u_net", "one_dimension", "flat_head"])
def test_large_kernels(name, monkeypatch):
    """They are gathered from a transposed copy, with the same result."""
    always_cut(monkeypatch)
    model = moved(MODELS[name]())
    plan, x = build_plan(model), inputs_of(model)
    desired = run(cutting(), plan, x, block())
    monkeypatch.setattr(thin_kernels, "_LARGE", 0)
    actual = run(cutting(), plan, x, block())
    for y, z in zip(actual, desired, strict=True):
        np.testing.assert_array_equal(y, z)


def masks_by_hand(plan, drawn):
    """Returns, by site, masks [samples, channels] of the reference engine."""
    masks = {}
    for step in plan.suffix:
        if getattr(step, "active", False) and hasattr(step, "site"):
            channels = plan.specs[step.inputs[0]].shape[-1]
            rank = len(plan.specs[step.inputs[0]].shape)
            ones = tf.ones([ROWS, *[2] * (rank - 2), channels])
            y = drawn.perturb(
                ones,
                step.noise,
                step.noise_shape,
                step.site,
                folded=False,
                whole_rows=True,
            )
            by_sample = np.asarray(drawn.unfold(y))
            # One mask for all rows and places.
            masks[step.site] = by_sample[0].reshape(4, -1, channels)[:, 0]
            assert (by_sample == by_sample[:1]).all()
    return masks


def test_masks_are_those_of_the_reference():
    plan = build_plan(MODELS["plain"]())
    (part,) = parts_of_any(plan)
    drawn = block()
    kept = KeptChannels(part, drawn)
    masks = masks_by_hand(plan, drawn)
    assert len(masks) == 2
    thin = [c for c in set(part.kept.values()) if hasattr(c, "sites")]
    assert {site for c in thin for site in c.sites} == {*masks}
    for channels in thin:
        (site,) = channels.sites
        for sample in range(4):
            numbers = kept.numbers(channels, sample).numpy()
            desired = np.flatnonzero(masks[site][sample])
            np.testing.assert_array_equal(numbers[: len(desired)], desired)
            assert len({*numbers}) == len(numbers)
            multiple = 16 * max(1, -(-len(desired) // 16))
            assert len(numbers) == min(multiple, channels.size)
            factors = kept.factors(site, numbers, sample, tf.float32)
            np.testing.assert_array_equal(factors, masks[site][sample][numbers])


def parts_of_any(plan):
    with pytest.MonkeyPatch.context() as patch:
        always_cut(patch)
        return parts_of(plan)


def wide():
    """Noise that leaves many channels: rounding up matters less."""
    inputs = x = keras.Input((5, 5, 3))
    for width in (64, 96, 80):
        x = spatial(0.5)(conv(width)(x))
    return keras.Model(inputs, conv(8, size=1)(x))


def test_multiply_adds(monkeypatch):
    """Convolutions do the work of their kept channels, and no more."""
    always_cut(monkeypatch)
    plan = build_plan(moved(wide()))
    (part,) = parts_of(plan)
    shapes = []
    convolution = tf.nn.conv2d

    def spy(x, kernel, *args, **kwargs):
        shapes.append((tuple(x.shape), tuple(kernel.shape)))
        return convolution(x, kernel, *args, **kwargs)

    monkeypatch.setattr(tf.nn, "conv2d", spy)
    plan = build_plan(moved(wide()))
    drawn = block(num_samples=16, num_blocks=2)
    x = inputs_of(wide())
    run(cutting(), plan, x, drawn)
    done = [ROWS * 25 * np.prod(kernel) for _, kernel in shapes]
    kept = {
        site: np.minimum(-(-mask.astype(bool).sum(1) // 16) * 16, size)
        for (site, mask), size in zip(
            masks_of_samples(plan, drawn).items(), (64, 96, 80), strict=True
        )
    }
    pairs = [(9, kept[0], kept[1]), (9, kept[1], kept[2]), (1, kept[2], 8)]
    desired = (
        ROWS * 25 * sum(n * (one * other).sum() for n, one, other in pairs)
    )
    # No noise reaches the first convolution, which runs once.
    assert len(done) == 3 * 16
    assert sum(done) == desired
    # What is told is an expected value: 16 samples of 3 masks of 64 channels
    # or more vary by less than a tenth.
    told = part.done_work(thresholds(part)) * ROWS * 16
    np.testing.assert_allclose(told, desired, rtol=0.1)
    assert told < 0.45 * part.whole_work * ROWS * 16


def masks_of_samples(plan, drawn):
    masks = {}
    for step in plan.suffix:
        if hasattr(step, "site"):
            channels = plan.specs[step.inputs[0]].shape[-1]
            words = drawn.words(step.site, (None, 1, 1, None), [1, 1, channels])
            threshold = step.noise.threshold
            masks[step.site] = words.numpy().reshape(-1, channels) >= threshold
    return masks


@pytest.mark.parametrize("rate", [0.9999, 1.0])
def test_all_channels_dropped(rate, monkeypatch):
    """Biases are left, and what they become."""
    always_cut(monkeypatch)
    make = network(lambda: [spatial(rate)], lambda: [spatial(0.5)])
    model = moved(make())
    plan, x = build_plan(model), inputs_of(model)
    assert parts_of(plan)
    desired = run(Reference(), plan, x, block())
    actual = run(cutting(), plan, x, block())
    assert_close(actual, desired)


def test_rate_zero_is_not_cut():
    plan = build_plan(network(lambda: [spatial(0.0)], lambda: [spatial(0.0)])())
    assert not parts_of_any(plan)


def test_independent_masks_are_not_cut(monkeypatch):
    always_cut(monkeypatch)
    model = moved(MODELS["plain"]())
    plan, x = build_plan(model), inputs_of(model)
    monkeypatch.setattr(
        "keras_bayesdrop.engines.cut.run_cut", lambda *args: pytest.fail()
    )
    drawn = draws(num_rows=ROWS, shared=False)
    desired = run(Reference(), plan, x, drawn)
    np.testing.assert_array_equal(run(cutting(), plan, x, drawn), desired)
    whole = Fused(None, (), cuts=False)
    assert not any(isinstance(s, CutStep) for s in whole.steps(plan))


def test_any_size_of_block(monkeypatch):
    """A sample is the same in every block, up to the rounding of sums."""
    always_cut(monkeypatch)
    model = moved(MODELS["residual"]())
    plan, x = build_plan(model), inputs_of(model)
    all_at_once = run(
        cutting(), plan, x, block(first_sample=0, num_samples=20)
    )[0].reshape(ROWS, 20, -1)
    for first, count in ((0, 1), (3, 5), (14, 4), (16, 4)):
        some = run(
            cutting(), plan, x, block(first_sample=first, num_samples=count)
        )[0].reshape(ROWS, count, -1)
        assert_close([some], [all_at_once[:, first : first + count]])
    for row in range(ROWS):
        drawn = draws(num_rows=1, shared=True, first_sample=0, num_samples=20)
        alone = run(cutting(), plan, x[row : row + 1], drawn)[0]
        assert_close([alone.reshape(20, -1)], [all_at_once[row]])
