# SPDX-License-Identifier: Apache-2.0
"""Each layer that has a flow of channels, in a model of its own."""

import keras
import numpy as np
import pytest

from keras_bayesdrop.sparsity._elementwise import _NAMES
from keras_bayesdrop.sparsity._layer_flows import _FLOWS
from keras_bayesdrop.sparsity._shrink import shrink
from tests.sparsity.fakes import assert_same
from tests.sparsity.fakes import units

layers = keras.layers

# Rank of the input, the layer, and the channels of four that are left before
# it. Channel 0 is constant and positive, 1 is constant and negative, 2 is
# constant and zero, and 3 is alive.
_1D, _2D, _3D = (5, 4), (5, 6, 4), (3, 4, 3, 4)
_FIRST = {"data_format": "channels_first"}
CASES = [
    (_2D, layers.ActivityRegularization(0.1), 1),
    (_2D, layers.Activation("sigmoid"), 1),
    (_2D, layers.Activation("softmax"), 4),
    (_2D, layers.Activation(lambda x: x[..., ::-1]), 4),
    (_2D, layers.ReLU(0.5, negative_slope=0.1, threshold=0.2), 1),
    (_2D, layers.LeakyReLU(0.4), 1),
    (_2D, layers.ELU(0.7), 1),
    (_2D, layers.PReLU(alpha_initializer="normal"), 4),
    (_2D, layers.Softmax(), 4),
    (_2D, layers.BatchNormalization(), 1),
    (_2D, layers.BatchNormalization(axis=3, center=False), 1),
    (_2D, layers.BatchNormalization(axis=2, scale=False), 4),
    (_2D, layers.LayerNormalization(), 4),
    (_2D, layers.Dropout(0.5), 1),
    (_2D, layers.AlphaDropout(0.5), 1),
    (_2D, layers.GaussianDropout(0.5), 1),
    (_2D, layers.GaussianNoise(0.5), 1),
    (_1D, layers.SpatialDropout1D(0.5), 1),
    (_2D, layers.SpatialDropout2D(0.5), 1),
    (_2D, layers.SpatialDropout2D(0.5, **_FIRST), 4),
    (_3D, layers.SpatialDropout3D(0.5), 1),
    (_2D, layers.Identity(), 1),
    (_2D, layers.Flatten(), 1),
    (_2D, layers.Flatten(**_FIRST), 4),
    (_2D, layers.Reshape((15, -1)), 1),
    (_2D, layers.Reshape((-1, 3, 4)), 1),
    (_2D, layers.Reshape((12, 10)), 4),
    (_2D, layers.Permute((3, 1, 2)), 4),
    ((4,), layers.RepeatVector(3), 1),
    (_1D, layers.AveragePooling1D(2, padding="same"), 1),
    (_2D, layers.AveragePooling2D(3, 2, padding="same"), 1),
    (_3D, layers.AveragePooling3D(2, padding="same"), 1),
    (_1D, layers.MaxPooling1D(2, padding="same"), 1),
    (_2D, layers.MaxPooling2D(3, 2, padding="same"), 1),
    (_3D, layers.MaxPooling3D(2, padding="same"), 1),
    (_1D, layers.GlobalAveragePooling1D(), 1),
    (_2D, layers.GlobalAveragePooling2D(keepdims=True), 1),
    (_2D, layers.GlobalAveragePooling2D(**_FIRST), 4),
    (_3D, layers.GlobalAveragePooling3D(), 1),
    (_1D, layers.GlobalMaxPooling1D(keepdims=True), 1),
    (_2D, layers.GlobalMaxPooling2D(), 1),
    (_3D, layers.GlobalMaxPooling3D(), 1),
    (_1D, layers.Cropping1D(1), 1),
    (_2D, layers.Cropping2D(1), 1),
    (_3D, layers.Cropping3D(1), 1),
    (_1D, layers.ZeroPadding1D(1), 3),
    (_2D, layers.ZeroPadding2D(1), 3),
    (_3D, layers.ZeroPadding3D(1), 3),
    (_1D, layers.UpSampling1D(2), 1),
    (_2D, layers.UpSampling2D(2), 1),
    (_2D, layers.UpSampling2D(2, interpolation="bilinear"), 1),
    (_2D, layers.UpSampling2D(2, interpolation="bicubic"), 4),
    (_3D, layers.UpSampling3D(2), 1),
    (_1D, layers.Dense(3, activation="softmax"), 1),
    (_1D, layers.EinsumDense("abc,cd->abd", (5, 3)), 4),
    (_1D, layers.Conv1D(3, 2, padding="valid"), 1),
    (_1D, layers.Conv1D(3, 2, padding="causal"), 3),
    (_2D, layers.Conv2D(3, 3, padding="same"), 3),
    (_2D, layers.Conv2D(3, 3, strides=2), 1),
    (_2D, layers.Conv2D(4, 3, groups=2), 4),
    (_2D, layers.Conv2DTranspose(3, 3), 4),
    (_2D, layers.DepthwiseConv2D(3), 4),
    (_2D, layers.SeparableConv2D(3, 3), 4),
    (_3D, layers.Conv3D(3, 2, dilation_rate=2), 1),
    (_3D, layers.Conv3D(3, 1, padding="same"), 1),
]


