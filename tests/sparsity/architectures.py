# SPDX-License-Identifier: Apache-2.0
"""Small models of many forms, and a generator of random ones."""

from typing import Any

import keras
import numpy as np

from tests.sparsity.fakes import Architecture
from tests.sparsity.fakes import Kit

layers = keras.layers
ALL: dict[str, Architecture] = {}


def member(make: Architecture) -> Architecture:
    ALL[make.__name__] = make
    return make


@member
def sequential(kit: Kit) -> Any:
    return keras.Sequential(
        [
            keras.Input((6,), name="x"),
            kit.dense(9, activation="relu", name="first"),
            kit.noise(name="noise"),
            layers.BatchNormalization(name="norm"),
            layers.Activation("tanh", name="act"),
            layers.Dropout(0.5, name="drop"),
            kit.dense(8, use_bias=False, name="second"),
            layers.LeakyReLU(name="leaky"),
            kit.dense(3, activation="softmax", name="last"),
        ],
        name="net",
    )


@member
def images(kit: Kit) -> Any:
    x = image = keras.Input((9, 8, 2), name="image")
    x = kit.conv2d(6, 3, padding="valid", name="c1")(x)
    x = layers.BatchNormalization(name="b1")(x)
    x = layers.ReLU(name="r1")(x)
    x = layers.MaxPooling2D(2, padding="same", name="p1")(x)
    x = kit.conv2d(7, 2, strides=2, activation="relu", name="c2")(x)
    x = layers.SpatialDropout2D(0.2, name="s2")(x)
    x = layers.Flatten(name="f")(x)
    x = kit.dense(6, activation="sigmoid", name="d1")(x)
    return keras.Model(image, kit.dense(2, name="d2")(x), name="images")


@member
def same_padding(kit: Kit) -> Any:
    x = image = keras.Input((7, 6, 2))
    x = kit.conv2d(8, 3, padding="same", activation="relu", name="c1")(x)
    x = kit.conv2d(8, 3, padding="same", activation="tanh", name="c2")(x)
    x = layers.AveragePooling2D(3, strides=2, padding="same")(x)
    x = kit.conv2d(8, 1, padding="same", activation="relu", name="c3")(x)
    x = kit.conv2d(8, 3, padding="same", strides=2, name="c4")(x)
    x = layers.ZeroPadding2D(1)(x)
    x = kit.conv2d(8, 3, padding="valid", activation="relu", name="c5")(x)
    x = layers.UpSampling2D(2)(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, kit.dense(2, name="d")(x))


@member
def series(kit: Kit) -> Any:
    x = steps = keras.Input((12, 3))
    x = kit.conv1d(6, 3, padding="causal", activation="relu", name="c1")(x)
    x = kit.conv1d(6, 3, dilation_rate=2, activation="relu", name="c2")(x)
    x = layers.MaxPooling1D(2)(x)
    x = kit.conv1d(6, 1, padding="causal", activation="relu", name="c3")(x)
    x = layers.Cropping1D(1)(x)
    x = kit.dense(5, activation="relu", name="each")(x)
    x = layers.GlobalMaxPooling1D()(x)
    return keras.Model(steps, kit.dense(2, name="d")(x))


@member
def residual(kit: Kit) -> Any:
    x = image = keras.Input((6, 6, 2))
    x = stem = kit.conv2d(5, 3, padding="same", activation="relu", name="s")(x)
    x = kit.conv2d(6, 3, padding="same", activation="relu", name="c1")(x)
    x = kit.conv2d(5, 3, padding="same", name="c2")(x)
    x = layers.Add()([x, stem])
    x = layers.Activation("relu")(x)
    y = kit.conv2d(5, 3, padding="valid", name="c3")(x)
    x = layers.Cropping2D(1)(x)
    x = layers.Subtract()([x, y])
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, kit.dense(2, name="d")(x))


