# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import LogUniformScale
from keras_bayesdrop.regularizers import ARDADD
from tests.helpers import TestCase
from tests.regularizers import structured


class ScalesTest(TestCase):
    def test_rows_and_matrix(self):
        kernel = structured.kernel(2, 3, 5, 4)  # Conv2D with 5 channels
        regularizer = ARDADD("half_cauchy", "inverse_gamma", 40)
        scales = regularizer.scales(kernel)
        self.assertIsInstance(scales.rows, np.ndarray)
        self.assertEqual(scales.rows.shape, (5,))
        self.assertEqual(scales.matrix.shape, ())
        matrix = np.moveaxis(kernel, 2, 0).reshape(5, -1)
        again = regularizer.scales(matrix)
        self.assertAllClose(again.rows, scales.rows, rtol=1e-12)
        # Stationary in the log of the matrix scale, by hand: IG(3, 3) on the
        # variance has the slope 6 / T - 8.
        v = np.square(scales.rows * scales.matrix)
        moments = np.sum(matrix**2 + 1e-8, axis=1)
        slope = np.sum(moments / v - 24.0) + 6.0 / scales.matrix**2 - 8.0
        # log(T) is good to 3e-9, and the slope of the slope is below 300.
        self.assertAllClose(slope, 0.0, rtol=0, atol=1e-6)

    def test_the_matrix_scale_follows_the_size_of_the_kernel(self):
        kernel = structured.kernel(20, 10)
        regularizer = ARDADD("half_cauchy", "half_cauchy", 40)
        large = regularizer.scales(kernel)
        small = regularizer.scales(kernel / 100.0)
        self.assertLess(small.matrix, 0.3 * large.matrix)
        self.assertAllClose(
            small.rows * small.matrix,
            large.rows * large.matrix / 100.0,
            rtol=0.2,
        )

    def test_two_different_priors(self):
        regularizer = ARDADD("inverse_gamma", HalfCauchyScale(0.1), 40)
        self.assertEqual(regularizer.matrix_prior, HalfCauchyScale(0.1))
        config = regularizer.get_config()
        self.assertEqual(config["row_prior"]["class_name"], "InverseGammaScale")
        self.assertEqual(
            config["matrix_prior"]["class_name"], "HalfCauchyScale"
        )


class NoJointOptimumTest(TestCase):
    @parameterized.parameters("variance", "scale", "log_scale")
    def test_two_log_uniform_priors(self, variable):
        with self.assertRaisesRegex(
            BayesdropError,
            "no joint optimum.* Expected .*InverseGamma.* Received: "
            "row_prior=LogUniformScale.*matrix_prior=LogUniformScale",
        ):
            ARDADD(LogUniformScale(variable), "log_uniform", 40)

    def test_too_many_rows(self):
        # By the score at infinity, see tests/priors: four rows are too many.
        regularizer = ARDADD("log_uniform", "inverse_gamma", 40)
        regularizer(np.ones((3, 2)))
        dense = keras.layers.Dense(2, kernel_regularizer=regularizer)
        dense.build((None, 4))
        with self.assertRaisesRegex(BayesdropError, "4 rows and 2 columns"):
            _ = dense.losses
