# SPDX-License-Identifier: Apache-2.0
"""All experimental layers: the Keras contract, and training."""

import os

import keras
import numpy as np
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.experimental import Backpercolation
from keras_bayesdrop.experimental import DropIn
from keras_bayesdrop.experimental import SpikingDense
from tests.helpers import TestCase
from tests.layers.test_contract import Probe

# Class, arguments, number of weights.
LAYERS = (
    ("by_unit", SpikingDense, {"units": 5, "activation": "sigmoid"}, 2),
    (
        "by_connection",
        SpikingDense,
        {"units": 5, "firing": "connection", "spike_size": 0.5},
        2,
    ),
    ("backpercolation", Backpercolation, {"scale": 0.25}, 0),
    ("drop_in", DropIn, {"rate": 0.4}, 0),
)

# Those with noise in the forward pass.
FORWARD = tuple(each for each in LAYERS if each[1] is not Backpercolation)


def _inputs(*shape):
    return np.random.default_rng(0).uniform(size=shape).astype("float32")


class ContractTest(TestCase):
    @parameterized.named_parameters(*LAYERS)
    def test_keras_contract(self, cls, kwargs, weights):
        for shape in ((2, 5), (2, 3, 5)):
            for training in (False, True):
                self.run_layer_test(
                    cls,
                    init_kwargs={"seed": 1, **kwargs},
                    input_shape=shape,
                    call_kwargs={"training": training},
                    expected_output_shape=shape,
                    expected_num_trainable_weights=weights,
                    expected_num_non_trainable_weights=0,
                    expected_num_seed_generators=1,
                    expected_num_losses=0,
                    supports_masking=True,
                    # It trains in both cases: once is enough.
                    run_training_check=not training,
                )

    @parameterized.named_parameters(*LAYERS)
    def test_fits_under_xla_saves_and_clones(self, cls, kwargs, weights):
        x = _inputs(32, 5)
        model = keras.Sequential(
            [
                keras.Input((5,)),
                keras.layers.Dense(5, activation="sigmoid"),
                cls(**kwargs),
                keras.layers.Dense(1),
            ]
        )
        model.compile(keras.optimizers.Adam(0.02), "mse", jit_compile=True)
        before = model.evaluate(x, x[:, :1] + 3, verbose=0)
        first = model.layers[0].kernel.numpy()
        model.fit(x, x[:, :1] + 3, batch_size=8, epochs=10, verbose=0)
        self.assertLess(model.evaluate(x, x[:, :1] + 3, verbose=0), before / 2)
        # The gradient gets through to the layer before.
        self.assertNotAllClose(model.layers[0].kernel.numpy(), first)
        path = os.path.join(self.get_temp_dir(), "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAllEqual(loaded(x), model(x))
        layer = loaded.layers[1]
        self.assertIsInstance(layer, cls)
        self.assertEqual(layer.get_config(), model.layers[1].get_config())
        for name, value in kwargs.items():
            if name != "activation":
                self.assertEqual(getattr(layer, name), value)
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        self.assertAllEqual(clone(x), model(x))

    @parameterized.named_parameters(*FORWARD)
    def test_draws_are_new_in_every_step_and_follow_the_seed(
        self, cls, kwargs, weights
    ):
        x = _inputs(40, 5)
        first, second = (cls(seed=3, **kwargs) for _ in range(2))
        for layer in (first, second):
            layer.build(x.shape)
        second.set_weights(first.get_weights())
        draws = [np.asarray(first(x, training=True)) for _ in range(2)]
        again = [np.asarray(second(x, training=True)) for _ in range(2)]
        self.assertAllEqual(draws, again)
        self.assertNotAllClose(draws[0], draws[1])

    @parameterized.product(
        case=LAYERS, policy=("mixed_float16", "mixed_bfloat16", "float64")
    )
    def test_dtypes(self, case, policy):
        _, cls, kwargs, _ = case
        layer = cls(dtype=policy, **kwargs)
        for training in (False, True):
            y = layer(_inputs(4, 5), training=training)
            self.assertEqual(y.dtype.name, policy.removeprefix("mixed_"))
            self.assertTrue(np.all(np.isfinite(np.asarray(y, "float64"))))

    @parameterized.named_parameters(*LAYERS)
    def test_masks_pass_through(self, cls, kwargs, weights):
        x = _inputs(2, 3, 5)
        x[1, 2] = 0.0
        model = keras.Sequential(
            [keras.layers.Masking(), cls(**kwargs), Probe()]
        )
        self.assertAllEqual(model(x), np.any(x != 0, axis=-1))

    @parameterized.parameters(
        (SpikingDense, {"firing": "local"}, "`firing`.*'unit'.*'local'"),
        (SpikingDense, {"spike_size": 0}, "`spike_size`.*positive.*size=0"),
        (Backpercolation, {"scale": -1.0}, "`scale`.*positive.*scale=-1.0"),
        (
            Backpercolation,
            {"activation": "softmax"},
            "`activation`.*by itself.*'softmax'",
        ),
        (
            Backpercolation,
            {"activation": keras.layers.PReLU()},
            "`activation`.*by itself.*PReLU",
        ),
        (DropIn, {"rate": 1.5}, r"`rate`.*\[0, 1\].*rate=1.5"),
    )
    def test_wrong_arguments(self, cls, kwargs, message):
        if cls is SpikingDense:
            kwargs = {"units": 2, **kwargs}
        with self.assertRaisesRegex(BayesdropError, message):
            cls(**kwargs)
