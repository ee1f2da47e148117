# SPDX-License-Identifier: Apache-2.0
import math

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from scipy import integrate

from keras_bayesdrop import priors
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale
from keras_bayesdrop.priors import ScalePrior
from tests.helpers import TestCase
from tests.priors import scale_reference as reference


class DensityTest(TestCase):
    @parameterized.parameters(*reference.PRIORS)
    def test_log_prob_is_that_of_scipy(self, prior):
        tau = np.array([1e-3, 0.1, 0.8, 1.0, 3.0, 50.0])
        self.assertAllClose(
            prior.log_prob(tau**2),
            reference.log_density(prior, tau),
            rtol=1e-12,
            atol=1e-12,
        )

    @parameterized.parameters(
        *(p for p in reference.PRIORS if not isinstance(p, LogUniformScale))
    )
    def test_density_integrates_to_one(self, prior):
        # Over z = tau^k, by x = log(tau): dz = k * tau^k * dx, and dz = dx
        # for z = log(tau). Outside, the half-Cauchy has 1e-11, and the
        # inverse gamma of shape 0.7 on the scale exp(-0.7 * 25) = 3e-8. The
        # rule is exact to rounding for functions as smooth as these.
        x = np.linspace(-25.0, 25.0, 5001)
        density = np.exp(np.asarray(prior.log_prob(np.exp(2.0 * x))))
        power = prior.power
        width = power * np.exp(power * x) if power else np.ones_like(x)
        total = integrate.trapezoid(density * width, x)
        self.assertAllClose(total, 1.0, rtol=0, atol=1e-7)

    @parameterized.parameters(*reference.PRIORS)
    def test_score_is_the_slope_of_log_prob(self, prior):
        x = np.array([-4.0, -0.5, 0.0, 1.0, 5.0])
        step = 1e-5
        slope = (
            reference.log_density(prior, np.exp(x + step))
            - reference.log_density(prior, np.exp(x - step))
        ) / (2.0 * step)
        score = np.asarray(prior.score(np.exp(2.0 * x)))
        # Values up to 1e4 with 16 digits over a step of 1e-5: 1e-7 of the
        # largest, and a third derivative of the same order times 1e-10.
        self.assertAllClose(score, slope, rtol=1e-6, atol=1e-6)

    @parameterized.parameters(*reference.PRIORS)
    def test_limits_of_the_score(self, prior):
        at_zero, at_infinity = prior.score_limits
        scores = np.asarray(prior.score(np.array([1e-30, 1e30])))
        if math.isinf(at_zero):
            self.assertGreater(scores[0], 1e13)
        else:
            self.assertAllClose(scores[0], at_zero, rtol=0, atol=1e-12)
        self.assertAllClose(scores[1], at_infinity, rtol=0, atol=1e-12)

    @parameterized.parameters(
        (InverseGammaScale(), -math.inf),
        (InverseGammaScale(on="scale"), -math.inf),
        (HalfCauchyScale(2.0), math.log(1.0 / math.pi)),
        (HalfCauchyScale(variable="variance"), math.inf),
        (HalfCauchyScale(variable="log_scale"), -math.inf),
        (LogUniformScale(), math.inf),
        (LogUniformScale("log_scale"), 0.0),
    )
    def test_log_prob_at_zero(self, prior, expected):
        self.assertAllClose(prior.log_prob([0.0]), [expected], rtol=1e-6)


