# SPDX-License-Identifier: Apache-2.0
"""`predict_with_uncertainty`: moments, quantiles, dtypes and bad input."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import NothingToSampleError
from tests.helpers import TestCase
from tests.helpers import flat
from tests.prediction.small_model import SEED
from tests.prediction.small_model import count_traces
from tests.prediction.small_model import inputs_of
from tests.prediction.small_model import predict
from tests.prediction.small_model import small_model


class MomentsTest(TestCase):
    def test_are_those_of_the_samples(self):
        for masks in ("shared", "independent"):
            p = predict(
                small_model(3),
                inputs_of(),
                50,
                return_samples=True,
                masks=masks,
                draws="independent",
            )
            exact = p.samples.astype(np.float64)
            self.assertEqual(p.samples.shape, (50, 6, 3))
            self.assertAllClose(p.mean, exact.mean(axis=0))
            self.assertAllClose(
                p.variance, exact.var(axis=0, ddof=1), rtol=1e-5
            )
            self.assertAllClose(
                p.mc_error,
                exact.std(axis=0, ddof=1) / np.sqrt(50),
                rtol=1e-5,
            )

    def test_do_not_depend_on_keeping_samples(self):
        model, x = small_model(3), inputs_of()
        kept = predict(model, x, 50, return_samples=True)
        lean = predict(model, x, 50)
        self.assertIsNone(lean.samples)
        self.assertAllEqual(kept.mean, lean.mean)
        self.assertAllEqual(kept.variance, lean.variance)

    def test_large_mean_and_small_spread_keep_three_digits(self):
        model = small_model(2)
        x = inputs_of()
        model.layers[-1].bias.assign([1e4, -1e4])
        kernel = model.layers[-1].kernel
        kernel.assign(kernel * 0.02)  # a spread of about 1e-2
        for batch_size in (None, 2):
            p = predict(
                model,
                x,
                300,
                return_samples=True,
                batch_size=batch_size,
                draws="independent",
            )
            std = p.samples.astype(np.float64).std(axis=0, ddof=1)
            self.assertTrue(np.all((std > 1e-3) & (std < 1e-1)))
            self.assertAllClose(p.std, std, rtol=5e-4, atol=0)

    def test_noise_precision_adds_its_inverse(self):
        model, x = small_model(2), inputs_of()
        without = predict(model, x)
        p = predict(model, x, noise_precision=4.0)
        self.assertAllEqual(p.variance, without.variance)
        self.assertAllEqual(p.epistemic, without.variance)
        self.assertAllClose(p.total, without.variance + 0.25)
        self.assertAllClose(p.aleatoric, np.full((6, 2), 0.25))
        self.assertEqual(p.noise_precision, 4.0)
        # Probabilities have no observation noise of that kind.
        classes = predict(small_model(2, "softmax"), x)
        self.assertIsNone(classes.noise_precision)
        with self.assertRaisesRegex(TypeError, "noise_precision"):
            kbd.Classification(noise_precision=4.0)

    def test_stats(self):
        p = predict(
            small_model(), inputs_of(), 20, batch_size=4, masks="independent"
        )
        self.assertEqual(p.stats.num_samples, 20)
        self.assertEqual(p.stats.num_rows, 6)
        self.assertEqual(p.stats.seed, SEED)
        self.assertEqual(p.stats.masks, "independent")
        self.assertEqual(p.stats.batch_size, 4)
        self.assertGreater(p.stats.samples_per_second, 0)
        self.assertEqual(
            [step.name for step in p.stats.engine], ["dense", "drop", "dense_1"]
        )

    def test_stats_of_a_stream_tell_its_batches(self):
        data = tf.data.Dataset.from_tensor_slices(inputs_of()).batch(3)
        self.assertEqual(predict(small_model(), data).stats.batch_size, 3)


class QuantilesTest(TestCase):
    def test_agree_with_those_of_the_samples(self):
        model, x = small_model(2), inputs_of()
        levels = [0.05, 0.5, 0.95]
        for batch_size in (None, 4):
            lean = predict(
                model, x, 100, quantiles=levels, batch_size=batch_size
            )
            kept = predict(model, x, 100, return_samples=True)
            self.assertIsNone(lean.samples)
            self.assertAllClose(lean.quantile(levels), kept.quantile(levels))
            low, high = lean.interval(0.9)
            self.assertAllClose(low, lean.quantile(0.05))
            self.assertAllClose(high, lean.quantile(0.95))
            self.assertTrue(np.all(low < high))

    def test_with_samples_too(self):
        p = predict(
            small_model(2),
            inputs_of(),
            100,
            quantiles=[0.25],
            return_samples=True,
        )
        self.assertAllClose(
            p.quantile_values[0], np.quantile(p.samples, 0.25, axis=0)
        )

    def test_more_samples_than_the_sketch_holds(self):
        # 3000 samples through 1024 places; ranks are good to 2.3 % at
        # 200,000 samples by the sketch's own bound, and better here.
        levels = [0.0, 0.05, 0.5, 0.95, 1.0]
        model, x = small_model(2), inputs_of(3)
        lean = predict(model, x, 3000, quantiles=levels)
        samples = predict(model, x, 3000, return_samples=True).samples
        for level in levels:
            value = lean.quantile(level)
            below = np.mean(samples < value, axis=0)
            up_to = np.mean(samples <= value, axis=0)
            self.assertTrue(np.all(below <= level + 0.023), level)
            self.assertTrue(np.all(up_to >= level - 0.023), level)
        self.assertAllClose(lean.quantile(0.0), samples.min(axis=0))
        self.assertAllClose(lean.quantile(1.0), samples.max(axis=0))


class PrecisionTest(TestCase):
    def test_mixed_float16(self):
        keras.config.set_dtype_policy("mixed_float16")
        for activation in (None, "softmax"):
            model = small_model(3, activation)
            self.assertEqual(model.layers[-1].compute_dtype, "float16")
            for masks in ("shared", "independent"):
                p = predict(
                    model, inputs_of(), 50, masks=masks, return_samples=True
                )
                self.assertEqual(p.mean.dtype, np.float32)
                self.assertEqual(p.variance.dtype, np.float32)
                self.assertTrue(np.all(p.variance > 0))
                full = keras.Sequential(
                    [
                        keras.Input((4,)),
                        keras.layers.Dense(8, "tanh", dtype="float32"),
                        keras.layers.Dropout(0.5, dtype="float32"),
                        keras.layers.Dense(3, activation, dtype="float32"),
                    ]
                )
                full.set_weights(model.get_weights())
                other = predict(full, inputs_of(), 50, masks=masks)
                # float16 has 11 bits: a few of its steps at size 4.
                self.assertAllClose(p.mean, other.mean, rtol=0, atol=1e-2)

    def test_float64(self):
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        model = small_model(2, rate=0.3)
        x = inputs_of().astype(np.float64)
        p = predict(model, x, 40, return_samples=True)
        self.assertEqual(p.mean.dtype, np.float64)
        self.assertEqual(p.samples.dtype, np.float64)
        self.assertAllClose(
            p.mean, p.samples.mean(axis=0), rtol=1e-13, atol=1e-13
        )
        one = np.asarray(kbd.sample_function(model, SEED, 17)(x))
        self.assertAllClose(p.samples[17], one, rtol=1e-12, atol=1e-12)

    def test_float64_reaches_the_masks(self):
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.3)])
        p = predict(model, np.ones((2, 4)), 40, return_samples=True)
        kept = p.samples[p.samples != 0]
        self.assertAllClose(
            kept, np.full_like(kept, 1 / 0.7), rtol=1e-14, atol=0
        )

    def test_integers(self):
        model = keras.Sequential(
            [
                keras.Input((3,), dtype="int32"),
                keras.layers.Embedding(5, 2),
                keras.layers.Dropout(0.5),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        x = np.array([[0, 1, 2], [4, 3, 2]])
        for dtype in (np.int32, np.int64, np.uint8):
            p = predict(model, x.astype(dtype))
            self.assertEqual(p.mean.shape, (2, 1))
            self.assertTrue(np.all(p.variance > 0))


class BadInputTest(TestCase):
    def test_is_named_before_anything_is_computed(self):
        model, x = small_model(), inputs_of()
        for word, kwargs in (
            ("num_samples", {"num_samples": 0}),
            ("num_samples", {"num_samples": 1}),
            ("num_samples", {"num_samples": 2.5}),
            ("num_samples", {"num_samples": True}),
            ("batch_size", {"batch_size": 0}),
            ("batch_size", {"batch_size": 1.5}),
            ("masks", {"masks": "common"}),
            ("method", {"method": "magic"}),
            ("engine", {"engine": "warp"}),
            ("seed", {"seed": 0.5}),
            ("quantiles", {"quantiles": [1.5]}),
            ("quantiles", {"quantiles": []}),
            ("quantiles", {"quantiles": 0.5}),
            ("noise_precision", {"noise_precision": 0.0}),
            ("noise_precision", {"noise_precision": float("nan")}),
            ("steps", {"steps": 0}),
            ("layers", {"layers": "nobody"}),
            ("layers", {"layers": []}),
            ("verbose", {"verbose": 7}),
        ):
            with self.assertRaisesRegex(ValueError, word, msg=str(kwargs)):
                kbd.predict_with_uncertainty(
                    model, x, **flat(**{"verbose": 0, **kwargs})
                )
        self.assertEqual(count_traces(model), 0)

    def test_rows(self):
        model = small_model()
        for word, x in (
            ("empty", np.zeros((0, 4))),
            ("fit", np.zeros((3, 5))),
            ("fit", np.zeros((3, 4, 2))),
            ("batch axis", np.float32(3)),
        ):
            with self.assertRaisesRegex(ValueError, word):
                predict(model, x)

    def test_not_finite_is_named_by_its_row_in_the_whole(self):
        model, x = small_model(), inputs_of(20)
        x[13, 2] = np.nan
        x[17, 0] = np.inf
        with self.assertRaisesRegex(NonFiniteError, "13, 17"):
            predict(model, x, batch_size=4)
        stream = tf.data.Dataset.from_tensor_slices(x).batch(6)
        with self.assertRaisesRegex(NonFiniteError, "13, 17"):
            predict(model, stream)

    def test_not_finite_outputs_are_named(self):
        inputs = keras.Input((1,))
        x = keras.layers.Dropout(0.5)(inputs)
        model = keras.Model(inputs, keras.ops.log(x))  # log(0) if dropped
        x = np.ones((8, 1), np.float32)
        with self.assertRaisesRegex(NonFiniteError, "outputs"):
            predict(model, x, batch_size=2)

    def test_empty_stream(self):
        data = tf.data.Dataset.from_tensor_slices(inputs_of(0)).batch(3)
        with self.assertRaisesRegex(ValueError, "empty"):
            predict(small_model(), data)

    def test_nothing_to_sample(self):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        with self.assertRaisesRegex(NothingToSampleError, "dense"):
            predict(model, inputs_of())
        with self.assertRaises(NothingToSampleError):
            predict(kbd.sample_function(small_model(), 0), inputs_of())


@pytest.mark.parametrize("steps", [1, 2])
def test_steps_end_a_stream(steps):
    data = tf.data.Dataset.from_tensor_slices(inputs_of(10)).batch(3)
    model = small_model()
    part = predict(model, data, steps=steps)
    whole = predict(model, inputs_of(10))
    np.testing.assert_allclose(part.mean, whole.mean[: 3 * steps], rtol=1e-5)


def test_endless_generator_needs_steps():
    def forever():
        while True:
            yield inputs_of(3)

    model = small_model()
    p = predict(model, forever(), steps=2)
    assert len(p) == 6


@pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
def test_rate_of_one_drops_everything():
    model = small_model(2, rate=1.0)
    model.layers[-1].bias.assign([1.0, 2.0])
    p = predict(model, inputs_of())
    np.testing.assert_array_equal(p.mean, np.tile([1.0, 2.0], (6, 1)))
    np.testing.assert_array_equal(p.variance, np.zeros((6, 2)))


@pytest.mark.parametrize(
    "layer", [keras.layers.AlphaDropout, keras.layers.GaussianDropout]
)
def test_rate_of_one_without_a_finite_variance_is_refused(layer):
    """Keras lets these layers have rate 1; nothing can be computed there."""
    model = keras.Sequential(
        [keras.Input((4,)), layer(1.0), keras.layers.Dense(1)]
    )
    with pytest.raises(ValueError, match="rate"):
        predict(model, inputs_of())
