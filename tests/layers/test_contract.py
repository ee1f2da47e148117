# SPDX-License-Identifier: Apache-2.0
"""All layers that always drop: the Keras contract, and dropping."""

import os

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import MCAlphaDropout
from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.layers import MCGaussianDropout
from keras_bayesdrop.layers import MCSpatialDropout1D
from keras_bayesdrop.layers import MCSpatialDropout2D
from keras_bayesdrop.layers import MCSpatialDropout3D
from tests.helpers import TestCase

# Class, arguments beside the rate, shape of an input, class of Keras.
BERNOULLI = (MCDropout, {}, (3, 7), keras.layers.Dropout)
GAUSSIAN = (MCDropout, {"noise": "gaussian"}, (3, 7), keras.layers.Dropout)
TIME = (
    MCDropout,
    {"noise_shape": (None, 1, None)},
    (3, 5, 7),
    keras.layers.Dropout,
)
SPATIAL_1D = (MCSpatialDropout1D, {}, (3, 5, 7), keras.layers.SpatialDropout1D)
SPATIAL_2D = (
    MCSpatialDropout2D,
    {"data_format": "channels_last"},
    (3, 5, 2, 7),
    keras.layers.SpatialDropout2D,
)
SPATIAL_3D = (
    MCSpatialDropout3D,
    {"data_format": "channels_first"},
    (3, 7, 5, 2, 1),
    keras.layers.SpatialDropout3D,
)
MC_GAUSSIAN = (MCGaussianDropout, {}, (3, 7), keras.layers.GaussianDropout)
ALPHA = (MCAlphaDropout, {}, (3, 7), keras.layers.AlphaDropout)

LAYERS = (
    ("bernoulli", *BERNOULLI),
    ("gaussian", *GAUSSIAN),
    ("time", *TIME),
    ("spatial_1d", *SPATIAL_1D),
    ("spatial_2d", *SPATIAL_2D),
    ("spatial_3d", *SPATIAL_3D),
    ("mc_gaussian", *MC_GAUSSIAN),
    ("alpha", *ALPHA),
)