class OptimumTest(TestCase):
    @parameterized.product(prior=reference.PRIORS, count=(1, 7, 300))
    def test_closed_form_is_the_maximum(self, prior, count):
        moments = np.array([1e-3, 0.2, 1.0, 7.0, 2e3])
        expected = [
            reference.best_variance(prior, each, count) for each in moments
        ]
        # A search by values finds the place of a maximum of height F to
        # sqrt(2^-52 * F / F''), in the log of the scale: about 1e-7.
        self.assertAllClose(
            prior.optimal_variance(moments, count), expected, rtol=1e-6
        )

    @parameterized.parameters(
        *reference.PRIORS,
        *(
            HalfCauchyScale(eta, variable=variable)
            for eta in (1e-4, 1e4)
            for variable in reference.VARIABLES
        ),
        InverseGammaScale(1e-3, 1e-8, on="scale"),
        InverseGammaScale(1e-3, 1e-8),
    )
    def test_float32_from_tiny_to_huge_moments(self, prior):
        moments = np.logspace(-12, 12, 25).astype("float32")
        compiled = tf.function(
            lambda m: prior.optimal_variance(m, 50), jit_compile=True
        )
        functions = [
            (count, lambda m, count=count: prior.optimal_variance(m, count))
            for count in (1, 50, 1_000_000)
        ]
        for count, function in (*functions, (50, compiled)):
            exact = [
                reference.decimal_variance(prior, each, count)
                for each in moments
            ]
            actual = function(tf.constant(moments))
            self.assertEqual(actual.dtype, tf.float32)
            # At most 16 roundings of 2^-24 in a row, in expressions of
            # positive terms: 1e-6. The one difference, M - q * eta^2, is
            # added to a root that is larger than both its terms.
            error = reference.relative_error(actual.numpy(), exact)
            self.assertLess(error, 1e-6)

    @parameterized.parameters(
        HalfCauchyScale(0.6),
        HalfCauchyScale(1e-12),
        InverseGammaScale(2.0, 1e-12, on="scale"),
    )
    def test_squares_of_moments_are_no_numbers_of_float32(self, prior):
        moments = np.float32([1e-30, 1e-22, 1e22, 1e30])
        exact = [
            reference.decimal_variance(prior, each, 50) for each in moments
        ]
        actual = prior.optimal_variance(moments, 50).numpy()
        self.assertLess(reference.relative_error(actual, exact), 1e-6)

    def test_float64_is_kept(self):
        moments = np.array([1e-12, 1.0, 1e12])
        for prior in reference.PRIORS:
            actual = prior.optimal_variance(moments, 50)
            exact = [
                reference.decimal_variance(prior, each, 50) for each in moments
            ]
            self.assertEqual(actual.dtype, tf.float64)
            # 16 roundings of 2^-53
            error = reference.relative_error(actual.numpy(), exact)
            self.assertLess(error, 2e-15)

    @parameterized.product(prior=reference.PRIORS, count=(1, 4))
    def test_gradient(self, prior, count):
        # With the point where the half-Cauchy's h is 0: M = q * eta^2.
        q = count + prior.power - 1.0
        knot = q * getattr(prior, "eta", 1.0) ** 2
        moments = np.array([1e-12, 0.3, knot or 1.0, 5.0, 1e12])

        @tf.function(jit_compile=True)
        def gradient(points):
            with tf.GradientTape() as tape:
                tape.watch(points)
                variance = prior.optimal_variance(points, count)
            return tape.gradient(variance, points)

        steps = 1e-4 * moments
        differences = (
            np.asarray(prior.optimal_variance(moments + steps, count))
            - np.asarray(prior.optimal_variance(moments - steps, count))
        ) / (2.0 * steps)
        # Truncation: a relative step of 1e-4, squared. Rounding: 1e-16 of a
        # value that may be 1e13 times its change over the step, for the
        # inverse gamma at M = 1e-12, where the slope is known by hand.
        if isinstance(prior, InverseGammaScale):
            moments, differences = moments[1:], differences[1:]
        actual = gradient(tf.constant(moments))
        self.assertAllClose(actual, differences, rtol=1e-6, atol=0)

    @parameterized.product(
        prior=reference.PRIORS, count=(1, 4), dtype=("float32", "float64")
    )
    def test_zero_moments(self, prior, count, dtype):
        moments = tf.zeros((2,), dtype)
        with tf.GradientTape() as tape:
            tape.watch(moments)
            variance = prior.optimal_variance(moments, count)
        gradient = tape.gradient(variance, moments).numpy()
        self.assertTrue(np.all(np.isfinite(gradient)))
        if isinstance(prior, InverseGammaScale):
            # b / (N / 2), or its square for the scale
            decay = (2.0 if prior.on == "variance" else 1.0) * prior.a
            total = count + decay + prior.power
            expected = 2.0 * prior.b / total
            if prior.on == "scale":
                expected = (prior.b / total) ** 2
            self.assertAllClose(variance, [expected] * 2, rtol=1e-6)
        else:
            self.assertAllEqual(variance, [0.0, 0.0])

    def test_zero_moments_where_the_slope_is_infinite(self):
        # One weight, over log(tau): tau^2 = (M + sqrt(M^2 + 8 M eta^2)) / 4.
        prior = HalfCauchyScale(0.6, "log_scale")

        @tf.function(jit_compile=True)
        def gradient(moments):
            with tf.GradientTape() as tape:
                tape.watch(moments)
                variance = prior.optimal_variance(moments, 1)
            return variance, tape.gradient(variance, moments)

        variance, slope = gradient(tf.constant([0.0, 1.0]))
        self.assertEqual(variance[0], 0.0)
        self.assertTrue(np.all(np.isfinite(slope)))
        # (1 + (1 + 4 * 0.36) / sqrt(1 + 8 * 0.36)) / 4
        expected = (1.0 + 2.44 / np.sqrt(3.88)) / 4.0
        self.assertAllClose(slope[1], expected, rtol=1e-6)

    def test_low_precision_and_lists(self):
        for moments in (np.float16([1.0, 2.0]), [1.0, 2.0], [1, 2]):
            for prior in reference.PRIORS:
                variance = prior.optimal_variance(moments, 2)
                self.assertEqual(variance.dtype, tf.float32)

    def test_values_of_the_documentation(self):
        for prior, expected in (
            (InverseGammaScale(3.0, 3.0), [0.6, 1.6]),
            (HalfCauchyScale(1.0), [0.0, 2.8708]),
            (LogUniformScale(), [0.0, 2.5]),
        ):
            variance = prior.optimal_variance([0.0, 10.0], count=2)
            self.assertAllClose(variance, expected, rtol=0, atol=5e-5)

    @parameterized.parameters(0, -1, 2.5, True, None)
    def test_wrong_count(self, count):
        for prior in reference.PRIORS:
            with self.assertRaisesRegex(
                BayesdropError, "argument `count`. Expected .*Received: count="
            ):
                prior.optimal_variance([1.0], count)


