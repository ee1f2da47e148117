# SPDX-License-Identifier: Apache-2.0
"""Layers of every kind in a pruned model."""

import functools

import keras
import numpy as np
import pytest

import keras_bayesdrop
from keras_bayesdrop.layers.drop_connect import DropConnectConv2D
from keras_bayesdrop.layers.drop_connect import DropConnectDense
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.regularizers import DropoutL2
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import to_sparse_size
from tests.sparsity.fakes import NoisyDense
from tests.sparsity.fakes import assert_same
from tests.sparsity.fakes import model_and_answer
from tests.sparsity.fakes import noisy_sequential

layers = keras.layers


def test_dropout_layers_become_those_of_keras():
    ours = keras_bayesdrop.layers
    x = keras.Input((4, 3))
    h = ours.MCDropout(0.2, noise_shape=(None, 1, None), name="a")(x)
    h = ours.MCDropout(0.3, noise="gaussian", name="b")(h, training=True)
    h = ours.MCAlphaDropout(0.1, name="c")(h)
    h = ours.MCGaussianDropout(0.4, name="d")(h)
    h = ours.MCSpatialDropout1D(0.5, dtype="mixed_float16", name="e")(h)
    h = layers.Reshape((2, 2, 3))(h)
    h = ours.MCSpatialDropout2D(0.6, data_format="channels_first", name="f")(h)
    h = layers.Reshape((1, 2, 2, 3))(h)
    h = ours.MCSpatialDropout3D(0.7, seed=3, name="g")(h)
    h = ours.MCDropout(noise="rayleigh", name="no_such_layer")(h)
    h = NoisyDense(2, name="h")(h)
    plain = prune(keras.Model(x, h))
    assert "no_such_layer" not in [layer.name for layer in plain.layers]
    classes = [
        (type(layer), layer.rate)
        for layer in plain.layers
        if hasattr(layer, "rate")
    ]
    assert classes == [
        (layers.Dropout, 0.2),
        (layers.GaussianDropout, 0.3),
        (layers.AlphaDropout, 0.1),
        (layers.GaussianDropout, 0.4),
        (layers.SpatialDropout1D, 0.5),
        (layers.SpatialDropout2D, 0.6),
        (layers.SpatialDropout3D, 0.7),
    ]
    assert tuple(plain.get_layer("a").noise_shape) == (None, 1, None)
    assert plain.get_layer("e").dtype_policy.name == "mixed_float16"
    assert plain.get_layer("f").data_format == "channels_first"
    x = np.ones((2, 4, 3))
    np.testing.assert_array_equal(plain(x), plain(x))  # Off at prediction.
    assert np.any(plain(x, training=True) != plain(x))


def test_drop_connect_layers_become_plain():
    def make(conv, dense):
        x = keras.Input((4, 4, 1))
        h = conv(3, kernel_size=3, activation="relu", name="a")(x)
        h = layers.Flatten()(h)
        return keras.Model(x, dense(2, use_bias=False, name="b")(h))

    model = make(
        functools.partial(DropConnectConv2D, rate=0.4),
        functools.partial(DropConnectDense, rate=0.4),
    )
    answer = make(layers.Conv2D, layers.Dense)
    kernel = np.random.default_rng(0).normal(size=(3, 3, 1, 3))
    kernel[..., 1] = 0
    model.get_layer("a").kernel.assign(kernel)
    model.get_layer("a").bias.assign([0.1, 0.2, 0.3])
    for name in "ab":
        weights = model.get_layer(name).get_weights()
        answer.get_layer(name).set_weights(weights)
    for structured in (False, True):
        plain = prune(model, structured=structured)
        assert [type(layer) for layer in plain.layers[1:]] == [
            layers.Conv2D,
            layers.Flatten,
            layers.Dense,
        ]
        assert plain.get_layer("a").filters == (2 if structured else 3)
        assert_same(plain, answer)
    assert to_sparse_size(model) == to_sparse_size(answer)


def test_concrete_dropout_becomes_the_layer_inside():
    def dropped(layer, **kwargs):
        return keras_bayesdrop.layers.ConcreteDropout(
            layer, num_train_examples=100, **kwargs
        )

    x = keras.Input((5,))
    h = dropped(layers.Dense(6, activation="relu", name="plain"))(x)
    h = layers.Dense(4, activation="relu", name="zeros")(h)
    model = keras.Model(x, dropped(layers.Dense(2), name="out")(h))
    kernel = np.random.default_rng(0).normal(size=(6, 4))
    kernel[:, 2] = 0
    model.get_layer("zeros").kernel.assign(kernel)
    for structured in (False, True):
        plain = prune(model, structured=structured)
        assert [type(layer) for layer in plain.layers[1:]] == [layers.Dense] * 3
        assert [layer.name for layer in plain.layers[1:]] == [
            "plain",
            "zeros",
            "out",
        ]
        assert plain.layers[2].units == (3 if structured else 4)
        assert_same(plain, model)  # Its noise is off in a plain call.
        if not structured:
            assert to_sparse_size(plain) == to_sparse_size(model)