@pytest.mark.parametrize(
    ("shape", "layer", "left"),
    CASES,
    ids=[f"{case[1].name}-{case[2]}" for case in CASES],
)
def test_layer_between_two_others(shape, layer, left):
    rng = np.random.default_rng(0)
    first = layers.Dense(4, name="first")
    last = layers.Dense(2, name="last")
    model = keras.Sequential(
        [
            keras.Input((*shape[:-1], 2)),
            first,
            layer,
            layers.Flatten(name="flat"),
            last,
        ]
    )
    for variable in model.weights:
        value = rng.normal(size=variable.shape)
        variable.assign(np.exp(value) if "variance" in variable.path else value)
    kernel = np.zeros((2, 4))
    kernel[:, 3] = [1.0, -0.5]
    first.kernel.assign(kernel)
    first.bias.assign([0.7, -0.6, 0.0, 0.1])
    small = shrink(model)
    assert units(small)["first"] == left
    assert_same(small, model)


def test_every_layer_that_is_known_was_tried():
    several = {
        layers.Add,
        layers.Average,
        layers.Concatenate,
        layers.Maximum,
        layers.Minimum,
        layers.Multiply,
        layers.Subtract,
    }
    tried = {type(layer) for _, layer, _ in CASES}
    assert set(_FLOWS) - tried == several


@pytest.mark.parametrize(
    ("merge", "left"),
    [
        (layers.Add(), [2, 2]),
        (layers.Average(), [2, 2]),
        (layers.Maximum(), [2, 2]),
        (layers.Minimum(), [2, 2]),
        (layers.Multiply(), [2, 2]),
        (layers.Subtract(), [2, 2]),
        (layers.Concatenate(), [2, 1]),
        (layers.Concatenate(axis=1), [3, 3]),
        (layers.Dot(axes=2), [3, 3]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_layers_that_merge(merge, left):
    """Channel 0 is constant in both inputs, 1 in one of them."""
    rng = np.random.default_rng(0)
    x = keras.Input((2, 2))
    first = layers.Dense(3, name="a")
    second = layers.Dense(3, name="b")
    h = layers.Flatten()(merge([first(x), second(x)]))
    model = keras.Model(x, layers.Dense(2, name="c")(h))
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape))
    first.kernel.assign(np.array([[0, 1, 2], [0, 1, 1.0]]))
    second.kernel.assign(np.array([[0, 0, 2], [0, 0, 1.0]]))
    small = shrink(model)
    assert list(units(small).values()) == [*left, 2]
    assert_same(small, model)


@pytest.mark.parametrize("name", _NAMES)
def test_activations_treat_channels_apart(name):
    activation = getattr(keras.activations, name, None)
    if activation is None:
        return  # Not in this version of Keras.
    values = np.linspace(-4, 4, 7, dtype="float32")
    whole = np.asarray(activation(keras.ops.convert_to_tensor(values)))
    apart = [activation(keras.ops.convert_to_tensor([v]))[0] for v in values]
    np.testing.assert_allclose(whole, apart, rtol=1e-6, atol=1e-6)


def test_many_inputs_may_be_one_value():
    x = keras.Input((2,))
    first = layers.Dense(3, name="a")
    h = first(x)
    h = layers.Concatenate()([layers.Subtract()([h, h]), h, h])
    h = layers.Multiply()([h, h, h])
    model = keras.Model(x, layers.Dense(2, name="b")(h))
    first.kernel.assign(np.array([[0, 1, 2], [0, 1, 1.0]]))
    first.bias.assign([1.0, 2.0, 3.0])
    small = shrink(model)
    assert units(small) == {"a": 2, "b": 2}
    assert_same(small, model)


def test_adapted_kernels_are_walls():
    model = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(3, name="a"),
            layers.Dense(2, name="b"),
        ]
    )
    model.layers[0].kernel.assign(np.array([[0, 1, 2], [0, 1, 1.0]]))
    model.layers[1].enable_lora(1)
    small = shrink(model)
    assert [layer.units for layer in small.layers] == [3, 2]
    assert_same(small, model)