class ContractTest(TestCase):
    def test_defaults_are_those_of_the_paper(self):
        self.assertEqual(
            InverseGammaScale(),
            InverseGammaScale(3.0, 3.0, "variance", "variance"),
        )
        self.assertEqual(HalfCauchyScale(), HalfCauchyScale(1.0, "scale"))
        self.assertEqual(LogUniformScale(), LogUniformScale("variance"))

    @parameterized.parameters(*reference.PRIORS)
    def test_config(self, prior):
        again = type(prior).from_config(prior.get_config())
        self.assertEqual(again, prior)
        self.assertEqual(hash(again), hash(prior))
        self.run_class_serialization_test(prior)
        config = keras.saving.serialize_keras_object(prior)
        self.assertEqual(priors.get(config), prior)
        self.assertEqual(repr(eval(repr(prior))), repr(prior))

    def test_compared_by_value(self):
        self.assertLen(set(reference.PRIORS), len(reference.PRIORS))
        self.assertNotEqual(HalfCauchyScale(1.0), HalfCauchyScale(2.0))
        self.assertNotEqual(
            LogUniformScale("scale"), HalfCauchyScale(1.0, "scale")
        )
        self.assertNotEqual(HalfCauchyScale(), "half_cauchy")

    def test_get(self):
        self.assertEqual(priors.get("inverse_gamma"), InverseGammaScale())
        self.assertEqual(priors.get("half_cauchy"), HalfCauchyScale())
        self.assertEqual(
            priors.get("log_uniform", of="scales"), LogUniformScale()
        )
        prior = HalfCauchyScale(3.0)
        self.assertIs(priors.get(prior), prior)

    @parameterized.parameters(
        ("normal",), (None,), (1.0,), (HalfCauchyScale,), ({"eta": 1.0},), ([],)
    )
    def test_get_something_else(self, identifier):
        with self.assertRaisesRegex(
            BayesdropError,
            "argument `prior`. Expected .*'half_cauchy'.*a `ScalePrior`, .*"
            "Received: prior=",
        ):
            priors.get(identifier, of="scales")

    def test_get_the_config_of_something_else(self):
        config = keras.saving.serialize_keras_object(keras.regularizers.L2())
        with self.assertRaisesRegex(BayesdropError, "argument `prior`"):
            priors.get(config)

    @parameterized.parameters(
        (InverseGammaScale, "a", 0.0),
        (InverseGammaScale, "b", -1.0),
        (InverseGammaScale, "b", "3"),
        (InverseGammaScale, "on", "log_scale"),
        (InverseGammaScale, "variable", "precision"),
        (HalfCauchyScale, "eta", math.inf),
        (HalfCauchyScale, "variable", None),
        (LogUniformScale, "variable", "tau"),
    )
    def test_wrong_arguments(self, prior, name, value):
        with self.assertRaisesRegex(
            BayesdropError, f"argument `{name}`. Expected .*Received: {name}="
        ):
            prior(**{name: value})

    def test_base_is_abstract(self):
        with self.assertRaises(TypeError):
            ScalePrior("scale")
