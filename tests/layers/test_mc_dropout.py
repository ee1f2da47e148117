# SPDX-License-Identifier: Apache-2.0
"""Noise of any family on units, in training and in predictions."""

import json
import os
from unittest import mock

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop import noise as noises
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.layers import MCSpatialDropout1D
from keras_bayesdrop.layers import MCSpatialDropout2D
from keras_bayesdrop.layers._dropout import noise as dropout_noise
from tests.helpers import TestCase
from tests.noise.cases import InverseNakagami
from tests.noise.cases import uniforms
from tests.random.test_rng import philox_words

_stats = scipy.stats
# By name: noise divided by its mean, or by its median, in SciPy.
NAMED = (
    ("rayleigh", _stats.rayleigh(), np.sqrt(np.pi / 2)),
    # E[xi] = sqrt(3) * Gamma(5/2) / Gamma(3), Gamma(5/2) = 3/4 sqrt(pi).
    ("inverse_nakagami", InverseNakagami(3, 3), 0.375 * np.sqrt(3 * np.pi)),
    ("half_cauchy", _stats.halfcauchy(), 1.0),
    ("beta", _stats.beta(0.5, 0.5), 0.5),
    ("uniform", _stats.uniform(), 0.5),
    ("log_normal", _stats.lognorm(0.5), np.exp(0.125)),
)