def test_regularizers_of_this_package_become_plain():
    decay = DropoutL2(
        0.1, 1.0, 50, likelihood=GaussianLikelihood(noise_precision=4.0)
    )
    model = noisy_sequential(
        layers.Dense(2, kernel_regularizer=decay, bias_regularizer="l1"),
        NoisyDense(2, kernel_regularizer=decay),
    )
    plain = prune(model, structured=True)
    for layer in plain.layers[1:]:
        assert type(layer.kernel_regularizer) is keras.regularizers.L2
        assert float(layer.kernel_regularizer.l2) == pytest.approx(
            decay.weight_decay, rel=1e-6
        )
    assert isinstance(plain.layers[1].bias_regularizer, keras.regularizers.L1)


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.layers.Layer):
    """A layer of the user's own, with layers inside."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.inner = layers.Dense(units)

    def build(self, input_shape):
        self.inner.build(input_shape)

    def call(self, inputs):
        return 2 * self.inner(inputs)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def test_other_layers_are_copied_with_all_they_hold():
    norm = layers.Normalization()
    norm.adapt(np.random.default_rng(0).normal(3.0, 2.0, (50, 4)))
    words = keras.Input((1,), dtype="string", name="words")
    lookup = layers.StringLookup(output_mode="multi_hot")
    lookup.adapt([["a"], ["b"], ["c"]])
    x = keras.Input((4,), name="x")
    h = layers.Concatenate()([norm(x), lookup(words)])
    h = layers.Lambda(lambda t: t + 1.0)(h)
    h = Doubled(5, name="doubled")(h)
    h = layers.Reshape((1, 5))(h)
    h = layers.Bidirectional(layers.LSTM(3))(h)
    noisy = NoisyDense(3, name="noisy")
    model = keras.Model([x, words], noisy(h))
    answer = keras.Model([x, words], layers.Dense(3, name="d")(h))
    answer.get_layer("d").set_weights([noisy.kernel, noisy.bias])
    data = [
        keras.ops.ones((2, 4)),
        keras.ops.convert_to_tensor([["a"], ["z"]]),
    ]
    for structured in (False, True):
        plain = prune(model, structured=structured)
        np.testing.assert_allclose(
            plain(data), answer(data), rtol=1e-5, atol=1e-6
        )


def test_functions_that_are_not_registered():
    class Shrinking(keras.regularizers.Regularizer):
        def __call__(self, x):
            return keras.ops.sum(x)

        def get_config(self):
            return {}

    def initializer(shape, dtype=None):
        assert tuple(shape) == (4, 3)  # It knows this shape only.
        return keras.ops.ones(shape, dtype)

    def activation(x):
        return x + 2

    decay = Shrinking()
    model = keras.Sequential(
        [
            keras.Input((4,)),
            NoisyDense(
                3,
                kernel_initializer=initializer,
                kernel_regularizer=decay,
                activation="relu",
            ),
            layers.Dense(
                2, activation=activation, kernel_regularizer=decay, name="d"
            ),
            layers.Activation(lambda x: 3 * x),
        ]
    )
    model.layers[0].log_alphas.assign(np.full((4, 3), [-1.0, 9.0, -1.0]))
    for structured in (False, True):
        plain = prune(model, structured=structured)
        dense = plain.get_layer("d")
        assert dense.activation is activation
        assert dense.kernel_regularizer is decay
        assert plain.layers[0].units == (2 if structured else 3)
        assert type(plain.layers[0].kernel_regularizer) is Shrinking
        x = np.ones((1, 4))
        hidden = np.full((1, 3), [4.0, 0.0, 4.0])
        wanted = 3 * (hidden @ np.asarray(model.layers[1].kernel) + 2)
        np.testing.assert_allclose(plain(x), wanted, rtol=1e-5)


def test_masks_reach_the_layers_that_use_them():
    def make(kit):
        ids = keras.Input((5,), dtype="int32")
        h = layers.Embedding(9, 4, mask_zero=True, name="e")(ids)
        h = kit.dense(4, activation="relu", name="d")(h)
        h = layers.LSTM(3, name="l")(h)
        return keras.Model(ids, kit.dense(2, name="o")(h))

    model, answer = model_and_answer(make)
    x = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    for structured in (False, True):
        plain = prune(model, structured=structured)
        np.testing.assert_allclose(plain(x), answer(x), rtol=1e-5, atol=1e-6)
