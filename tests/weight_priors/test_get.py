# SPDX-License-Identifier: Apache-2.0
import keras
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.weight_priors import Gaussian
from keras_bayesdrop.weight_priors import Horseshoe
from keras_bayesdrop.weight_priors import LogUniform
from keras_bayesdrop.weight_priors import StudentT
from keras_bayesdrop.weight_priors import WeightPrior
from keras_bayesdrop.weight_priors import get_prior
from tests.helpers import TestCase


class Uniform(WeightPrior):
    """A prior that a user might write."""

    def kl(self, mean, log_variance):
        return 0.0 * mean - 0.5 * log_variance

    def get_config(self):
        return {}


class GetPriorTest(TestCase):
    @parameterized.parameters(
        ("log_uniform", LogUniform()),
        ("gaussian", Gaussian()),
        ("student_t", StudentT()),
        ("horseshoe", Horseshoe()),
    )
    def test_name(self, name, prior):
        self.assertEqual(get_prior(name), prior)

    def test_instance_is_itself(self):
        prior = StudentT(df=5.0)
        self.assertIs(get_prior(prior), prior)

    @parameterized.parameters(
        LogUniform("kingma"), Gaussian(0.3), StudentT(2.0, 0.1), Horseshoe(2.0)
    )
    def test_saved_config(self, prior):
        config = keras.saving.serialize_keras_object(prior)
        self.assertEqual(
            config["registered_name"],
            f"keras_bayesdrop>{type(prior).__name__}",
        )
        self.assertEqual(get_prior(config), prior)
        self.assertEqual(keras.saving.deserialize_keras_object(config), prior)

    @parameterized.parameters("student_t", "StudentT")
    def test_short_config(self, class_name):
        config = {"class_name": class_name, "config": {"df": 4.0}}
        self.assertEqual(get_prior(config), StudentT(4.0))
        self.assertEqual(get_prior({"class_name": class_name}), StudentT())

    def test_saved_config_of_a_users_prior(self):
        with keras.saving.custom_object_scope({"Uniform": Uniform}):
            config = keras.saving.serialize_keras_object(Uniform())
            self.assertEqual(get_prior(config), Uniform())

    @parameterized.parameters(
        "Gaussian",
        "cauchy",
        None,
        1.0,
        LogUniform,
        ({},),
        ({"class_name": "Cauchy", "config": {}},),
        ({"class_name": "Gaussian", "config": {"scale": 1.0}},),
        ({"class_name": ["Gaussian"]},),
        ({"class_name": "Dense", "registered_name": "Dense", "config": {}},),
    )
    def test_anything_else(self, identifier):
        with self.assertRaisesRegex(
            BayesdropError,
            r"`kernel_prior`. Expected one of 'log_uniform', 'gaussian', "
            r"'student_t', 'horseshoe', a `WeightPrior`.*Received: kernel_pr",
        ):
            get_prior(identifier, name="kernel_prior")

    def test_another_object_is_no_prior(self):
        config = keras.saving.serialize_keras_object(keras.layers.Dense(1))
        with self.assertRaisesRegex(BayesdropError, "a `WeightPrior`"):
            get_prior(config)

    def test_error_in_the_config_is_told(self):
        config = {"class_name": "Gaussian", "config": {"stddev": -1.0}}
        with self.assertRaisesRegex(BayesdropError, "`stddev`. Expected"):
            get_prior(config)


class EqualityTest(TestCase):
    def test_by_class_and_config(self):
        self.assertEqual(Gaussian(0.5), Gaussian(0.5))
        self.assertNotEqual(Gaussian(0.5), Gaussian(0.6))
        # The same config, but another class.
        self.assertNotEqual(Horseshoe(), StudentT())
        self.assertNotEqual(Gaussian(), "gaussian")
        different = {Gaussian(), Gaussian(1.0), LogUniform(), Horseshoe()}
        self.assertLen(different, 3)

    def test_repr_makes_it_again(self):
        self.assertEqual(repr(StudentT(2.0)), "StudentT(df=2.0, scale=1.0)")
