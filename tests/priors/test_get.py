# SPDX-License-Identifier: Apache-2.0
import keras
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import GaussianPrior
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import HorseshoePrior
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformPrior
from keras_bayesdrop.priors import LogUniformScale
from keras_bayesdrop.priors import StudentTPrior
from keras_bayesdrop.priors import WeightPrior
from keras_bayesdrop.priors import get
from tests.helpers import TestCase


class Uniform(WeightPrior):
    """A prior that a user might write."""

    def kl(self, mean, log_variance):
        return 0.0 * mean - 0.5 * log_variance

    def get_config(self):
        return {}


class GetTest(TestCase):
    @parameterized.parameters(
        ("log_uniform", LogUniformPrior()),
        ("gaussian", GaussianPrior()),
        ("student_t", StudentTPrior()),
        ("horseshoe", HorseshoePrior()),
    )
    def test_name(self, name, prior):
        self.assertEqual(get(name, of="weights"), prior)

    def test_instance_is_itself(self):
        prior = StudentTPrior(df=5.0)
        self.assertIs(get(prior, of="weights"), prior)

    @parameterized.parameters(
        LogUniformPrior("kingma"),
        GaussianPrior(0.3),
        StudentTPrior(2.0, 0.1),
        HorseshoePrior(2.0),
    )
    def test_saved_config(self, prior):
        config = keras.saving.serialize_keras_object(prior)
        self.assertEqual(
            config["registered_name"],
            f"keras_bayesdrop>{type(prior).__name__}",
        )
        self.assertEqual(get(config, of="weights"), prior)
        self.assertEqual(keras.saving.deserialize_keras_object(config), prior)

    @parameterized.parameters("student_t", "StudentTPrior")
    def test_short_config(self, class_name):
        config = {"class_name": class_name, "config": {"df": 4.0}}
        self.assertEqual(get(config, of="weights"), StudentTPrior(4.0))
        self.assertEqual(
            get({"class_name": class_name}, of="weights"), StudentTPrior()
        )

    def test_saved_config_of_a_users_prior(self):
        with keras.saving.custom_object_scope({"Uniform": Uniform}):
            config = keras.saving.serialize_keras_object(Uniform())
            self.assertEqual(get(config, of="weights"), Uniform())

    @parameterized.parameters(
        "GaussianPrior",
        "cauchy",
        None,
        1.0,
        LogUniformPrior,
        ({},),
        ({"class_name": "Cauchy", "config": {}},),
        ({"class_name": "GaussianPrior", "config": {"scale": 1.0}},),
        ({"class_name": ["GaussianPrior"]},),
        ({"class_name": "Dense", "registered_name": "Dense", "config": {}},),
    )
    def test_anything_else(self, identifier):
        with self.assertRaisesRegex(
            BayesdropError,
            r"`kernel_prior`. Expected one of 'log_uniform', 'gaussian', "
            r"'student_t', 'horseshoe', a `WeightPrior`.*Received: kernel_pr",
        ):
            get(identifier, of="weights", name="kernel_prior")

    def test_another_object_is_no_prior(self):
        config = keras.saving.serialize_keras_object(keras.layers.Dense(1))
        with self.assertRaisesRegex(BayesdropError, "a `WeightPrior`"):
            get(config, of="weights")

    def test_error_in_the_config_is_told(self):
        config = {"class_name": "GaussianPrior", "config": {"stddev": -1.0}}
        with self.assertRaisesRegex(BayesdropError, "`stddev`. Expected"):
            get(config, of="weights")


class KindTest(TestCase):
    @parameterized.parameters(
        ("gaussian", GaussianPrior()),
        ("half_cauchy", HalfCauchyScale()),
        ({"class_name": "inverse_gamma"}, InverseGammaScale()),
        ({"class_name": "LogUniformScale"}, LogUniformScale()),
        ({"class_name": "LogUniformPrior"}, LogUniformPrior()),
    )
    def test_both_kinds_without_of(self, identifier, prior):
        self.assertEqual(get(identifier), prior)

    def test_one_name_of_two_priors(self):
        self.assertEqual(get("log_uniform", of="weights"), LogUniformPrior())
        self.assertEqual(get("log_uniform", of="scales"), LogUniformScale())
        for identifier in ("log_uniform", {"class_name": "log_uniform"}):
            with self.assertRaisesRegex(
                BayesdropError, "Expected .*`of`. Received: prior='log_uniform'"
            ):
                get(identifier)

    @parameterized.parameters(
        (HalfCauchyScale(), "weights", "a `WeightPrior`"),
        ("half_cauchy", "weights", "a `WeightPrior`"),
        ({"class_name": "HalfCauchyScale"}, "weights", "a `WeightPrior`"),
        (GaussianPrior(), "scales", "a `ScalePrior`"),
        ("gaussian", "scales", "a `ScalePrior`"),
        ("cauchy", None, "a `WeightPrior`.* or one of .* a `ScalePrior`"),
        ("gaussian", "units", "`of`. Expected one of 'weights', 'scales'"),
    )
    def test_the_other_kind(self, identifier, of, message):
        with self.assertRaisesRegex(BayesdropError, message):
            get(identifier, of=of)


class EqualityTest(TestCase):
    def test_by_class_and_config(self):
        self.assertEqual(GaussianPrior(0.5), GaussianPrior(0.5))
        self.assertNotEqual(GaussianPrior(0.5), GaussianPrior(0.6))
        # The same config, but another class.
        self.assertNotEqual(HorseshoePrior(), StudentTPrior())
        self.assertNotEqual(GaussianPrior(), "gaussian")
        different = {
            GaussianPrior(),
            GaussianPrior(1.0),
            LogUniformPrior(),
            HorseshoePrior(),
        }
        self.assertLen(different, 3)

    def test_repr_makes_it_again(self):
        self.assertEqual(
            repr(StudentTPrior(2.0)), "StudentTPrior(df=2.0, scale=1.0)"
        )