class Probe(keras.layers.Layer):
    """Returns the mask that reached it."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs, mask=None):
        return keras.ops.cast(mask, "float32")


def model_with(layer, shape):
    inputs = keras.Input(shape[1:])
    return keras.Model(inputs, layer(inputs))


class ContractTest(TestCase):
    @parameterized.named_parameters(*LAYERS)
    def test_keras_contract(self, cls, kwargs, shape, parent):
        self.run_layer_test(
            cls,
            init_kwargs={"rate": 0.4, "seed": 11, **kwargs},
            input_shape=shape,
            call_kwargs={"training": False},
            expected_output_shape=shape,
            expected_output_dtype="float32",
            expected_num_trainable_weights=0,
            expected_num_non_trainable_weights=0,
            expected_num_seed_generators=1,
            expected_num_losses=0,
            supports_masking=True,
            assert_built_after_instantiation=True,
        )

    @parameterized.named_parameters(*LAYERS)
    def test_is_a_layer_of_keras(self, cls, kwargs, shape, parent):
        self.assertIsInstance(cls(0.4, **kwargs), parent)

    @parameterized.named_parameters(*LAYERS)
    def test_drops_whatever_training_says(self, cls, kwargs, shape, parent):
        x = np.ones(shape, "float32")
        layer = cls(0.5, seed=1, **kwargs)
        draws = [layer(x, training=flag) for flag in (None, False, True)]
        draws += [layer(x)]
        for i, draw in enumerate(draws):
            self.assertNotAllClose(draw, x)
            for other in draws[:i]:
                self.assertNotAllClose(draw, other)

    @parameterized.named_parameters(*LAYERS)
    def test_models_with_it_stay_stochastic(self, cls, kwargs, shape, parent):
        x = np.ones(shape, "float32")
        model = model_with(cls(0.5, seed=2, **kwargs), shape)
        inputs = keras.Input(shape[1:])
        nested = keras.Model(inputs, keras.Sequential([model])(inputs))
        for network in (model, nested):
            for draw in (
                lambda n: n.predict(x, verbose=0),
                lambda n: n(x),
                lambda n: n(x, training=False),
            ):
                self.assertNotAllClose(draw(network), draw(network))

    @parameterized.named_parameters(*LAYERS)
    def test_rate_zero_is_the_identity(self, cls, kwargs, shape, parent):
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        self.assertAllEqual(cls(0, **kwargs)(x, training=True), x)

    @parameterized.named_parameters(*LAYERS)
    def test_same_seed_same_sequence(self, cls, kwargs, shape, parent):
        x = np.ones(shape, "float32")
        first, second, other = (cls(0.5, seed=s, **kwargs) for s in (5, 5, 6))
        for _ in range(3):
            draw = first(x)
            self.assertAllEqual(draw, second(x))
            self.assertNotAllClose(draw, other(x))

    @parameterized.named_parameters(
        *(case for case in LAYERS if case[0] != "gaussian")
    )
    def test_float32_draws_are_those_of_keras(self, cls, kwargs, shape, parent):
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        ours = cls(0.3, seed=7, **kwargs)(x)
        theirs = parent(0.3, seed=7, **kwargs)(x, training=True)
        self.assertAllEqual(ours, theirs)

    @parameterized.named_parameters(*LAYERS)
    def test_masks_pass_through(self, cls, kwargs, shape, parent):
        # Steps whose features are all zero are masked out.
        x = np.ones(shape, "float32")
        x[1, 0] = 0.0
        model = keras.Sequential(
            [keras.layers.Masking(), cls(0.5, **kwargs), Probe()]
        )
        self.assertAllEqual(model(x), np.any(x != 0, axis=-1))

    @parameterized.product(
        layer=LAYERS, policy=("mixed_float16", "mixed_bfloat16", "float64")
    )
    def test_dtypes(self, layer, policy):
        _, cls, kwargs, shape, _ = layer
        layer = cls(0.5, dtype=policy, **kwargs)
        loaded = cls.from_config(layer.get_config())
        self.assertEqual(loaded.dtype_policy.name, policy)
        expected = policy.removeprefix("mixed_")
        for each in (layer, loaded, cls(0, dtype=policy, **kwargs)):
            y = each(np.ones(shape, "float32"))
            self.assertEqual(y.dtype.name, expected)

    @parameterized.named_parameters(*LAYERS)
    def test_any_batch_size_in_one_graph(self, cls, kwargs, shape, parent):
        layer = cls(0.5, **kwargs)
        signature = tf.TensorSpec((None, *shape[1:]), tf.float32)
        graph = tf.function(layer, input_signature=[signature])
        for rows in (1, 13):
            y = graph(np.ones((rows, *shape[1:]), "float32"))
            self.assertEqual(y.shape, (rows, *shape[1:]))

    @parameterized.named_parameters(*LAYERS)
    def test_fits_under_xla(self, cls, kwargs, shape, parent):
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        model = keras.Sequential(
            [
                cls(0.3, seed=1, **kwargs),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mse", jit_compile=True)
        history = model.fit(
            x, np.ones((shape[0], 1)), batch_size=2, epochs=2, verbose=0
        )
        self.assertTrue(np.all(np.isfinite(history.history["loss"])))
        self.assertNotAllClose(model.layers[-1].bias.numpy(), [0.0])

    @parameterized.named_parameters(*LAYERS)
    def test_batch_norm_behind_it_is_not_moved(
        self, cls, kwargs, shape, parent
    ):
        x = np.full(shape, 3.0, "float32")
        norm = keras.layers.BatchNormalization()
        model = keras.Sequential(
            [keras.Input(shape[1:]), cls(0.5, **kwargs), norm]
        )
        before = [w.numpy() for w in norm.weights]
        model.predict(x, verbose=0)
        model(x)
        for then, now in zip(before, norm.weights, strict=True):
            self.assertAllEqual(then, now.numpy())

    @parameterized.named_parameters(*LAYERS)
    def test_clones(self, cls, kwargs, shape, parent):
        model = model_with(cls(0.5, seed=3, **kwargs), shape)
        clone = keras.models.clone_model(model)
        self.assertIsInstance(clone.layers[-1], cls)
        self.assertEqual(
            clone.layers[-1].get_config(), model.layers[-1].get_config()
        )
        x = np.ones(shape, "float32")
        self.assertAllEqual(
            clone.predict(x, verbose=0), model.predict(x, verbose=0)
        )

    @parameterized.product(
        layer=LAYERS,
        rate=(-0.1, 1.1, float("nan"), float("inf"), None, "0.5", True, [0.5]),
    )
    def test_wrong_rates(self, layer, rate):
        _, cls, kwargs, _, _ = layer
        with self.assertRaisesRegex(
            BayesdropError,
            r"Invalid value for argument `rate`. Expected a float in \[0, 1"
            r".*Received: rate=",
        ):
            cls(rate, **kwargs)

    @parameterized.named_parameters(
        ("gaussian", *GAUSSIAN), ("mc", *MC_GAUSSIAN), ("alpha", *ALPHA)
    )
    def test_rate_one_where_it_has_no_meaning(self, cls, kwargs, shape, parent):
        with self.assertRaisesRegex(BayesdropError, r"\[0, 1\).*rate=1"):
            cls(1, **kwargs)

    @parameterized.named_parameters(
        ("bernoulli", *BERNOULLI),
        ("1d", *SPATIAL_1D),
        ("2d", *SPATIAL_2D),
        ("3d", *SPATIAL_3D),
    )
    def test_rate_one_drops_everything(self, cls, kwargs, shape, parent):
        x = np.full(shape, np.inf, "float32")
        self.assertAllEqual(cls(1.0, **kwargs)(x), np.zeros(shape))

    @parameterized.product(
        layer=[case for case in LAYERS if "gauss" not in case[0]],
        policy=("float32", "mixed_float16", "mixed_bfloat16"),
    )
    def test_drop_rate_in_every_precision(self, layer, policy):
        _, cls, kwargs, shape, _ = layer
        if cls is MCAlphaDropout:
            x = np.full((20_000, 7), 3.0, "float32")
        else:
            x = np.ones((20_000, *shape[1:]), "float32")
        y = keras.ops.cast(
            cls(0.01, seed=9, dtype=policy, **kwargs)(x), "float32"
        )
        # All maps have 7 channels: 140_000 draws, one a row and channel. An
        # alpha-dropped unit is near -1.76, far below the others at 3.
        dropped = keras.ops.convert_to_numpy(y <= 0.0)
        channels = 1 if cls is MCSpatialDropout3D else -1
        rows = np.moveaxis(dropped, channels, 1).reshape(20_000, 7, -1)
        self.assertAllEqual(rows.all(axis=2), rows.any(axis=2))
        # 4 standard errors: 4 * sqrt(0.01 * 0.99 / 140_000) = 0.00106. Drawn
        # in bfloat16, the rate would be 0.0156.
        self.assertAllClose(rows.mean(), 0.01, atol=0.00107, rtol=0)


class SavingTest(TestCase):
    def test_saved_model_loads_with_only_the_package_imported(self):
        inputs = keras.Input((6, 7))
        x = MCSpatialDropout1D(0.3, seed=1)(inputs)
        x = MCGaussianDropout(0.2, seed=2)(x)
        x = keras.layers.Reshape((3, 2, 7))(x)
        x = MCSpatialDropout2D(0.3, seed=3)(x)
        x = keras.layers.Reshape((3, 2, 1, 7))(x)
        x = MCSpatialDropout3D(0.3, data_format="channels_first", seed=4)(x)
        x = keras.layers.Reshape((6, 7))(x)
        x = MCDropout(0.3, noise_shape=(None, 1, None), seed=5)(x)
        x = MCDropout(0.3, noise="gaussian", seed=6)(x)
        x = MCAlphaDropout(0.3, seed=7)(x)
        model = keras.Model(inputs, x)
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        program = """
import sys
import keras
import keras_bayesdrop
import numpy as np
model = keras.models.load_model(sys.argv[1])
x = np.ones((5, 6, 7), "float32")
draws = [model.predict(x, verbose=0) for _ in range(2)]
assert np.any(draws[0] != draws[1])
for layer in model.layers:
    print(type(layer).__module__.split(".")[0], type(layer).__name__)
np.save(sys.argv[2], draws)
"""
        saved = os.path.join(self.get_temp_dir(), "draws.npy")
        printed = self.run_in_new_process(program, path, saved)
        kinds = [type(layer) for layer in model.layers]
        self.assertEqual(
            [line.split() for line in printed.splitlines()],
            [[kind.__module__.split(".")[0], kind.__name__] for kind in kinds],
        )
        # The seeds are in the file: same draws here as there.
        data = np.ones((5, 6, 7), "float32")
        here = [model.predict(data, verbose=0) for _ in range(2)]
        self.assertAllClose(np.load(saved), here, rtol=1e-6)
