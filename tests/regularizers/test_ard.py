# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
from absl.testing import parameterized

from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.regularizers import ARD
from tests.helpers import TestCase
from tests.regularizers import structured


class RowsTest(TestCase):
    @parameterized.parameters(
        ((5, 3), -2, 0),  # Dense: [in, out]
        ((2, 5, 3), -2, 1),  # Conv1D: [width, in, out]
        ((2, 3, 5, 4), -2, 2),  # Conv2D and DepthwiseConv2D
        ((2, 3, 4, 5), -1, 3),  # Conv2DTranspose: [height, width, out, in]
        ((5, 2, 3), 0, 0),  # query of MultiHeadAttention: [in, heads, dim]
    )
    def test_one_scale_for_each_input(self, shape, axis, inputs):
        kernel = structured.kernel(*shape)
        regularizer = ARD(HalfCauchyScale(0.7), 40, sigma0=0.5, axis=axis)
        expected = []
        for unit in range(5):
            weights = np.take(kernel, unit, axis=inputs).ravel()
            moments = np.sum(weights**2 + 1e-8) / 0.25
            h = moments - weights.size * 0.49
            root = np.sqrt(h**2 + 4 * (weights.size + 2) * moments * 0.49)
            expected.append(np.sqrt((h + root) / (2 * (weights.size + 2))))
        scales = regularizer.scales(kernel)
        self.assertIsInstance(scales.rows, np.ndarray)
        self.assertIsNone(scales.matrix)
        self.assertAllClose(scales.rows, expected, rtol=1e-12)
        # The same rows as a matrix have the same penalty.
        matrix = np.moveaxis(kernel, inputs, 0).reshape(5, -1)
        self.assertAllClose(
            regularizer(kernel),
            ARD(HalfCauchyScale(0.7), 40, sigma0=0.5)(matrix),
            rtol=1e-12,
        )

    @parameterized.parameters(
        (keras.layers.Conv2D, {"filters": 4, "kernel_size": 3}),
        (keras.layers.Conv1D, {"filters": 4, "kernel_size": 3}),
        (keras.layers.DepthwiseConv2D, {"kernel_size": 3}),
        (keras.layers.LSTM, {"units": 4}),
        (keras.layers.Dense, {"units": 4}),
    )
    def test_rows_of_layers(self, layer, arguments):
        regularizer = ARD("inverse_gamma", 40)
        name = "kernel_regularizer"
        if layer is keras.layers.DepthwiseConv2D:
            name = "depthwise_regularizer"
        built = layer(**arguments, **{name: regularizer})
        rank = 4 if layer.__name__.endswith("2D") else 3
        built.build((None, *[8] * (rank - 2), 6))
        (loss,) = built.losses
        self.assertTrue(np.isfinite(loss))
        weights = built.cell.kernel if layer is keras.layers.LSTM else None
        if weights is None:
            weights = built.kernel
        self.assertEqual(regularizer.scales(weights).rows.shape, (6,))


class RelevanceTest(TestCase):
    @parameterized.parameters("half_cauchy", "log_uniform")
    def test_inputs_without_use_have_small_scales(self, prior):
        # Ten outputs are linear in the first three of eight inputs.
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 8))
        truth = np.zeros((8, 10))
        truth[:3] = rng.choice([-1.0, 1.0], size=(3, 10))
        y = x @ truth + 0.5 * rng.normal(size=(200, 10))
        # Minus the log-posterior of a row r of ten weights, were it alone, is
        # 4 * 200 / 2 * |r - s|^2 + 10 * log|r|, with s by least squares. It
        # has no minimum but 0 unless |s| > 2 * sqrt(10 / 800), which is twice
        # the size of s for an input of no use: one in 60_000 is as large.
        regularizer = ARD(
            prior, 200, likelihood=GaussianLikelihood(4.0, num_outputs=10)
        )
        dense = keras.layers.Dense(10, kernel_regularizer=regularizer)
        model = keras.Sequential([keras.Input((8,)), dense])
        structured.train(model, x, y)
        scales = regularizer.scales(dense.kernel).rows
        # Useful: sqrt(10 / 12) or so.
        self.assertGreater(np.min(scales[:3]), 0.5)
        self.assertLess(np.max(scales[3:]), 0.01)
        self.assertLess(np.max(np.abs(dense.kernel.numpy()[3:])), 0.02)
        # And the weights that matter are not shrunk along: four times
        # 0.5 / sqrt(200).
        self.assertAllClose(dense.kernel[:3], truth[:3], rtol=0, atol=0.14)
