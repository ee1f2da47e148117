# SPDX-License-Identifier: Apache-2.0
"""Small convolutional networks whose noise drops whole channels."""

import contextlib

import keras
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop.plan import CutStep

layers = keras.layers
ROWS = 3


def spatial(rate=0.5, **kwargs):
    return layers.SpatialDropout2D(rate, **kwargs)


def conv(filters=24, activation="relu", size=3, **kwargs):
    kwargs = {"padding": "same", **kwargs}
    return layers.Conv2D(filters, size, activation=activation, **kwargs)


def network(*between, shape=(6, 6, 3), end=()):
    """Convolution, noise, layers in between, convolution, noise, the end."""

    def make():
        inputs = x = keras.Input(shape)
        for layer in (conv(), *between[0](), conv(20), *between[1]()):
            x = layer(x)
        for layer in end or (layers.GlobalAveragePooling2D(), layers.Dense(3)):
            x = layer(x)
        return keras.Model(inputs, x)

    return make


def moved(model, seed=3):
    """Gives a model weights of which every one is seen."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        fan_in = np.prod(weight.shape[:-1]) if len(weight.shape) > 1 else 4
        values = rng.normal(0.0, (2 / fan_in) ** 0.5, weight.shape)
        if "variance" in weight.path or "gamma" in weight.path:
            values = rng.uniform(0.5, 2.0, weight.shape)
        if weight.trainable or "moving" in weight.path:
            weight.assign(values)
    return model


@contextlib.contextmanager
def policy(name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def in_both_precisions(make):
    """Returns a model in float32 and in float64, with the same weights."""
    model = moved(make())
    with policy("float64"):
        precise = make()
    precise.set_weights(model.get_weights())
    return model, precise


def inputs_of(model, rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [tuple(spec.shape)[1:] for spec in model.inputs]
    shapes = [tuple(7 if d is None else d for d in shape) for shape in shapes]
    x = [rng.normal(size=(rows, *shape)).astype("float32") for shape in shapes]
    return x[0] if len(x) == 1 else x


def always_cut(monkeypatch):
    """Cuts whatever can be cut, however small it is."""
    monkeypatch.setattr(CutStep, "least_rows", lambda self, settings: 0.0)


def one_dimension():
    inputs = x = keras.Input((9, 3))
    for dilation, padding in ((1, "causal"), (2, "causal"), (1, "valid")):
        x = layers.Conv1D(
            24, 2, dilation_rate=dilation, padding=padding, activation="relu"
        )(x)
        x = layers.SpatialDropout1D(0.5)(x)
    x = layers.MaxPooling1D()(x)
    x = layers.UpSampling1D()(x)
    x = layers.Conv1D(20, 2, strides=2)(layers.ZeroPadding1D()(x))
    x = layers.SpatialDropout1D(0.5)(layers.Cropping1D((0, 1))(x))
    return keras.Model(inputs, layers.Dense(2)(layers.GlobalMaxPooling1D()(x)))


def three_dimensions():
    inputs = x = keras.Input((4, 5, 4, 2))
    for strides in (1, 2):
        x = layers.Conv3D(20, 2, strides, "same", activation="relu")(x)
        x = layers.SpatialDropout3D(0.5)(x)
    x = layers.Cropping3D((0, 1, 0))(layers.ZeroPadding3D(1)(x))
    x = layers.Conv3D(18, 1)(layers.UpSampling3D(2)(x))
    x = kbd.layers.MCSpatialDropout3D(0.5)(x)
    return keras.Model(inputs, layers.GlobalAveragePooling3D()(x))


def flat_head():
    inputs = x = keras.Input((4, 4, 3))
    x = spatial()(conv()(x))
    x = spatial()(conv(20)(x))
    x = layers.Dense(6, "tanh")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(2)(x))


def residual():
    inputs = x = keras.Input((5, 5, 3))
    x = conv(24)(x)
    for _ in range(2):
        branch = spatial()(conv(40)(x))
        branch = spatial(0.4)(conv(24, None)(branch))
        x = layers.ReLU()(layers.Add()([x, branch]))
    x = spatial()(x)
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


def merged():
    """Branches with noise of their own, merged in every way."""
    inputs = x = keras.Input((5, 5, 3))
    one, other = (spatial(0.5)(conv(24)(x)) for _ in range(2))
    x = [
        layers.Add()([one, other]),
        layers.Multiply()([one, other]),
        layers.Maximum()([one, other]),
        layers.Minimum()([one, one]),
        layers.Subtract()([one, other]),
        layers.Average()([other, spatial()(other)]),
    ]
    x = [spatial()(conv(20)(each)) for each in x]
    return keras.Model(inputs, layers.Dense(2)(conv(4)(layers.Add()(x))))


def u_net():
    inputs = keras.Input((8, 8, 3))
    skips, x = [], inputs
    for width in (20, 24):
        x = spatial(0.4)(conv(width)(x))
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = spatial(0.4)(conv(32)(x))
    for skip in reversed(skips):
        x = layers.UpSampling2D()(x)
        x = layers.Concatenate()([x, skip])
        x = spatial(0.4)(conv(20)(x))
    return keras.Model(inputs, conv(2, "sigmoid", 1)(x))


def noise_on_joined():
    """Noise behind a concatenation says what each branch need compute."""
    inputs = x = keras.Input((5, 5, 3))
    one, other = spatial()(conv(24)(x)), conv(20)(x)
    third = conv(18)(spatial(0.3)(x))
    x = spatial(0.5)(layers.Concatenate()([one, other, third, one]))
    return keras.Model(inputs, [conv(17)(x), conv(5)(one)])


def used_outside():
    """Thin values that layers outside, and the outputs, take whole."""
    inputs = x = keras.Input((5, 5, 3))
    x = spatial()(conv(24)(x))
    y = spatial()(conv(24)(x))
    normal = layers.LayerNormalization()(y)
    again = spatial()(conv(24)(normal))
    return keras.Model(
        inputs, [x, y, layers.Add()([conv(20)(again), conv(20)(y)])]
    )


def noise_first():
    inputs = x = keras.Input((5, 5, 24))
    x = conv(20)(spatial()(x))
    return keras.Model(inputs, spatial()(x))


def noise_of_any_shape():
    inputs = x = keras.Input((5, 5, 3))
    shapes = [(None, 1, 1, None), (1, 1, 1, 24), (None, 1, 1, 24)]
    for shape in shapes:
        x = layers.Dropout(0.5, noise_shape=shape)(conv(24)(x))
    x = layers.Dropout(0.3)(conv(24)(x))
    x = layers.Dropout(0.3, noise_shape=(None, 5, 1, None))(conv(24)(x))
    x = layers.GaussianDropout(0.3)(spatial()(conv(24)(x)))
    return keras.Model(inputs, conv(4)(x))


def nested():
    inside = keras.Sequential([conv(24), spatial(), conv(24)])
    inputs = x = keras.Input((5, 5, 3))
    for layer in (inside, spatial(), keras.Sequential([conv(20), spatial()])):
        x = layer(x)
    return keras.Model(inputs, conv(3)(x))


def twice():
    """A convolution and a noise layer that are called twice."""
    shared, noise = conv(24), spatial(0.5)
    inputs = x = keras.Input((5, 5, 24))
    x = noise(shared(noise(shared(x))))
    return keras.Model(inputs, conv(3)(layers.Add()([x, x])))


def learned():
    inputs = x = keras.Input((5, 5, 3))
    x = kbd.layers.ConcreteDropout(conv(24), 100)(x)
    x = kbd.layers.ConcreteDropout(conv(20), 100)(x)
    x = kbd.layers.ConcreteDropout(conv(20), 100)(x)
    return keras.Model(inputs, x)


def transposed():
    inputs = x = keras.Input((4, 5, 3))
    x = spatial()(conv(24)(x))
    x = layers.Conv2DTranspose(20, 3, 2, "same", activation="relu")(x)
    x = layers.Conv2DTranspose(18, (2, 3), (1, 2), output_padding=(0, 1))(
        spatial()(x)
    )
    x = layers.Reshape((-1, 18))(spatial()(x))
    x = layers.Conv1DTranspose(18, 2, 2)(x)
    x = layers.Conv1DTranspose(17, 2)(layers.SpatialDropout1D(0.5)(x))
    return keras.Model(inputs, x)


def depthwise():
    inputs = x = keras.Input((6, 6, 3))
    x = spatial()(conv(24)(x))
    same = {"padding": "same"}
    x = layers.DepthwiseConv2D(3, use_bias=False, activation="relu", **same)(x)
    x = layers.DepthwiseConv2D(2, 2, **same)(conv(20)(x))
    x = layers.DepthwiseConv2D(2, activation="gelu", **same)(spatial()(x))
    x = spatial()(conv(20, "relu", 1)(x))
    x = layers.DepthwiseConv2D(2, depth_multiplier=2, **same)(x)
    x = layers.Reshape((-1, 40))(spatial()(conv(40)(x)))
    x = layers.DepthwiseConv1D(2, **same)(x)
    x = layers.SeparableConv1D(18, 2)(layers.SpatialDropout1D(0.5)(x))
    return keras.Model(inputs, layers.Conv1D(3, 1)(x))


def separable():
    inputs = x = keras.Input((6, 6, 3))
    x = spatial()(conv(24)(x))
    x = layers.SeparableConv2D(20, 3, activation="relu")(x)
    x = layers.SeparableConv2D(18, 2, 2, "same", use_bias=False)(spatial()(x))
    x = layers.SeparableConv2D(18, 2, depth_multiplier=2, padding="same")(
        spatial()(x)
    )
    x = layers.Reshape((-1, 18))(spatial()(x))
    x = layers.SeparableConv1D(20, 2, padding="same")(x)
    x = layers.SpatialDropout1D(0.5)(x)
    x = layers.SeparableConv1D(19, 2, padding="same")(x)
    return keras.Model(inputs, layers.SpatialDropout1D(0.5)(x))


def _alone():
    return [spatial()]


def _with(*make_layers):
    return lambda: [make() for make in make_layers]


def _around(make_layer):
    """A layer before the first noise, and behind it."""
    return network(_with(make_layer, spatial), _with(spatial)), network(
        _with(spatial, make_layer), _with(spatial)
    )


_LAYERS = {
    "normalized": layers.BatchNormalization,
    "tanh": lambda: layers.Activation("tanh"),
    "sigmoid": lambda: layers.Activation("sigmoid"),
    "softmax": lambda: layers.Activation("softmax"),
    "capped relu": lambda: layers.ReLU(max_value=1.0),
    "relu of a threshold": lambda: layers.ReLU(threshold=0.3),
    "leaky": layers.LeakyReLU,
    "elu": layers.ELU,
    "max": lambda: layers.MaxPooling2D(2, 1, "same"),
    "mean": lambda: layers.AveragePooling2D(2, padding="same"),
    "padding": lambda: layers.ZeroPadding2D(1),
    "cropping": lambda: layers.Cropping2D(1),
    "nearest": layers.UpSampling2D,
    "bilinear": lambda: layers.UpSampling2D(interpolation="bilinear"),
    "identity": layers.Identity,
    "noise off": lambda: layers.SpatialDropout2D(0.0),
    "noise on noise": lambda: layers.SpatialDropout2D(0.4),
    "normalized over places": lambda: layers.BatchNormalization(axis=1),
    "permuted": lambda: layers.Permute((2, 1, 3)),
}

MODELS = {
    f"{name} {where}": make
    for name, layer in _LAYERS.items()
    for where, make in zip(("before", "behind"), _around(layer), strict=True)
} | {
    "plain": network(_alone, _alone),
    "strides": network(
        _alone, _with(lambda: conv(18, "gelu", (2, 3), strides=(2, 1)), spatial)
    ),
    "dilation": network(
        _alone, _with(lambda: conv(18, "silu", 2, dilation_rate=2), spatial)
    ),
    "valid": network(
        _alone, _with(lambda: conv(18, None, 2, padding="valid"), spatial)
    ),
    "no bias": network(
        _alone, _with(lambda: conv(18, use_bias=False), spatial)
    ),
    "softmax of channels": network(_alone, _with(lambda: conv(18, "softmax"))),
    "own activation": network(
        _alone, _with(lambda: conv(18, lambda x: x + 1), spatial)
    ),
    "dense on places": network(
        _alone, _with(lambda: layers.Dense(20, "relu"), spatial)
    ),
    "groups": network(_alone, _with(lambda: conv(20, groups=4), spatial)),
    "few channels": network(_with(spatial), _with(lambda: conv(8), spatial)),
    "open sizes": network(_alone, _alone, shape=(None, None, 3)),
    **{
        make.__name__: make
        for make in (
            one_dimension,
            three_dimensions,
            flat_head,
            residual,
            merged,
            u_net,
            noise_on_joined,
            used_outside,
            noise_first,
            noise_of_any_shape,
            nested,
            twice,
            learned,
            transposed,
            depthwise,
            separable,
        )
    },
}