@member
def merged(kit: Kit) -> Any:
    x = keras.Input((5,), name="a")
    y = keras.Input((4,), name="b")
    p = kit.dense(6, activation="relu", name="p")(x)
    q = kit.dense(6, activation="relu", name="q")(y)
    r = kit.dense(3, activation="relu", name="r")(y)
    joined = layers.Concatenate()([p, r, q])
    twice = layers.Add()([p, p])
    middle = layers.Average()([p, q, twice])
    most = layers.Maximum()([p, q])
    least = layers.Minimum()([layers.Multiply()([p, q]), middle])
    joined = layers.Concatenate()([joined, most, least, least])
    out = kit.dense(4, activation="relu", name="s")(joined)
    return keras.Model([x, y], kit.dense(2, name="t")(out))


@member
def two_heads(kit: Kit) -> Any:
    x = keras.Input((5,), name="x")
    h = kit.dense(8, activation="relu", name="trunk")(x)
    g = kit.dense(7, activation="elu", name="more")(h)
    mean = kit.dense(2, name="mean")(g)
    spread = kit.dense(2, activation="softplus", name="spread")(h)
    return keras.Model(
        {"x": x}, {"mean": mean, "spread": spread, "trunk": h}, name="heads"
    )


@member
def nested(kit: Kit) -> Any:
    y = keras.Input((6,))
    z = kit.dense(7, activation="relu", name="same_name")(y)
    z = layers.BatchNormalization(name="norm")(z)
    inner = keras.Model(y, z, name="inner")
    row = keras.Sequential(
        [
            keras.Input((7,)),
            kit.dense(7, activation="relu", name="same_name"),
            kit.dense(6, activation="relu", name="wide"),
        ],
        name="row",
    )
    x = keras.Input((6,), name="x")
    h = row(inner(x))
    h = kit.dense(4, activation="relu", name="same_name")(h)
    return keras.Model(x, kit.dense(1, name="out")(h), name="outer")


@member
def nested_twice(kit: Kit) -> Any:
    row = keras.Sequential(
        [
            keras.Input((6,)),
            kit.dense(7, activation="relu", name="u"),
            kit.dense(6, activation="relu", name="v"),
        ],
        name="row",
    )
    x = keras.Input((6,))
    h = row(row(x))
    h = kit.dense(4, activation="relu", name="w")(h)
    return keras.Model(x, kit.dense(1, name="out")(h))


@member
def shared(kit: Kit) -> Any:
    x, y = keras.Input((5,), name="x"), keras.Input((5,), name="y")
    tower = kit.dense(6, activation="relu", name="tower")
    act = layers.Activation("tanh", name="act")
    p = act(kit.dense(5, name="p")(tower(x)))
    q = act(kit.dense(4, name="q")(tower(y)))
    h = layers.Concatenate()([p, q])
    return keras.Model([x, y], kit.dense(2, name="out")(h))


@member
def reshaped(kit: Kit) -> Any:
    x = keras.Input((12,))
    h = kit.dense(6, activation="relu", name="a")(x)
    h = layers.RepeatVector(4)(h)
    h = layers.Reshape((2, 2, 6))(h)
    h = kit.conv2d(4, 2, padding="valid", activation="relu", name="b")(h)
    h = layers.UpSampling2D(2)(h)
    h = layers.Reshape((-1, 8), name="pairs")(h)
    h = kit.dense(5, activation="relu", name="c")(h)
    h = layers.Reshape((2, -1), name="rest")(h)
    h = kit.dense(6, activation="relu", name="d")(h)
    h = layers.Reshape((3, 4), name="split")(h)  # Splits channels.
    h = kit.dense(3, name="e")(h)
    return keras.Model(x, layers.Flatten()(h))


@member
def walls(kit: Kit) -> Any:
    """Layers without a flow of channels."""
    x = keras.Input((6, 5))
    h = kit.dense(8, activation="softmax", name="a")(x)
    h = kit.dense(8, activation="relu", name="b")(h)
    h = layers.LayerNormalization(name="norm")(h)
    h = kit.dense(8, activation="relu", name="c")(h)
    h = layers.Permute((2, 1))(h)
    h = kit.dense(8, activation="relu", name="d")(h)
    h = keras.ops.relu(h) + 1.0
    h = layers.Softmax()(kit.dense(8, name="e")(h))
    h = layers.DepthwiseConv1D(2, name="depth")(h)
    h = layers.BatchNormalization(axis=1, name="rows")(h)
    h = kit.conv1d(8, 2, groups=2, activation="relu", name="groups")(h)
    h = layers.Lambda(lambda t: t * 2.0)(h)
    h = kit.dense(8, name="f")(h)
    h = layers.Activation("softmax")(h)
    h = layers.PReLU(name="prelu")(kit.dense(8, name="g")(h))
    h = layers.SimpleRNN(4, name="rnn")(h)
    return keras.Model(x, kit.dense(2, name="out")(h))


