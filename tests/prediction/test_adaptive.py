# SPDX-License-Identifier: Apache-2.0
"""Rows that stop when their mean is known well enough, against all samples.

The oracle keeps every sample of a fixed number and cuts each row off by the
rule, in NumPy.
"""

import pickle

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.prediction.sampling import tiles
from tests import zoo
from tests.helpers import TestCase
from tests.helpers import flat

layers = keras.layers

SEED = 11
CAP = 100
TASKS = {"regression": None, "classification": "softmax", "binary": "sigmoid"}


def _predict(model, x, num_samples=CAP, **kwargs):
    settings = {"seed": SEED, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    )


def _model(task="regression", outputs=3):
    keras.utils.set_random_seed(4)
    return keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dropout(0.5),
            layers.Dense(8, activation="tanh", use_bias=False),
            layers.Dropout(0.3),
            layers.Dense(outputs, activation=TASKS[task], use_bias=False),
        ]
    )


def _x(rows=23):
    """Rows of very different size, so of very different uncertainty."""
    rng = np.random.default_rng(3)
    sizes = 10.0 ** rng.uniform(-2, 1, (rows, 1))
    return (sizes * rng.normal(size=(rows, 5))).astype(np.float32)


def _total(samples, task, noise):
    """Variance of an observation, by the law of total variance."""
    epistemic = samples.var(axis=0, ddof=1)
    if task == "regression":
        return epistemic + noise
    return epistemic + (samples * (1 - samples)).mean(axis=0)


def _oracle(samples, task, tolerance, absolute=0.0, noise=0.0):
    """Samples that a row [T, ...] takes."""
    samples = samples.astype(np.float64)
    for used in range(16, len(samples), 16):
        first = samples[:used]
        error = scipy.stats.sem(first, axis=0)
        allowed = tolerance * np.sqrt(_total(first, task, noise))
        if np.all(error <= np.maximum(allowed, absolute)):
            return used
    return len(samples)


