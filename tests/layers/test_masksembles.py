# SPDX-License-Identifier: Apache-2.0
"""`Masksembles` by itself: Keras' contract, training, inference, saving."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import Masksembles
from tests.helpers import TestCase


def network(num_masks=4, scale=2.0, width=24, **kwargs):
    """Returns a built network with two layers of masks."""
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(width, activation="relu"),
            Masksembles(num_masks, scale, seed=1, name="one"),
            keras.layers.Dense(16, activation="tanh"),
            Masksembles(num_masks, scale, seed=2, name="two"),
            keras.layers.Dense(2),
        ],
        **kwargs,
    )


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 5)).astype("float32")


def built(*args, units=8, rank=2, **kwargs):
    layer = Masksembles(*args, **kwargs)
    layer.build((None, *[3] * (rank - 2), units))
    return layer


def masks_of(layer):
    return layer.masks.numpy()


class MasksemblesTest(TestCase):
    @parameterized.named_parameters(
        ("dense", (6, 7)), ("sequence", (6, 5, 7)), ("image", (6, 5, 2, 7))
    )
    def test_keras_contract(self, shape):
        self.run_layer_test(
            Masksembles,
            init_kwargs={"num_masks": 3, "scale": 2.0, "seed": 11},
            input_shape=shape,
            expected_output_shape=shape,
            expected_output_dtype="float32",
            expected_num_trainable_weights=0,
            expected_num_non_trainable_weights=1,
            expected_num_seed_generators=1,
            expected_num_losses=0,
            supports_masking=True,
        )

    @parameterized.parameters((12, 2), (12, 3), (12, 4), (4, 2))
    def test_training_splits_the_batch_evenly(self, count, rank):
        layer = built(4, seed=0, rank=rank)
        x = np.ones((count, *[3] * (rank - 2), 8), "float32")
        y = np.asarray(layer(x, training=True))
        for row in range(count):
            mask = layer.masks.numpy()[row % 4]
            self.assertAllEqual(y[row], np.broadcast_to(mask, y.shape[1:]))

    @parameterized.parameters(1, 2, 3, 5, 7, 10)
    def test_any_batch_size_uses_all_masks_alike(self, count):
        layer = built(4, 3.0, seed=0, units=32)
        masks = layer.masks.numpy().astype("float32")
        seen, steps = np.zeros(4), 200
        for _ in range(steps):
            y = np.asarray(layer(np.ones((count, 32)), training=True))
            # Rows [batch], masks [4]: which one it is.
            is_mask = (y[:, None] == masks).all(axis=-1)
            self.assertAllEqual(is_mask.sum(axis=1), 1)
            numbers = is_mask.argmax(axis=1)
            self.assertAllEqual(np.diff(numbers) % 4, 1)
            seen += is_mask.sum(axis=0)
        # A batch gives a mask a row more, or none, with a probability of its
        # rest: four standard deviations of 200 such draws are at most 28.
        self.assertAllClose(seen, [steps * count / 4] * 4, atol=28)

    def test_layers_of_a_model_take_turns_together(self):
        one, two = built(4, seed=1, units=32), built(4, seed=2, units=32)
        for count in (3, 4, 5, 1, 2, 8):
            x = np.ones((count, 32), "float32")
            numbers = []
            for layer in (one, two):
                y = np.asarray(layer(x, training=True))
                is_mask = (y[:, None] == masks_of(layer)).all(axis=-1)
                numbers.append(is_mask.argmax(axis=1))
            self.assertAllEqual(*numbers)

    def test_inference_takes_the_mean_of_the_masks(self):
        layer = built(3, seed=0)
        x = np.random.default_rng(0).normal(size=(5, 8)).astype("float32")
        mean = layer.masks.numpy().mean(axis=0)
        for training in (False, None):
            y = layer(x, training=training)
            self.assertAllClose(y, x * mean, rtol=1e-6)

    def test_predictions_do_not_depend_on_the_batch(self):
        model, x = network(), rows(9)
        whole = model.predict(x, verbose=0)
        for size in (1, 2, 4):
            parts = model.predict(x, batch_size=size, verbose=0)
            self.assertAllClose(parts, whole, rtol=1e-5, atol=1e-6)
        order = np.random.default_rng(0).permutation(9)
        self.assertAllClose(
            model.predict(x[order], verbose=0), whole[order], rtol=1e-5
        )

    def test_a_dropped_infinity_is_zero(self):
        layer = built(2, seed=0)
        y = layer(np.full((2, 8), np.inf, "float32"), training=True)
        self.assertAllEqual(np.asarray(y) == 0, layer.masks.numpy() == 0)

    @parameterized.parameters(True, False)
    def test_fit(self, jit_compile):
        model, x = network(), rows(70)
        before = [layer.masks.numpy() for layer in model.layers[1:4:2]]
        y = np.stack([x.sum(axis=1), x[:, 0] * x[:, 1]], axis=1)
        model.compile("adam", "mse", jit_compile=jit_compile)
        losses = model.fit(x, y, batch_size=16, epochs=12, verbose=0)
        self.assertLess(losses.history["loss"][-1], losses.history["loss"][0])
        for layer, masks in zip(model.layers[1:4:2], before, strict=True):
            self.assertAllEqual(layer.masks.numpy(), masks)

    def test_gradients_reach_only_the_kept_units(self):
        layer, x = built(2, seed=0), tf.ones((4, 8))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(layer(x, training=True))
        masks = layer.masks.numpy()
        self.assertAllEqual(tape.gradient(y, x), masks[[0, 1, 0, 1]])

    @parameterized.parameters("mixed_float16", "mixed_bfloat16", "float64")
    def test_other_dtypes(self, dtype):
        layer = Masksembles(4, seed=0, dtype=dtype)
        x = np.random.default_rng(0).normal(size=(8, 16))
        y = layer(x, training=True)
        wanted = keras.ops.cast(x, layer.compute_dtype)
        masks = layer.masks.numpy()[np.arange(8) % 4]
        self.assertEqual(keras.backend.standardize_dtype(y.dtype), wanted.dtype)
        self.assertAllEqual(
            keras.ops.cast(y, "float64"),
            np.asarray(keras.ops.cast(wanted, "float64")) * masks,
        )
        self.assertEqual(layer(x).dtype, wanted.dtype)
        self.assertEqual(layer.masks.dtype, "uint8")

    @parameterized.parameters("m.keras", "m.weights.h5")
    def test_a_loaded_model_has_the_same_masks(self, name):
        model, x = network(), rows(6)
        model.layers[1].seed = model.layers[3].seed = None
        path = os.path.join(self.get_temp_dir(), name)
        if name.endswith(".h5"):
            model.save_weights(path)
            loaded = keras.models.clone_model(model)
            different = masks_of(loaded.layers[1]) != masks_of(model.layers[1])
            assert different.any()
            loaded.load_weights(path)
        else:
            model.save(path)
            loaded = keras.saving.load_model(path)
        for index in (1, 3):
            self.assertAllEqual(
                loaded.layers[index].masks.numpy(),
                model.layers[index].masks.numpy(),
            )
        predictions = [
            kbd.predict_with_uncertainty(
                each, x, 4, return_samples=True, verbose=0
            ).samples
            for each in (model, loaded)
        ]
        self.assertAllEqual(*predictions)

    def test_seeds(self):
        def masks(seed):
            return built(4, seed=seed, units=64).masks.numpy()

        self.assertAllEqual(masks(5), masks(5))
        assert (masks(5) != masks(6)).any()
        keras.utils.set_random_seed(1)
        first = masks(None)
        assert (first != masks(None)).any()
        keras.utils.set_random_seed(1)
        self.assertAllEqual(masks(None), first)

    @parameterized.parameters((4, 1.0), (1, 3.0))
    def test_one_function_has_no_noise(self, num_masks, scale):
        layer = built(num_masks, scale)
        self.assertAllEqual(layer.masks.numpy(), 1)
        self.assertFalse(layer.noise_site()[0].active)

    def test_bad_arguments(self):
        for num_masks in (0, -1, 2.5, None, True):
            with pytest.raises(BayesdropError, match=r"`num_masks`\. Expected"):
                Masksembles(num_masks)
        for scale in (0.99, -1, np.nan, np.inf, "2", None, True):
            with pytest.raises(BayesdropError, match=r"`scale`\. Expected"):
                Masksembles(4, scale)
        for seed in (-1, 0.5, "a"):
            with pytest.raises(BayesdropError, match=r"`seed`\. Expected"):
                Masksembles(4, seed=seed)

    def test_bad_shapes(self):
        for shape in ((None,), (None, None), (3, 5, None), (None, 0)):
            with pytest.raises(BayesdropError, match="known number of units"):
                Masksembles(4).build(shape)
        with pytest.raises(BayesdropError, match="would drop nothing"):
            Masksembles(4, 1.1).build((None, 3))