@member
def wrapped(kit: Kit) -> Any:
    x = keras.Input((6, 5))
    h = kit.wrapped(layers.Dense(7, activation="relu", name="plain"), name="w")(
        x
    )
    h = layers.TimeDistributed(
        kit.dense(6, activation="relu", name="inside"), name="each"
    )(h)
    h = layers.Flatten()(h)
    h = kit.dense(5, activation="relu", name="d")(h)
    last = kit.wrapped(kit.dense(2, name="last"), name="answer")
    return keras.Model(x, kit.noise(name="end")(last(h)))


class _Random:
    """Grows a model from a seed, the same one for every kit."""

    def __init__(self, kit: Kit, seed: int) -> None:
        self.kit = kit
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def pick(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def weighted(self) -> dict[str, Any]:
        return {
            "use_bias": self.pick(True, True, False),
            "activation": self.pick("relu", "relu", "tanh", None, "softplus"),
        }

    def merge(self, kind: str, x: Any, seen: list[Any]) -> Any:
        alike = [t for t in seen if t.shape == x.shape]
        if not alike:
            return x
        cls = {"add": layers.Add, "join": layers.Concatenate}[kind]
        return cls(name=self.name(kind))([self.pick(*alike), x])

    def anywhere(self, kind: str, x: Any, seen: list[Any]) -> Any:
        if kind == "norm":
            return layers.BatchNormalization(name=self.name(kind))(x)
        if kind == "drop":
            return layers.Dropout(0.3, name=self.name(kind))(x)
        if kind == "act":
            function = self.pick("relu", "tanh", "sigmoid")
            return layers.Activation(function, name=self.name(kind))(x)
        return self.merge(kind, x, seen)

    def on_image(self, x: Any, seen: list[Any]) -> Any:
        kinds = ("conv", "conv", "conv", "norm", "pool", "act", "add", "join")
        kind = self.pick(*kinds)
        paddings = ("same", "valid") if min(x.shape[1:3]) > 3 else ("same",)
        if kind == "conv":
            conv = self.kit.conv2d(
                self.pick(4, 5),
                self.pick(1, 2, 3),
                strides=self.pick(1, 1, 2),
                padding=self.pick(*paddings),
                name=self.name(kind),
                **self.weighted(),
            )
            return conv(x)
        if kind == "pool":
            pool = self.pick(layers.MaxPooling2D, layers.AveragePooling2D)
            padding = self.pick(*paddings)
            return pool(2, 1, padding=padding, name=self.name(kind))(x)
        return self.anywhere(kind, x, seen)

    def on_vector(self, x: Any, seen: list[Any]) -> Any:
        kinds = ("dense", "dense", "norm", "drop", "act", "add", "join")
        kind = self.pick(*kinds)
        if kind == "dense":
            settings = self.weighted()
            units = self.pick(5, 6)
            return self.kit.dense(units, name=self.name(kind), **settings)(x)
        return self.anywhere(kind, x, seen)

    def model(self) -> Any:
        x = image = keras.Input((8, 7, 2), name="image")
        seen: list[Any] = []
        for _ in range(self.rng.integers(3, 9)):
            x = self.on_image(x, seen)
            seen.append(x)
        flat = self.pick(layers.Flatten, layers.GlobalAveragePooling2D)
        x = flat(name=self.name("flat"))(x)
        seen, heads = [], []
        for _ in range(self.rng.integers(2, 6)):
            x = self.on_vector(x, seen)
            seen.append(x)
            if self.pick(True, False, False):
                heads.append(self.kit.dense(2, name=self.name("head"))(x))
        heads.append(self.kit.dense(3, name="last")(x))
        return keras.Model(image, heads)


def random_architecture(seed: int) -> Architecture:
    """Returns an architecture that is drawn from a seed."""
    return lambda kit: _Random(kit, seed).model()