class MCDropoutTest(TestCase):
    def test_kept_units_are_rescaled(self):
        y = keras.ops.convert_to_numpy(
            MCDropout(0.2, seed=7)(np.ones((101, 503), "float32"))
        )
        self.assertAllEqual(np.unique(y), np.float32([0.0, 1.25]))
        # 50_803 draws of standard deviation 0.5: 4 standard errors of the
        # mean are 4 * 0.5 / sqrt(50_803) = 0.0089.
        self.assertAllClose(y.mean(), 1.0, atol=0.009, rtol=0)

    def test_gaussian_noise_has_the_moments_of_dropout(self):
        y = keras.ops.convert_to_numpy(
            MCDropout(0.2, noise="gaussian", seed=7)(
                np.full((101, 503), 2.0, "float32")
            )
        )
        noise = y.astype("float64") / 2.0
        # n = 50_803 draws from N(1, v = 0.25). 4 standard errors: of the mean
        # 4 * sqrt(v / n) = 0.0089, of the variance 4 * v * sqrt(2 / n) =
        # 0.0063, of the third moment about the mean 4 * sqrt(15 * v^3 / n) =
        # 0.0086.
        self.assertAllClose(noise.mean(), 1.0, atol=0.009, rtol=0)
        self.assertAllClose(noise.var(), 0.25, atol=0.0063, rtol=0)
        self.assertAllClose(
            ((noise - 1.0) ** 3).mean(), 0.0, atol=0.0087, rtol=0
        )

    @parameterized.product(
        noise=("bernoulli", "gaussian"),
        noise_shape=((None, 1, None), [11, 1, 7], (1, None, 1), (1, 1, 1)),
    )
    def test_noise_shape_is_shared_along_axes_of_one(self, noise, noise_shape):
        layer = MCDropout(0.5, noise=noise, noise_shape=noise_shape, seed=3)
        y = keras.ops.convert_to_numpy(layer(np.ones((11, 5, 7), "float32")))
        self.assertEqual(y.shape, (11, 5, 7))
        shared = tuple(a for a, size in enumerate(noise_shape) if size == 1)
        first = np.take(y, [0], axis=shared[0])
        for axis in shared[1:]:
            first = np.take(first, [0], axis=axis)
        self.assertAllEqual(y, np.broadcast_to(first, y.shape))
        # And is not shared along the others.
        if first.size > 1:
            self.assertGreater(len(np.unique(first)), 1)

    @parameterized.parameters(
        ((None, 1),), ((None, 1, 1, 1),), ((None, 4, None),), ((2, 1, 1),)
    )
    def test_noise_shape_that_does_not_fit(self, noise_shape):
        layer = MCDropout(0.5, noise_shape=noise_shape)
        with self.assertRaisesRegex(
            BayesdropError, r"`noise_shape` does not fit.*Received: noise_shape"
        ):
            layer(np.ones((11, 5, 7), "float32"))

    @parameterized.parameters("x", 3, ((0, 1),), ((None, 1.0),), ((True, 1),))
    def test_wrong_noise_shapes(self, noise_shape):
        with self.assertRaisesRegex(
            BayesdropError, "Invalid value for argument `noise_shape`"
        ):
            MCDropout(0.5, noise_shape=noise_shape)

    @parameterized.parameters("normal", None, 1)
    def test_wrong_noise(self, noise):
        with self.assertRaisesRegex(
            BayesdropError,
            "`noise`. Expected one of 'bernoulli', 'gaussian', 'rayleigh', "
            ".*'log_normal', or an instance. Received: noise",
        ):
            MCDropout(0.5, noise=noise)

    def test_numpy_arguments_become_plain_ones(self):
        config = MCDropout(
            np.float32(0.5), noise_shape=[None, np.int64(1)]
        ).get_config()
        self.assertIs(type(config["rate"]), float)
        self.assertEqual(config["noise_shape"], (None, 1))
        self.assertIs(type(config["noise_shape"][1]), int)

    def test_gradient_is_the_noise(self):
        x = tf.constant(np.linspace(-3, 3, 35, dtype="float32").reshape(5, 7))
        for noise in ("bernoulli", "gaussian"):
            layer = MCDropout(0.4, noise=noise, seed=8)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x)
            again = MCDropout(0.4, noise=noise, seed=8)
            self.assertAllEqual(tape.gradient(y, x), again(tf.ones_like(x)))

    def test_wrong_rates_and_noise(self):
        for make, message in (
            (lambda: MCDropout(), "`rate`. Expected a float in .0, 1.."),
            (lambda: MCDropout(noise="gaussian"), "`rate`. Expected a float"),
            (
                lambda: MCDropout(0.5, noise="rayleigh"),
                "`rate`. Expected `None` with noise='rayleigh'",
            ),
            (
                lambda: MCDropout(0.5, noise=noises.Bernoulli(0.4)),
                "`rate`. Expected `None` with noise=Bernoulli.*rate=0.5",
            ),
            (
                lambda: MCSpatialDropout1D(0.5, noise=noises.Beta()),
                "`rate`. Expected `None` with noise=Beta",
            ),
            (
                lambda: MCDropout(noise=noises.CenteredGaussian()),
                "cannot be scaled to mean 1.*Received: mean=0",
            ),
            (
                lambda: MCDropout(noise=noises.InverseNakagami(0.4)),
                "cannot be scaled to mean 1.*Received: mean=inf",
            ),
            (lambda: MCDropout(noise=noises.Alpha(0.5)), "`noise`. Expected"),
            (lambda: MCDropout(noise={"a": 1}), "`noise`. Expected one of"),
        ):
            with self.assertRaisesRegex(BayesdropError, message):
                make()

    def test_an_instance_of_dropout_is_its_name(self):
        for family in (noises.Bernoulli(0.3), noises.Gaussian(0.3)):
            layer = MCDropout(noise=family)
            self.assertEqual((layer.rate, layer.noise), (0.3, family.kind))
            self.assertEqual(noise_of(layer), (family, None))
            # A new rate counts, as in layers of Keras.
            layer.rate = 0.5
            self.assertEqual(noise_of(layer), (type(family)(0.5), None))

    def test_old_configs_load(self):
        old = {"rate": 0.3, "seed": 1, "noise_shape": None, "noise": "gaussian"}
        layer = MCDropout.from_config(old)
        self.assertEqual((layer.rate, layer.noise), (0.3, "gaussian"))
        del old["noise"], old["noise_shape"]
        for cls in (MCDropout, MCSpatialDropout2D):
            layer = cls.from_config(old)
            self.assertEqual((layer.rate, layer.noise), (0.3, "bernoulli"))


