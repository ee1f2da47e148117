# SPDX-License-Identifier: Apache-2.0
"""Rows stop when their mean is known well enough, by the rule."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.prediction.sampling import tiles
from tests import zoo
from tests.helpers import TestCase
from tests.prediction.stopped_rows import CAP
from tests.prediction.stopped_rows import TASKS
from tests.prediction.stopped_rows import check
from tests.prediction.stopped_rows import inputs_of
from tests.prediction.stopped_rows import model_for
from tests.prediction.stopped_rows import oracle
from tests.prediction.stopped_rows import predict

layers = keras.layers


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("task", list(TASKS))
def test_every_row_is_that_of_its_own_number_of_samples(task, masks, engine):
    model, x = model_for(task), inputs_of()
    common = dict(masks=masks, engine=engine)
    if task == "regression":
        common["noise_precision"] = 4.0
    fixed = predict(model, x, return_samples=True, **common)
    # The noise of a label is most of its variance: few samples do.
    noise, tolerance = (0.25, 0.12) if task == "regression" else (0.0, 0.07)
    for batch_size in (None, 3):
        p = predict(
            model, x, tolerance=tolerance, batch_size=batch_size, **common
        )
        used = check(p, fixed.samples, tolerance, noise=noise)
        assert used.min() == 16
        assert len(np.unique(used)) >= 3
        assert p.stats.num_samples == CAP


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_masks_are_those_of_the_row_and_sample(masks):
    """Sums of masks are whole numbers: no rounding hides another mask."""
    inputs = keras.Input((6,))
    x = np.zeros((40, 6), np.float32)
    x[::7] = 1.0
    x[3:5] = 1.0
    model = keras.Model(inputs, layers.Dropout(0.5)(inputs))
    settings = dict(masks=masks, noise_precision=1.0, engine="reference")
    samples = predict(model, x, 96, return_samples=True, **settings).samples
    for batch_size in (None, 2, 17):
        p = predict(
            model, x, 96, tolerance=0.08, batch_size=batch_size, **settings
        )
        assert set(p.num_samples_used) > {16}
        for row, used in enumerate(p.num_samples_used):
            sums = samples[:used, row].sum(axis=0)
            np.testing.assert_array_equal(np.round(p.mean[row] * used), sums)


@pytest.mark.parametrize(
    "name",
    [
        "time_folded_into_batch",
        "token_average",
        "noise_on_positions",
        "lstm",
        "multi_head_attention",
        "two_inputs",
        "subclassed",
        "half_precision",
    ],
)
def test_any_model(name):
    model, x = zoo.ZOO[name].build()
    scale = np.array([1, 0.01, 1, 0.01, 0.3], np.float32)

    def shrunk(leaf):
        if leaf.dtype.kind == "i":
            return leaf
        return leaf * scale.reshape(-1, *(1,) * (leaf.ndim - 1))

    x = keras.tree.map_structure(shrunk, x)
    for masks in ("shared", "independent"):
        common = dict(masks=masks, noise_precision=1.0, engine="reference")
        fixed = predict(model, x, 48, return_samples=True, **common)
        # Between what rows need, so that they differ.
        middle = np.median(fixed.std.reshape(zoo.ROWS, -1).max(1))
        absolute = float(middle / np.sqrt(28))
        p = predict(model, x, 48, absolute_tolerance=absolute, **common)
        for row, used in enumerate(p.num_samples_used):
            mine = fixed.samples[:, row]
            assert used == oracle(mine, p.task, 0.0, absolute)
            np.testing.assert_allclose(
                p.mean[row],
                mine[:used].mean(axis=0, dtype=np.float64),
                rtol=zoo.ZOO[name].rtol,
                atol=1e-5,
            )


class RuleTest(TestCase):
    def test_relative_rule_without_noise_is_the_same_for_all_rows(self):
        # mc_error = std / sqrt(T) <= 0.15 * std iff T >= 44.4: 48 samples.
        with pytest.warns(kbd.BayesdropWarning, match=r"= 45, or"):
            p = predict(model_for(), inputs_of(), tolerance=0.15)
        self.assertAllEqual(p.num_samples_used, np.full(23, 48))

    def test_absolute_rule(self):
        model, x = model_for(), inputs_of()
        fixed = predict(model, x, return_samples=True)
        p = predict(model, x, absolute_tolerance=0.05)
        used = check(p, fixed.samples, 0.0, absolute=0.05)
        self.assertGreater(len(np.unique(used)), 2)
        reached = used < CAP
        self.assertTrue(np.all(p[reached].mc_error <= 0.05))
        self.assertTrue(np.all(p[~reached].mc_error.max(axis=1) > 0.03))

    def test_the_larger_of_both_counts(self):
        model, x = model_for(), inputs_of()
        both = dict(tolerance=0.12, absolute_tolerance=0.08)
        fixed = predict(model, x, return_samples=True)
        p = predict(model, x, noise_precision=4.0, **both)
        used = check(p, fixed.samples, 0.12, 0.08, 0.25)
        for name in both:
            one = predict(model, x, noise_precision=4.0, **{name: both[name]})
            self.assertTrue(np.all(used <= one.num_samples_used))
            self.assertTrue(np.any(used < one.num_samples_used))

    def test_samples_follow_the_epistemic_share(self):
        # T = epistemic / total / tolerance**2, rounded up to blocks of 16. An
        # estimate from 64 samples or more is good to sqrt(2 / 63) = 18 %; the
        # rule stops early where it is low. Three times that.
        model, x = model_for(), inputs_of()
        p = predict(model, x, 4000, tolerance=0.05, noise_precision=4.0)
        exact = predict(model, x, 4000, noise_precision=4.0)
        share = (exact.epistemic / exact.total).max(axis=1)
        needed = share / 0.05**2
        many = needed > 64
        self.assertGreater(np.sum(many), 4)
        ratio = p.num_samples_used[many] / needed[many]
        self.assertTrue(np.all(ratio > 0.46))
        self.assertTrue(np.all(ratio < 1.54 + 16 / needed[many]))
        self.assertTrue(np.all(p.num_samples_used <= 400))

    def test_tolerance_zero_is_a_fixed_number(self):
        model, x = model_for(), inputs_of()
        fixed = predict(model, x)
        for zero in (0, 0.0):
            p = predict(model, x, tolerance=zero, absolute_tolerance=zero)
            self.assertAllEqual(p.mean, fixed.mean)
            self.assertAllEqual(p.variance, fixed.variance)
            self.assertIsNone(p.num_samples_used)

    def test_cap(self):
        for cap in (2, 15, 16, 17, 40):
            p = predict(model_for(), inputs_of(), cap, absolute_tolerance=1e-9)
            self.assertAllEqual(p.num_samples_used, np.full(23, cap))
            fixed = predict(model_for(), inputs_of(), cap)
            self.assertAllClose(p.mean, fixed.mean, atol=1e-6)
            self.assertAllClose(p.mc_error, fixed.mc_error, atol=1e-6)

    @pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
    def test_output_that_is_certain_takes_one_block(self):
        p = predict(
            model_for(), np.zeros((3, 5)), tolerance=1e-3, noise_precision=1.0
        )
        self.assertAllEqual(p.num_samples_used, [16, 16, 16])
        self.assertAllEqual(p.mc_error, np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([4], [(4, 5)]),
        ([0, 1, 2], [(0, 3)]),
        ([0, 9], [(0, 10)]),
        ([0, 10], [(0, 1), (10, 11)]),
        ([3, 4, 30, 33, 60], [(3, 5), (30, 34), (60, 61)]),
    ],
)
def test_spans_cover_rows_in_few_ranges(rows, expected):
    assert tiles.spans(np.array(rows)) == expected