def _check(p, samples, tolerance, absolute=0.0, noise=0.0):
    """Compares each row with its first samples; returns how many it took."""
    for row in range(len(p)):
        mine = samples[:, row].astype(np.float64)
        used = _oracle(mine, p.task, tolerance, absolute, noise)
        assert p.num_samples_used[row] == used, row
        mine, one = mine[:used], p[row]
        close = dict(rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(one.mean[0], mine.mean(0), **close)
        np.testing.assert_allclose(
            one.variance[0], mine.var(0, ddof=1), **close
        )
        np.testing.assert_allclose(
            one.mc_error[0], scipy.stats.sem(mine, axis=0), **close
        )
        np.testing.assert_allclose(
            one.total[0], _total(mine, p.task, noise), **close
        )
        if p.task == "regression":
            continue
        entropies = scipy.special.entr(mine)
        if p.task == "classification":
            votes = np.bincount(mine.argmax(-1), minlength=mine.shape[-1])
            favourite = votes.max() / used
            entropies = entropies.sum(-1)
        else:
            votes = np.sum(mine >= 0.5, axis=0)
            favourite = np.maximum(votes, used - votes) / used
            entropies = entropies + scipy.special.entr(1 - mine)
        np.testing.assert_array_equal(one.vote_counts[0], votes)
        np.testing.assert_allclose(
            one.variation_ratio[0], 1 - favourite, **close
        )
        np.testing.assert_allclose(
            one.expected_entropy[0], entropies.mean(0), **close
        )
    return p.num_samples_used


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("task", list(TASKS))
def test_every_row_is_that_of_its_own_number_of_samples(task, masks, engine):
    model, x = _model(task), _x()
    common = dict(masks=masks, engine=engine)
    if task == "regression":
        common["noise_precision"] = 4.0
    fixed = _predict(model, x, return_samples=True, **common)
    # The noise of a label is most of its variance: few samples do.
    noise, tolerance = (0.25, 0.12) if task == "regression" else (0.0, 0.07)
    for batch_size in (None, 3):
        p = _predict(
            model, x, tolerance=tolerance, batch_size=batch_size, **common
        )
        used = _check(p, fixed.samples, tolerance, noise=noise)
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
    samples = _predict(model, x, 96, return_samples=True, **settings).samples
    for batch_size in (None, 2, 17):
        p = _predict(
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
        fixed = _predict(model, x, 48, return_samples=True, **common)
        # Between what rows need, so that they differ.
        middle = np.median(fixed.std.reshape(zoo.ROWS, -1).max(1))
        absolute = float(middle / np.sqrt(28))
        p = _predict(model, x, 48, absolute_tolerance=absolute, **common)
        for row, used in enumerate(p.num_samples_used):
            mine = fixed.samples[:, row]
            assert used == _oracle(mine, p.task, 0.0, absolute)
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
            p = _predict(_model(), _x(), tolerance=0.15)
        self.assertAllEqual(p.num_samples_used, np.full(23, 48))

    def test_absolute_rule(self):
        model, x = _model(), _x()
        fixed = _predict(model, x, return_samples=True)
        p = _predict(model, x, absolute_tolerance=0.05)
        used = _check(p, fixed.samples, 0.0, absolute=0.05)
        self.assertGreater(len(np.unique(used)), 2)
        reached = used < CAP
        self.assertTrue(np.all(p[reached].mc_error <= 0.05))
        self.assertTrue(np.all(p[~reached].mc_error.max(axis=1) > 0.03))

    def test_the_larger_of_both_counts(self):
        model, x = _model(), _x()
        both = dict(tolerance=0.12, absolute_tolerance=0.08)
        fixed = _predict(model, x, return_samples=True)
        p = _predict(model, x, noise_precision=4.0, **both)
        used = _check(p, fixed.samples, 0.12, 0.08, 0.25)
        for name in both:
            one = _predict(model, x, noise_precision=4.0, **{name: both[name]})
            self.assertTrue(np.all(used <= one.num_samples_used))
            self.assertTrue(np.any(used < one.num_samples_used))

    def test_samples_follow_the_epistemic_share(self):
        # T = epistemic / total / tolerance**2, rounded up to blocks of 16. An
        # estimate from 64 samples or more is good to sqrt(2 / 63) = 18 %; the
        # rule stops early where it is low. Three times that.
        model, x = _model(), _x()
        p = _predict(model, x, 4000, tolerance=0.05, noise_precision=4.0)
        exact = _predict(model, x, 4000, noise_precision=4.0)
        share = (exact.epistemic / exact.total).max(axis=1)
        needed = share / 0.05**2
        many = needed > 64
        self.assertGreater(np.sum(many), 4)
        ratio = p.num_samples_used[many] / needed[many]
        self.assertTrue(np.all(ratio > 0.46))
        self.assertTrue(np.all(ratio < 1.54 + 16 / needed[many]))
        self.assertTrue(np.all(p.num_samples_used <= 400))

    def test_tolerance_zero_is_a_fixed_number(self):
        model, x = _model(), _x()
        fixed = _predict(model, x)
        for zero in (0, 0.0):
            p = _predict(model, x, tolerance=zero, absolute_tolerance=zero)
            self.assertAllEqual(p.mean, fixed.mean)
            self.assertAllEqual(p.variance, fixed.variance)
            self.assertIsNone(p.num_samples_used)

    def test_cap(self):
        for cap in (2, 15, 16, 17, 40):
            p = _predict(_model(), _x(), cap, absolute_tolerance=1e-9)
            self.assertAllEqual(p.num_samples_used, np.full(23, cap))
            fixed = _predict(_model(), _x(), cap)
            self.assertAllClose(p.mean, fixed.mean, atol=1e-6)
            self.assertAllClose(p.mc_error, fixed.mc_error, atol=1e-6)

    @pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
    def test_output_that_is_certain_takes_one_block(self):
        p = _predict(
            _model(), np.zeros((3, 5)), tolerance=1e-3, noise_precision=1.0
        )
        self.assertAllEqual(p.num_samples_used, [16, 16, 16])
        self.assertAllEqual(p.mc_error, np.zeros((3, 3)))


class SavingTest(TestCase):
    @pytest.mark.filterwarnings("ignore:Some layers draw noise")
    def test_few_uncertain_rows_cost_little(self):
        """Counts the rows and samples that go through a layer."""
        seen = []

        class Counts(layers.Layer):
            def call(self, x):
                tf.py_function(lambda t: seen.append(len(t)), [x], Tout=[])
                return x

        x = np.full((200, 4), 1e-3, np.float32)
        x[::20] = 1.0
        for masks in ("shared", "independent"):
            model = keras.Sequential(
                [
                    keras.Input((4,)),
                    layers.Dropout(0.5),
                    Counts(),
                    layers.Dense(1, kernel_initializer="ones"),
                ]
            )
            settings = dict(
                masks=masks, noise_precision=1.0, allow_hidden_noise=True
            )
            # A new program is tried on a few rows first.
            _predict(model, x, 400, **settings)
            seen.clear()
            _predict(model, x, 400, **settings)
            self.assertEqual(sum(seen), 200 * 400)
            seen.clear()
            p = _predict(model, x, 400, tolerance=0.05, **settings)
            used = p.num_samples_used
            # Epistemic 4 of total 5, up to chance: some 320 samples.
            self.assertTrue(np.all(used[::20] > 200))
            self.assertEqual(set(np.delete(used, np.s_[::20])), {16})
            # Rows 20 apart are not run with those in between.
            self.assertEqual(sum(seen), used.sum())
            self.assertLess(used.sum(), 0.1 * 200 * 400)


class DataTest(TestCase):
    def test_streams_are_read_once(self):
        model, x = _model(), _x()
        settings = dict(tolerance=0.12, noise_precision=4.0)
        reads = []

        def batches():
            for begin in range(0, len(x), 5):
                reads.append(begin)
                yield x[begin : begin + 5]

        for masks in ("shared", "independent"):
            whole = _predict(model, x, masks=masks, **settings)
            reads.clear()
            p = _predict(model, batches(), masks=masks, **settings)
            self.assertEqual(reads, [0, 5, 10, 15, 20])
            dataset = tf.data.Dataset.from_tensor_slices(x).batch(7)
            q = _predict(model, dataset, masks=masks, batch_size=2, **settings)
            for other in (p, q):
                self.assertAllEqual(
                    other.num_samples_used, whole.num_samples_used
                )
                self.assertAllClose(other.mean, whole.mean, atol=1e-5)

    def test_row_goes_on_until_all_outputs_are_good(self):
        inputs = keras.Input((5,))
        x = layers.Dropout(0.5)(inputs)
        # Without noise, classes are certain enough after a block.
        calm = layers.Dense(3, "softmax", kernel_initializer="zeros")(x)
        wild = layers.Dense(1, name="wild")(x)
        model = keras.Model(inputs, {"calm": calm, "wild": wild})
        alone = keras.Model(inputs, wild)
        settings = dict(tolerance=0.12, noise_precision=4.0)
        p = _predict(model, _x(), **settings)
        expected = _predict(alone, _x(), **settings).num_samples_used
        self.assertGreater(len(np.unique(expected)), 2)
        for output in p.values():
            self.assertAllEqual(output.num_samples_used, expected)

    def test_quantiles(self):
        model, x = _model(), _x()
        levels = (0.05, 0.5, 0.95)
        fixed = _predict(model, x, return_samples=True)
        p = _predict(model, x, absolute_tolerance=0.05, quantiles=levels)
        self.assertGreater(len(np.unique(p.num_samples_used)), 2)
        for row, used in enumerate(p.num_samples_used):
            self.assertAllClose(
                p.quantile(levels)[:, row],
                np.quantile(fixed.samples[:used, row], levels, axis=0),
                rtol=1e-5,
                atol=1e-6,
            )

    def test_quantiles_beyond_what_the_sketch_holds(self):
        model, x = _model(), _x(6)
        settings = dict(quantiles=(0.1, 0.9), absolute_tolerance=0.01)
        p = _predict(model, x, 2100, **settings)
        used = p.num_samples_used
        self.assertTrue(np.any(used == 2100) and np.any(used < 1000))
        for row in np.flatnonzero(used == 2100):
            # The same sketch, of that row alone.
            lone = _predict(model, x, 2100, quantiles=(0.1, 0.9))
            self.assertAllClose(
                p.quantile_values[:, row], lone.quantile_values[:, row]
            )

    def test_rao_blackwell(self):
        model, x = _model(), _x()
        settings = dict(method="rao_blackwell", noise_precision=4.0)
        p = _predict(model, x, tolerance=0.08, **settings)
        used = p.num_samples_used
        self.assertGreater(len(np.unique(used)), 2)
        for count in np.unique(used):
            fixed = _predict(model, x, int(count), **settings)
            rows = used == count
            for name in ("mean", "variance", "mc_error", "total"):
                self.assertAllClose(
                    getattr(p[rows], name),
                    getattr(fixed[rows], name),
                    rtol=1e-4,
                    atol=1e-6,
                )
            met = fixed.mc_error <= 0.08 * np.sqrt(fixed.total)
            if count < CAP:
                self.assertTrue(np.all(met[rows]))
            self.assertFalse(np.any(np.all(met[used > count], axis=1)))

    def test_engines_agree(self):
        model, x = _model(), _x()
        for masks in ("shared", "independent"):
            settings = dict(tolerance=0.12, noise_precision=4.0, masks=masks)
            one = _predict(model, x, engine="reference", **settings)
            other = _predict(model, x, engine="auto", **settings)
            self.assertAllEqual(one.num_samples_used, other.num_samples_used)
            self.assertAllClose(one.mean, other.mean, atol=1e-5)

    def test_bad_output_is_reported_by_its_row(self):
        inputs = keras.Input((5,))
        x = layers.Dropout(0.5)(inputs)
        x = keras.ops.where(x > 100, x * np.inf, x)
        model = keras.Model(inputs, layers.Dense(1)(x))
        data = _x(9)
        data[6] = 1e3
        with self.assertRaisesRegex(NonFiniteError, "1 bad row.*at 6$"):
            _predict(model, data, absolute_tolerance=0.2, batch_size=4)

    def test_programs_are_not_traced_for_every_number_of_rows(self):
        from keras_bayesdrop.graph.cache import programs

        model, x = _model(), _x()
        settings = dict(absolute_tolerance=0.05, masks="independent")
        _predict(model, x, engine="reference", **settings)
        self.assertIn(programs.made(model), (1, 2))


class ResultTest(TestCase):
    def test_slices_files_and_pickles_keep_the_numbers(self):
        p = _predict(_model("classification"), _x(), tolerance=0.12)
        used = p.num_samples_used
        path = self.get_temp_dir() + "/p.npz"
        p.save(path)
        for q in (kbd.Predictive.load(path), pickle.loads(pickle.dumps(p))):
            self.assertAllEqual(q.num_samples_used, used)
            self.assertAllEqual(q.mc_error, p.mc_error)
            self.assertEqual(q.stats, p.stats)
        rows = np.flatnonzero(used > 16)
        self.assertAllEqual(p[rows].num_samples_used, used[rows])
        self.assertAllEqual(p[rows].mc_error, p.mc_error[rows])
        self.assertAllEqual(p[rows].variation_ratio, p.variation_ratio[rows])
        self.assertIn(f"{used.min()}..{used.max()}", repr(p))

    def test_repr_of_no_rows(self):
        p = _predict(_model("classification"), _x(), tolerance=0.12)
        self.assertIn("rows=0", repr(p[[]]))

    def test_samples_per_second_counts_what_was_drawn(self):
        p = _predict(_model("classification"), _x(), tolerance=0.12)
        drawn = p.stats.samples_per_second * p.stats.seconds
        self.assertAllClose(drawn, p.num_samples_used.sum())


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


@pytest.mark.parametrize("name", ["tolerance", "absolute_tolerance"])
@pytest.mark.parametrize(
    "value", [-0.1, float("nan"), float("inf"), "small", True, [0.1]]
)
def test_bad_values(name, value):
    with pytest.raises(kbd.BayesdropError) as caught:
        _predict(_model(), _x(), **{name: value})
    text = str(caught.value)
    assert f"`{name}`. Expected a finite float of at least 0. " in text
    assert f"Received: {name}=" in text


@pytest.mark.parametrize(
    "asked",
    [dict(return_samples=True), dict(return_samples="samples.npy")],
)
def test_what_does_not_go_with_a_tolerance(asked):
    for name in ("tolerance", "absolute_tolerance"):
        with pytest.raises(kbd.BayesdropError, match=r"Expected.*Received"):
            _predict(_model("classification"), _x(), **asked, **{name: 0.1})
        # Moments have no samples to stop: it cannot be written down.
        with pytest.raises(TypeError, match=name):
            kbd.Moments(**{name: 0.1})


@pytest.mark.parametrize(
    "used",
    [
        np.array([16, 16]),
        np.array([16, 16, 1]),
        np.array([16, 16, 51]),
        np.array([16.0, 16.0, 16.0]),
    ],
)
def test_numbers_that_do_not_fit_the_prediction(used):
    import dataclasses

    p = _predict(_model("classification"), _x(3), 50)
    with pytest.raises(kbd.BayesdropError, match="num_samples_used"):
        dataclasses.replace(p, num_samples_used=used)
