# SPDX-License-Identifier: Apache-2.0
"""Noise in loops over time: one site for all steps, noise of its own each."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_bayesdrop as kbd
from tests.helpers import flat


class _ShowsItsKernel(layers.Layer):
    """A cell that adds what dropout leaves of its kernel to its state."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.state_size = self.output_size = 3
        self.drop = layers.Dropout(0.5)

    def build(self, shape):
        self.kernel = self.add_weight(
            shape=(2, 3), name="kernel", initializer="ones"
        )

    def call(self, x, states, training=None):
        dropped = self.drop(self.kernel, training=training)
        total = states[0] + dropped[:1] + 10.0 * dropped[1:]
        return total, [total]


class _Centred(layers.Layer):
    """Lets the rows of a batch see each other."""

    def call(self, x):
        return x - keras.ops.mean(x, axis=0, keepdims=True)

    def compute_output_shape(self, shape):
        return shape


def _samples(model, x, **kwargs):
    settings = {"seed": 3, "verbose": 0, "head": "regression", **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, 64, return_samples=True, **flat(**settings)
    ).samples


@pytest.mark.filterwarnings("ignore:Samples of model")
@pytest.mark.parametrize("unroll", [False, True])
def test_noise_on_the_weights_of_a_cell_differs_between_steps(unroll):
    inputs = keras.Input((4, 5))
    outputs = layers.RNN(
        _ShowsItsKernel(), return_sequences=True, unroll=unroll
    )(inputs)
    samples = _samples(
        keras.Model(inputs, outputs), np.ones((3, 4, 5), "float32")
    )
    # One mask of the kernel for all rows of a sample and step.
    np.testing.assert_array_equal(samples, samples[:, :1].repeat(3, axis=1))
    steps = np.diff(samples[:, 0], axis=1, prepend=0.0)
    assert set(np.unique(steps)) == {0.0, 2.0, 20.0, 22.0}
    assert not (steps == steps[:, :1]).all()


@pytest.mark.filterwarnings("ignore:Rows of model")
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_steps_one_by_one_have_the_noise_of_steps_at_once(masks):
    """Rows that mix behind `TimeDistributed` leave the masks as they are."""
    inputs = keras.Input((3, 2, 5))
    inner = layers.TimeDistributed(
        keras.Sequential([layers.Dropout(0.5), layers.GaussianDropout(0.2)])
    )
    masked = layers.TimeDistributed(inner)(inputs)
    at_once = keras.Model(inputs, masked)
    one_by_one = keras.Model(inputs, [masked, _Centred()(masked)])
    x = np.random.default_rng(0).normal(size=(4, 3, 2, 5)).astype("float32")
    expected = _samples(at_once, x, masks=masks)
    settings = {"seed": 3, "verbose": 0, "head": "regression"}
    both = kbd.predict_with_uncertainty(
        one_by_one, x, 64, return_samples=True, **flat(masks=masks, **settings)
    )
    np.testing.assert_array_equal(both[0].samples, expected)


@pytest.mark.filterwarnings("ignore:Rows of model")
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_rows_that_mix_in_a_step_see_no_other_step(masks):
    """With the noise off, and with it on, steps stay apart."""
    inputs = keras.Input((3, 5))
    inner = keras.Sequential([layers.Dropout(0.5), _Centred()])
    model = keras.Model(inputs, layers.TimeDistributed(inner)(inputs))
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype("float32")
    samples = _samples(model, x, masks=masks)
    np.testing.assert_allclose(samples.mean(1), 0.0, atol=1e-6)
    quiet = kbd.deterministic(model)(x)
    np.testing.assert_allclose(quiet, x - x.mean(0), atol=1e-6)