class FamiliesTest(TestCase):
    """`MCDropout` with noise that is neither Bernoulli nor Gaussian."""

    @parameterized.parameters(
        "rayleigh", noises.Beta(2.0, 1.0), noises.InverseNakagami(4.0)
    )
    def test_keras_contract(self, noise):
        self.run_layer_test(
            MCDropout,
            init_kwargs={"noise": noise, "seed": 11},
            input_shape=(3, 7),
            call_kwargs={"training": False},
            expected_output_shape=(3, 7),
            expected_num_trainable_weights=0,
            expected_num_non_trainable_weights=0,
            expected_num_seed_generators=1,
            expected_num_losses=0,
            supports_masking=True,
            assert_built_after_instantiation=True,
        )

    @parameterized.parameters(*NAMED)
    def test_predictions_draw_from_the_counters(self, name, reference, scale):
        x = np.linspace(0.5, 2.0, 15).reshape(3, 5).astype("float32")
        model = keras.Sequential([keras.Input((5,)), MCDropout(noise=name)])
        for masks, rows in (("shared", range(1)), ("independent", range(3))):
            samples = kbd.predict_with_uncertainty(
                model,
                x,
                40,
                seed=6,
                return_samples=True,
                verbose=0,
                method=kbd.Sampling(masks=masks, draws="independent"),
            ).samples
            u = uniforms(philox_words(6, 0, range(40), rows, 5))
            factor = np.swapaxes(reference.ppf(u), 0, 1) / scale
            # Noise in float64, then three roundings to float32. The tables
            # of Beta and inverse Nakagami are as good for u as these.
            np.testing.assert_allclose(samples, x * factor, rtol=1e-6)
        self.assertAllEqual(kbd.deterministic(model)(x), x)

    @parameterized.parameters(*NAMED)
    def test_training_draws_from_the_distribution(self, name, reference, scale):
        layer = MCDropout(noise=name, seed=3)
        compiled = tf.function(layer, jit_compile=True)
        x = tf.fill((100, 200), 2.0)
        for draw in (layer(x, training=False), compiled(x)):
            noise = np.asarray(draw, np.float64).ravel() / 2.0 * scale
            # 12 tests at level 1e-4: of all seeds one in 800 would fail. A
            # CDF that is off by 0.016 is noticed by 20,000 draws.
            test = _stats.kstest(noise, reference.cdf)
            self.assertGreater(test.pvalue, 1e-4)

    def test_saves_and_loads(self):
        names = [case[0] for case in NAMED]
        x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
        model = keras.Sequential(
            [
                keras.Input((4,)),
                *[MCDropout(noise=name, seed=1) for name in names],
                keras.layers.Dense(1),
            ]
        )
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        clone = keras.models.clone_model(model)
        for other in (loaded, clone):
            for layer, name in zip(other.layers, names, strict=False):
                self.assertEqual(layer.noise, noises.get(name))
                self.assertIsNone(layer.rate)
        draws = [
            kbd.predict_with_uncertainty(m, x, 5, seed=0, verbose=0).mean
            for m in (model, loaded)
        ]
        self.assertAllEqual(*draws)

    def test_fits_under_xla(self):
        x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
        model = keras.Sequential(
            [
                MCDropout(noise="half_cauchy"),
                MCDropout(noise="beta"),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mae", jit_compile=True)
        history = model.fit(x, np.ones((8, 1)), epochs=2, verbose=0)
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        self.assertNotAllClose(model.layers[-1].bias.numpy(), [0.0])

    def test_first_and_last_uniform_number(self):
        """All that the generator may return, also 0, makes finite noise."""
        ends = {
            "float32": np.float32([0.0, 1 - 2.0**-23]),
            "float64": np.float64([0.0, 1 - 2.0**-52]),
        }
        families = [noises.get(name) for name, _, _ in NAMED]
        for family in [noises.Gaussian(0.5), *families]:
            for dtype, values in ends.items():
                with mock.patch.object(
                    dropout_noise, "uniform", lambda *_, v=values: v
                ):
                    drawn = dropout_noise.draw_factor(family, 2, None, dtype)
                self.assertTrue(np.all(np.isfinite(drawn)))
                self.assertLess(drawn[0], drawn[1])

    def test_parameters_survive_a_config(self):
        for cls in (MCDropout, MCSpatialDropout1D, MCSpatialDropout2D):
            layer = cls(noise=noises.Beta(2.0, 3.0), seed=4)
            config = json.loads(json.dumps(layer.get_config()))
            self.assertEqual(
                cls.from_config(config).noise, noises.Beta(2.0, 3.0)
            )

    @parameterized.parameters("mixed_float16", "mixed_bfloat16", "float64")
    def test_dtypes(self, policy):
        layer = MCDropout(noise="log_normal", dtype=policy, seed=2)
        y = layer(np.ones((50, 40), "float32"))
        self.assertEqual(y.dtype.name, policy.removeprefix("mixed_"))
        values = np.unique(np.asarray(keras.ops.cast(y, "float64")))
        # Drawn wide, rounded at the end: bfloat16 has 128 steps an octave.
        self.assertGreater(len(values), 200)

    def test_noise_shape(self):
        layer = MCDropout(noise="uniform", noise_shape=(None, 1, None))
        y = np.asarray(layer(np.ones((11, 5, 7), "float32")))
        self.assertAllEqual(y, y[:, :1] * np.ones((5, 1), "float32"))
        self.assertEqual(len(np.unique(y)), 77)

    def test_gradient_is_the_noise(self):
        x = tf.constant(np.linspace(-3, 3, 35, dtype="float32").reshape(5, 7))
        for name, _, _ in NAMED:
            layer = MCDropout(noise=name, seed=8)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x)
            again = MCDropout(noise=name, seed=8)
            self.assertAllEqual(tape.gradient(y, x), again(tf.ones_like(x)))

    @parameterized.parameters(noises.Bernoulli(0.4), noises.Gaussian(0.4))
    def test_engines_agree_on_noise_given_as_an_instance(self, noise):
        model = keras.Sequential(
            [
                keras.Input((5,)),
                MCDropout(noise=noise),
                keras.layers.Dense(8, activation="relu"),
                MCDropout(noise=noise),
                keras.layers.Dense(2),
            ]
        )
        x = np.random.default_rng(0).normal(size=(3, 5)).astype("float32")
        draws = [
            kbd.predict_with_uncertainty(
                model,
                x,
                40,
                seed=1,
                return_samples=True,
                verbose=0,
                method=kbd.Sampling(engine=engine),
            ).samples
            for engine in ("auto", "reference")
        ]
        # The same noise, and sums of eight products in another order.
        self.assertAllClose(draws[0], draws[1], rtol=1e-5, atol=1e-5)
        self.assertGreater(draws[0].std(axis=0).min(), 0.0)

    def test_not_compiled_but_sampled(self):
        """A chain stops at noise that the compiled op does not know."""
        model = keras.Sequential(
            [
                keras.Input((5,)),
                keras.layers.Dense(8, activation="relu"),
                MCDropout(noise="rayleigh"),
                keras.layers.Dense(2),
            ]
        )
        steps = kbd.explain(model).steps
        self.assertTrue(all(step.engine != "fused" for step in steps))
        x = np.ones((3, 5), "float32")
        draws = [
            kbd.predict_with_uncertainty(
                model,
                x,
                9,
                seed=1,
                verbose=0,
                method=kbd.Sampling(engine=engine),
            )
            for engine in ("auto", "reference")
        ]
        self.assertAllClose(draws[0].mean, draws[1].mean, rtol=1e-6)
        self.assertGreater(draws[0].std.min(), 0.0)
