# SPDX-License-Identifier: Apache-2.0
"""`Masksembles` inside loops, in ensembles, exports and half precision."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import Masksembles
from tests.layers.test_masksembles_predict import by_hand
from tests.layers.test_masksembles_predict import dense
from tests.layers.test_masksembles_predict import rows
from tests.layers.test_masksembles_predict import samples

layers = keras.layers


@keras.saving.register_keras_serializable("tests")
class MaskedCell(layers.Layer):
    """A recurrent cell with masks on its state."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = self.output_size = units
        self.inner = layers.Dense(units, activation="tanh")
        self.masks = Masksembles(3, 2.0)

    def build(self, input_shape):
        self.masks.build((None, self.units))
        self.inner.build((None, input_shape[-1] + self.units))
        self.built = True

    def call(self, x, states, training=None):
        masked = self.masks(states[0], training=training)
        new = self.inner(keras.ops.concatenate([x, masked], axis=-1))
        return new, [new]


@pytest.mark.parametrize("unroll", [True, False])
def test_masks_inside_a_cell_are_the_same_at_every_step(unroll):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4, 2)),
            layers.RNN(MaskedCell(12), unroll=unroll),
            layers.Dense(2),
        ]
    )
    x = rows(5, (4, 2))
    hand = np.stack([by_hand(model, x, k) for k in range(3)])
    assert hand.std(axis=0).min() > 0
    np.testing.assert_allclose(samples(model, x, 3), hand, atol=1e-5)
    independent = samples(model, x, 3, "independent")
    row = np.arange(5)
    numbers = (np.arange(3)[:, None] + row) % 3
    np.testing.assert_allclose(independent, hand[numbers, row], atol=1e-5)


def test_half_precision():
    keras.utils.set_random_seed(0)
    model, x = dense(dtype="mixed_float16"), rows()
    model.compile("adam", "mse")
    model.fit(x, rows(len(x), (2,)), verbose=0)
    hand = np.stack([by_hand(model, x, k) for k in range(4)])
    # A few units of rounding in float16, 1e-3 each, of values of size 1.
    np.testing.assert_allclose(samples(model, x, 4), hand, atol=5e-3)


def test_exports_have_the_same_masks(tmp_path):
    model, x = dense(), rows()
    kbd.export_uncertainty(model, str(tmp_path / "model"), num_samples=4)
    exported = tf.saved_model.load(str(tmp_path / "model"))
    p = kbd.predict_with_uncertainty(model, x, 4, verbose=0)
    outputs = exported.signatures["serving_default"](tf.constant(x))
    np.testing.assert_allclose(outputs["mean"], p.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs["std"], p.std, rtol=1e-3, atol=1e-5)


def test_ensembles_of_masked_networks():
    x = rows()
    members = [dense(), dense()]
    members[1].layers[0].kernel.assign(-members[1].layers[0].kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = kbd.predict_with_uncertainty(members, x, 4, verbose=0)
    hand = np.stack([by_hand(m, x, k) for m in members for k in range(4)])
    np.testing.assert_allclose(p.mean, hand.mean(axis=0), rtol=1e-4, atol=1e-5)
    by_member = hand.reshape(2, 4, *hand.shape[1:])
    np.testing.assert_allclose(
        p.within, by_member.var(axis=1).mean(axis=0), rtol=1e-3
    )


def test_a_tolerance_stops_rows():
    model, x = dense(), rows(20)
    method = kbd.Sampling(absolute_tolerance=1e3)
    with pytest.warns(kbd.errors.BayesdropWarning, match="Nothing in model"):
        p = kbd.predict_with_uncertainty(model, x, 64, method=method, verbose=0)
    # 16 samples are four of each mask.
    hand = np.mean([by_hand(model, x, k) for k in range(4)], axis=0)
    assert set(p.num_samples_used) == {16}
    np.testing.assert_allclose(p.mean, hand, rtol=1e-4, atol=1e-5)
