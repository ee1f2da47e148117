# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
from absl.testing import parameterized

from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.regularizers import ADD
from tests.helpers import TestCase
from tests.regularizers import structured


class MatrixTest(TestCase):
    @parameterized.parameters((5, 3), (2, 3, 5, 4), (7,))
    def test_one_scale_for_all_weights(self, *shape):
        kernel = structured.kernel(*shape)
        regularizer = ADD(HalfCauchyScale(0.7), 40, sigma0=0.5)
        moments = np.sum(kernel**2 + 1e-8) / 0.25
        count = kernel.size
        h = moments - count * 0.49
        root = np.sqrt(h**2 + 4 * (count + 2) * moments * 0.49)
        scales = regularizer.scales(kernel)
        self.assertIsNone(scales.rows)
        self.assertAllClose(
            scales.matrix, np.sqrt((h + root) / (2 * (count + 2))), rtol=1e-12
        )
        self.assertAllClose(
            regularizer(kernel), regularizer(kernel.reshape(1, -1)), rtol=1e-12
        )

    def test_layer_that_is_not_needed_is_switched_off(self):
        # The target is the input plus noise: the residual branch has no use.
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 6))
        y = x + 0.5 * rng.normal(size=(200, 6))
        regularizer = ADD(
            "half_cauchy",
            200,
            likelihood=GaussianLikelihood(4.0, num_outputs=6),
        )
        dense = keras.layers.Dense(
            6, use_bias=False, kernel_regularizer=regularizer
        )
        inputs = keras.Input((6,))
        outputs = keras.layers.Add()([inputs, dense(inputs)])
        model = keras.Model(inputs, outputs)
        before = float(regularizer.scales(dense.kernel).matrix)
        structured.train(model, x, y)
        after = float(regularizer.scales(dense.kernel).matrix)
        # Least squares alone would leave weights of 0.5 / sqrt(200) = 0.035.
        self.assertGreater(before, 0.3)
        self.assertLess(after, 0.01)
