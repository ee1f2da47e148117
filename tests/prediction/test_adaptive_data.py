# SPDX-License-Identifier: Apache-2.0
"""Adaptive predictions: samples saved, kinds of data, results, bad values."""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NonFiniteError
from tests.helpers import TestCase
from tests.prediction.stopped_rows import CAP
from tests.prediction.stopped_rows import inputs_of
from tests.prediction.stopped_rows import model_for
from tests.prediction.stopped_rows import predict

layers = keras.layers


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
            predict(model, x, 400, **settings)
            seen.clear()
            predict(model, x, 400, **settings)
            self.assertEqual(sum(seen), 200 * 400)
            seen.clear()
            p = predict(model, x, 400, tolerance=0.05, **settings)
            used = p.num_samples_used
            # Epistemic 4 of total 5, up to chance: some 320 samples.
            self.assertTrue(np.all(used[::20] > 200))
            self.assertEqual(set(np.delete(used, np.s_[::20])), {16})
            # Rows 20 apart are not run with those in between.
            self.assertEqual(sum(seen), used.sum())
            self.assertLess(used.sum(), 0.1 * 200 * 400)


class DataTest(TestCase):
    def test_streams_are_read_once(self):
        model, x = model_for(), inputs_of()
        settings = dict(tolerance=0.12, noise_precision=4.0)
        reads = []

        def batches():
            for begin in range(0, len(x), 5):
                reads.append(begin)
                yield x[begin : begin + 5]

        for masks in ("shared", "independent"):
            whole = predict(model, x, masks=masks, **settings)
            reads.clear()
            p = predict(model, batches(), masks=masks, **settings)
            self.assertEqual(reads, [0, 5, 10, 15, 20])
            dataset = tf.data.Dataset.from_tensor_slices(x).batch(7)
            q = predict(model, dataset, masks=masks, batch_size=2, **settings)
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
        p = predict(model, inputs_of(), **settings)
        expected = predict(alone, inputs_of(), **settings).num_samples_used
        self.assertGreater(len(np.unique(expected)), 2)
        for output in p.values():
            self.assertAllEqual(output.num_samples_used, expected)

    def test_quantiles(self):
        model, x = model_for(), inputs_of()
        levels = (0.05, 0.5, 0.95)
        fixed = predict(model, x, return_samples=True)
        p = predict(model, x, absolute_tolerance=0.05, quantiles=levels)
        self.assertGreater(len(np.unique(p.num_samples_used)), 2)
        for row, used in enumerate(p.num_samples_used):
            self.assertAllClose(
                p.quantile(levels)[:, row],
                np.quantile(fixed.samples[:used, row], levels, axis=0),
                rtol=1e-5,
                atol=1e-6,
            )

    def test_quantiles_beyond_what_the_sketch_holds(self):
        model, x = model_for(), inputs_of(6)
        settings = dict(quantiles=(0.1, 0.9), absolute_tolerance=0.01)
        p = predict(model, x, 2100, **settings)
        used = p.num_samples_used
        self.assertTrue(np.any(used == 2100) and np.any(used < 1000))
        for row in np.flatnonzero(used == 2100):
            # The same sketch, of that row alone.
            lone = predict(model, x, 2100, quantiles=(0.1, 0.9))
            self.assertAllClose(
                p.quantile_values[:, row], lone.quantile_values[:, row]
            )

    def test_rao_blackwell(self):
        model, x = model_for(), inputs_of()
        settings = dict(method="rao_blackwell", noise_precision=4.0)
        p = predict(model, x, tolerance=0.08, **settings)
        used = p.num_samples_used
        self.assertGreater(len(np.unique(used)), 2)
        for count in np.unique(used):
            fixed = predict(model, x, int(count), **settings)
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
        model, x = model_for(), inputs_of()
        for masks in ("shared", "independent"):
            settings = dict(tolerance=0.12, noise_precision=4.0, masks=masks)
            one = predict(model, x, engine="reference", **settings)
            other = predict(model, x, engine="auto", **settings)
            self.assertAllEqual(one.num_samples_used, other.num_samples_used)
            self.assertAllClose(one.mean, other.mean, atol=1e-5)

    def test_bad_output_is_reported_by_its_row(self):
        inputs = keras.Input((5,))
        x = layers.Dropout(0.5)(inputs)
        x = keras.ops.where(x > 100, x * np.inf, x)
        model = keras.Model(inputs, layers.Dense(1)(x))
        data = inputs_of(9)
        data[6] = 1e3
        with self.assertRaisesRegex(NonFiniteError, "1 bad row.*at 6$"):
            predict(model, data, absolute_tolerance=0.2, batch_size=4)

    def test_programs_are_not_traced_for_every_number_of_rows(self):
        from keras_bayesdrop.graph.cache import programs

        model, x = model_for(), inputs_of()
        settings = dict(absolute_tolerance=0.05, masks="independent")
        predict(model, x, engine="reference", **settings)
        self.assertIn(programs.made(model), (1, 2))


class ResultTest(TestCase):
    def test_slices_files_and_pickles_keep_the_numbers(self):
        p = predict(model_for("classification"), inputs_of(), tolerance=0.12)
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
        p = predict(model_for("classification"), inputs_of(), tolerance=0.12)
        self.assertIn("rows=0", repr(p[[]]))

    def test_samples_per_second_counts_what_was_drawn(self):
        p = predict(model_for("classification"), inputs_of(), tolerance=0.12)
        drawn = p.stats.samples_per_second * p.stats.seconds
        self.assertAllClose(drawn, p.num_samples_used.sum())


@pytest.mark.parametrize("name", ["tolerance", "absolute_tolerance"])
@pytest.mark.parametrize(
    "value", [-0.1, float("nan"), float("inf"), "small", True, [0.1]]
)
def test_bad_values(name, value):
    with pytest.raises(kbd.BayesdropError) as caught:
        predict(model_for(), inputs_of(), **{name: value})
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
            predict(
                model_for("classification"), inputs_of(), **asked, **{name: 0.1}
            )
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

    p = predict(model_for("classification"), inputs_of(3), 50)
    with pytest.raises(kbd.BayesdropError, match="num_samples_used"):
        dataclasses.replace(p, num_samples_used=used)
