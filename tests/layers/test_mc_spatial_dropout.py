# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop import noise as noises
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import MCSpatialDropout1D
from keras_bayesdrop.layers import MCSpatialDropout2D
from keras_bayesdrop.layers import MCSpatialDropout3D
from keras_bayesdrop.noise import families
from tests.helpers import TestCase


class MCSpatialDropoutTest(TestCase):
    @parameterized.parameters(
        (MCSpatialDropout1D, {}, (61, 3, 47), -1),
        (
            MCSpatialDropout2D,
            {"data_format": "channels_last"},
            (61, 3, 2, 47),
            -1,
        ),
        (
            MCSpatialDropout2D,
            {"data_format": "channels_first"},
            (61, 47, 3, 2),
            1,
        ),
        (
            MCSpatialDropout3D,
            {"data_format": "channels_last"},
            (61, 3, 2, 5, 47),
            -1,
        ),
        (
            MCSpatialDropout3D,
            {"data_format": "channels_first"},
            (61, 47, 3, 2, 5),
            1,
        ),
    )
    def test_whole_maps_are_dropped(self, cls, kwargs, shape, channels):
        layer = cls(0.2, seed=5, **kwargs)
        y = keras.ops.convert_to_numpy(layer(np.ones(shape, "float32")))
        maps = np.moveaxis(y, channels, 1).reshape(61, 47, -1)
        self.assertAllEqual(maps.min(axis=2), maps.max(axis=2))
        self.assertAllEqual(np.unique(maps), np.float32([0.0, 1.25]))
        # 2_867 draws of standard deviation 0.5: 4 standard errors of the mean
        # are 4 * 0.5 / sqrt(2_867) = 0.037.
        self.assertAllClose(maps[..., 0].mean(), 1.0, atol=0.038, rtol=0)

    @parameterized.parameters(
        *(name for name in families.NAMES if name != "bernoulli"),
        noises.InverseNakagami(5.0, 2.0),
        noises.Gaussian(0.4),
    )
    def test_maps_share_noise_of_any_family(self, noise):
        rate = 0.2 if noise == "gaussian" else None
        for cls, kwargs, shape, channels in (
            (MCSpatialDropout1D, {}, (6, 3, 5), -1),
            (
                MCSpatialDropout2D,
                {"data_format": "channels_first"},
                (6, 5, 3, 2),
                1,
            ),
            (MCSpatialDropout3D, {}, (6, 3, 2, 2, 5), -1),
        ):
            layer = cls(rate, noise=noise, seed=5, **kwargs)
            x = np.ones(shape, "float32")
            drawn = keras.ops.convert_to_numpy(layer(x))
            model = keras.Sequential([keras.Input(shape[1:]), layer])
            sampled = kbd.predict_with_uncertainty(
                model,
                x,
                2,
                seed=1,
                return_samples=True,
                verbose=0,
                method=kbd.Sampling(masks="independent"),
            ).samples[1]
            for y in (drawn, sampled):
                maps = np.moveaxis(y, channels, 1).reshape(6, 5, -1)
                self.assertAllEqual(maps.min(axis=2), maps.max(axis=2))
                self.assertEqual(len(np.unique(maps)), 30)

    def test_default_data_format_is_that_of_keras(self):
        for cls in (MCSpatialDropout2D, MCSpatialDropout3D):
            self.assertEqual(
                cls(0.2).data_format, keras.config.image_data_format()
            )

    def test_wrong_data_format(self):
        for cls in (MCSpatialDropout2D, MCSpatialDropout3D):
            with self.assertRaisesRegex(
                BayesdropError, "`data_format`. Expected one of.*Received"
            ):
                cls(0.2, data_format="channels")

    def test_wrong_rank(self):
        for cls, rank in (
            (MCSpatialDropout1D, 3),
            (MCSpatialDropout2D, 4),
            (MCSpatialDropout3D, 5),
        ):
            with self.assertRaisesRegex(ValueError, f"expected ndim={rank}"):
                cls(0.2)(np.ones((2, 3), "float32"))
