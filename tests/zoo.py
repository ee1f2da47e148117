# SPDX-License-Identifier: Apache-2.0
"""Small models of every kind that people build, each with inputs for it.

A member is a function that returns a model and what to predict on. Weights
come from one fixed seed, and no output is saturated: noise that is drawn is
seen.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_bayesdrop import MCAlphaDropout
from keras_bayesdrop import MCDropout
from keras_bayesdrop import MCGaussianDropout
from keras_bayesdrop import MCSpatialDropout1D

layers = keras.layers
ops = keras.ops

ROWS = 5


@dataclasses.dataclass(frozen=True)
class Member:
    """A kind of model.

    Attributes:
        name: Name of the kind.
        make: Returns the model and its inputs.
        draws: How many tensors of noise one prediction draws.
        linear: Whether the mean over masks is the prediction without noise.
        like_training: Whether `model(x, training=True)` draws from the same
            distribution: the model has nothing but noise that trains.
        always_on: Whether noise is on in `model(x, training=False)` as well.
        rtol: Precision of its arithmetic.
        slow: Whether it is long to trace, and much like another member.
    """

    name: str
    make: Callable[[], tuple[Any, Any]]
    draws: int
    linear: bool = False
    like_training: bool = True
    always_on: bool = False
    rtol: float = 1e-5
    slow: bool = False

    def build(self) -> tuple[Any, Any]:
        """Returns the model and its inputs, the same ones every time."""
        keras.utils.set_random_seed(1)
        try:
            return self.make()
        finally:
            keras.config.set_dtype_policy("float32")


ZOO: dict[str, Member] = {}


def member(draws: int, **kwargs: Any) -> Callable[..., Any]:
    """Enters a function into the zoo."""

    def enter(make: Any) -> Any:
        ZOO[make.__name__] = Member(make.__name__, make, draws, **kwargs)
        return make

    return enter


def numbers(*shape: int, rows: int = ROWS, seed: int = 0) -> Any:
    """Returns float32 inputs of about unit size, none of them near zero."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.5, (rows, *shape)) * rng.choice(
        [-1, 1], (rows, *shape)
    )
    return x.astype("float32")


def tokens(length: int, rows: int = ROWS) -> Any:
    """Returns int32 tokens; 0 is padding, at the end of some rows."""
    x = np.random.default_rng(0).integers(1, 9, (rows, length), "int32")
    for row in range(1, rows):
        x[row, length - row % length :] = 0
    return x


def linear_dense(units: int, **kwargs: Any) -> Any:
    """Returns a Dense layer without activation, of clearly non-zero weights."""
    return layers.Dense(
        units,
        kernel_initializer=keras.initializers.RandomUniform(0.3, 0.9, seed=3),
        **kwargs,
    )


# Shapes of graphs.


@member(draws=1, linear=True)
def sequential():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="relu"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), numbers(4)


@member(draws=1, linear=True)
def sequential_built_by_call():
    model = keras.Sequential(
        [
            layers.Dense(6, activation="relu"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    )
    x = numbers(4)
    model(x)
    return model, x


@member(draws=2)
def functional():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.2)(inputs)
    x = layers.Dense(8, activation="tanh")(x)
    x = layers.Dropout(0.5)(x)
    return keras.Model(inputs, linear_dense(3)(x)), numbers(4)


@member(draws=3)
def nested_three_deep():
    def wrap(inner, width):
        inputs = keras.Input((4,))
        x = inner(inputs) if inner is not None else inputs
        x = layers.Dense(width, activation="tanh")(x)
        return keras.Model(inputs, layers.Dropout(0.4)(x))

    innermost = wrap(None, 4)
    middle = wrap(innermost, 4)
    sequence = keras.Sequential(
        [keras.Input((4,)), middle, layers.Dense(5), layers.Dropout(0.3)]
    )
    inputs = keras.Input((4,))
    return keras.Model(inputs, linear_dense(2)(sequence(inputs))), numbers(4)


@member(draws=2)
def two_inputs():
    a, b = keras.Input((3,)), keras.Input((2,))
    x = layers.Concatenate()([layers.Dropout(0.5)(a), layers.Dense(3)(b)])
    x = layers.Dropout(0.3)(layers.Dense(6, activation="tanh")(x))
    return keras.Model([a, b], linear_dense(2)(x)), [
        numbers(3),
        numbers(2, seed=1),
    ]


@member(draws=1)
def dict_inputs():
    a, b = keras.Input((3,), name="zebra"), keras.Input((2,), name="ant")
    x = layers.Concatenate()([layers.Dropout(0.5)(a), layers.Dense(3)(b)])
    model = keras.Model({"zebra": a, "ant": b}, linear_dense(2)(x))
    return model, {"zebra": numbers(3), "ant": numbers(2, seed=1)}


@member(draws=2)
def list_outputs():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(layers.Dense(6, activation="tanh")(inputs))
    first = linear_dense(2)(x)
    second = linear_dense(3)(layers.Dropout(0.5)(x))
    return keras.Model(inputs, [first, second]), numbers(4)


@member(draws=1)
def dict_outputs():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(layers.Dense(6, activation="tanh")(inputs))
    outputs = {"z": linear_dense(2)(x), "a": linear_dense(3)(x)}
    return keras.Model(inputs, outputs), numbers(4)


@member(draws=1)
def outputs_without_noise():
    inputs = keras.Input((4,))
    x = layers.Dense(6, activation="tanh")(inputs)
    y = linear_dense(2)(layers.Dropout(0.5)(x))
    return keras.Model(inputs, [y, x, inputs, y]), numbers(4)


@member(draws=2, linear=True)
def dropout_called_twice():
    inputs = keras.Input((4,))
    dropout = layers.Dropout(0.5)
    x = linear_dense(4)(dropout(inputs))
    return keras.Model(inputs, linear_dense(2)(dropout(x))), numbers(4)


@member(draws=2)
def model_called_twice():
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dropout(0.5)]
    )
    inputs = keras.Input((4,))
    x = inner(layers.Dense(4)(inner(inputs)))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


@member(draws=1)
def skip_connection():
    inputs = keras.Input((4,))
    x = layers.Dense(4, activation="tanh")(inputs)
    y = layers.Dropout(0.5)(x)
    x = layers.Add()([x, y, inputs])
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


@member(draws=1)
def functional_subclass():
    class Own(keras.Model):
        def __init__(self):
            inputs = keras.Input((4,))
            x = layers.Dense(6, activation="tanh")(inputs)
            x = layers.Dropout(0.5)(x)
            super().__init__(inputs, linear_dense(2)(x))

    return Own(), numbers(4)


# Models and layers with a `call` of their own.


class Block(layers.Layer):
    """Owns a Dropout under the name `dropout`, and calls it in a loop."""

    def __init__(self, units, repeats=1, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(units, activation="tanh")
        self.dropout = layers.Dropout(0.5)
        self.repeats = repeats

    def build(self, shape):
        self.dense.build(shape)
        self.built = True

    def call(self, x, training=None):
        for _ in range(self.repeats):
            x = self.dropout(self.dense(x), training=training)
        return x


class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = layers.Dense(6, activation="tanh")
        self.drop = layers.Dropout(0.5)
        self.head = linear_dense(2)

    def build(self, shape):
        self.hidden.build(shape)
        self.head.build((None, 6))
        self.built = True

    def call(self, x, training=None):
        x = self.drop(self.hidden(x), training=training)
        return self.head(x)


class SubclassedDeep(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [Block(4, repeats=2), Block(4)]
        self.inner = keras.Sequential(
            [keras.Input((4,)), layers.Dense(4), layers.Dropout(0.3)]
        )
        self.norm = layers.BatchNormalization()
        self.head = linear_dense(2)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(self.inner(x)))


class SubclassedDict(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)
        self.left = linear_dense(2)
        self.right = linear_dense(3)

    def call(self, inputs, training=None):
        # Keras 3.8 does not hand `training` on past a `call` without it.
        x = self.drop(inputs["b"], training=training)
        return {"z": self.left(x), "a": self.right(inputs["a"] + x)}


@member(draws=1)
def subclassed():
    model, x = Subclassed(), numbers(4)
    model(x)
    return model, x


@member(draws=1)
def subclassed_built_by_shape():
    model = Subclassed()
    model.build((None, 4))
    return model, numbers(4)


@member(draws=4, like_training=False)
def subclassed_deep():
    model, x = SubclassedDeep(), numbers(4)
    model(x)
    move_statistics(model)
    return model, x


@member(draws=1)
def subclassed_dict():
    model = SubclassedDict()
    x = {"b": numbers(4), "a": numbers(4, seed=1)}
    model(x)
    return model, x


@member(draws=4)
def layers_with_layers():
    return keras.Sequential(
        [keras.Input((4,)), Block(4, 3), Block(5), linear_dense(2)]
    ), numbers(4)


# Recurrent layers.


def recurrent(layer, time=4):
    return keras.Sequential(
        [keras.Input((time, 3)), layer, linear_dense(2)]
    ), numbers(4, 3)


@member(draws=8)
def lstm():
    return recurrent(layers.LSTM(3, dropout=0.3, recurrent_dropout=0.4))


@member(draws=6)
def gru():
    return recurrent(layers.GRU(3, dropout=0.3, recurrent_dropout=0.4))


@member(draws=2)
def simple_rnn():
    return recurrent(
        layers.SimpleRNN(
            3, dropout=0.3, recurrent_dropout=0.4, return_sequences=True
        )
    )


@member(draws=1)
def lstm_unrolled_backwards():
    return recurrent(
        layers.LSTM(3, dropout=0.5, unroll=True, go_backwards=True)
    )


@member(draws=4)
def lstm_of_any_length():
    return recurrent(layers.LSTM(3, recurrent_dropout=0.5), time=None)


@member(draws=10, slow=True)
def stacked_cells():
    cells = [
        layers.LSTMCell(3, dropout=0.3, recurrent_dropout=0.4),
        layers.GRUCell(2, dropout=0.5),
        layers.SimpleRNNCell(2, recurrent_dropout=0.5),
    ]
    return recurrent(layers.RNN(cells))


@member(draws=16)
def bidirectional():
    return recurrent(
        layers.Bidirectional(layers.LSTM(2, dropout=0.3, recurrent_dropout=0.4))
    )


@member(draws=8, slow=True)
def conv_lstm():
    return keras.Sequential(
        [
            keras.Input((3, 4, 2)),
            layers.ConvLSTM1D(2, 2, dropout=0.3, recurrent_dropout=0.3),
            layers.Flatten(),
            linear_dense(2),
        ]
    ), numbers(3, 4, 2)


@member(draws=6, slow=True)
def encoder_decoder():
    source, target = keras.Input((4, 3)), keras.Input((3, 3))
    _, *state = layers.LSTM(4, dropout=0.4, return_state=True)(source)
    x = layers.LSTM(4, recurrent_dropout=0.4, return_sequences=True)(
        target, initial_state=state
    )
    x = linear_dense(2)(layers.Dropout(0.2)(x))
    return keras.Model([source, target], x), [
        numbers(4, 3),
        numbers(3, 3, seed=1),
    ]


@member(draws=2)
def masked_lstm():
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(9, 3, mask_zero=True),
            layers.Dropout(0.5),
            layers.LSTM(3, dropout=0.3),
            linear_dense(2),
        ]
    ), tokens(4)


@member(draws=2, slow=True)
def masked_before_noise():
    """The mask crosses from what runs once to what runs per sample."""
    inputs = keras.Input((4,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(inputs)
    x = layers.LSTM(3, return_sequences=True)(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Bidirectional(layers.GRU(2))(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, linear_dense(2)(x)), tokens(4)


# Attention.


@member(draws=1)
def multi_head_attention():
    inputs = keras.Input((3, 4))
    x = layers.MultiHeadAttention(2, 3, dropout=0.4)(inputs, inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=1)
def cross_attention():
    query, value = keras.Input((2, 4)), keras.Input((3, 4))
    allowed = keras.Input((2, 3), dtype="bool")
    x, scores = layers.MultiHeadAttention(2, 3, dropout=0.4)(
        query=query,
        value=value,
        attention_mask=allowed,
        return_attention_scores=True,
    )
    visible = np.ones((ROWS, 2, 3), "bool")
    visible[:, 0, 1:] = False
    return keras.Model([query, value, allowed], [linear_dense(2)(x), scores]), [
        numbers(2, 4),
        numbers(3, 4, seed=1),
        visible,
    ]


@member(draws=1)
def grouped_query_attention():
    inputs = keras.Input((3, 4))
    x = layers.GroupQueryAttention(3, 4, 2, dropout=0.4)(inputs, inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=2)
def attention():
    query, value = keras.Input((2, 4)), keras.Input((3, 4))
    x = layers.Attention(dropout=0.4)([query, value])
    y = layers.AdditiveAttention(dropout=0.3)([query, value])
    return keras.Model([query, value], linear_dense(2)(x + y)), [
        numbers(2, 4),
        numbers(3, 4, seed=1),
    ]


@member(draws=3)
def transformer():
    inputs = keras.Input((3,), dtype="int32")
    x = layers.Embedding(9, 4)(inputs)
    x = x + np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    x = layers.Dropout(0.1)(x)
    y = layers.MultiHeadAttention(2, 2, dropout=0.2)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + y)
    y = layers.Dense(4)(layers.Dense(6, activation="gelu")(x))
    x = layers.LayerNormalization()(x + layers.Dropout(0.3)(y))
    return keras.Model(inputs, linear_dense(2)(x)), tokens(3)


# Layers around layers.


@member(draws=1, linear=True)
def time_distributed():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.TimeDistributed(layers.Dropout(0.5)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1)
def time_distributed_model():
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dropout(0.5)]
    )
    return keras.Sequential(
        [keras.Input((3, 4)), layers.TimeDistributed(inner), linear_dense(2)]
    ), numbers(3, 4)


@member(draws=1, like_training=False)
def time_distributed_any_length():
    # Keras maps over an open time axis; here it is moved into the batch.
    return keras.Sequential(
        [
            keras.Input((None, 4)),
            layers.TimeDistributed(layers.Dropout(0.5)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


# Kinds of noise.


@member(draws=1, linear=True)
def spatial_1d():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.SpatialDropout1D(0.5),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1, linear=True)
def spatial_2d():
    return keras.Sequential(
        [
            keras.Input((2, 2, 3)),
            layers.SpatialDropout2D(0.5),
            linear_dense(1),
        ]
    ), numbers(2, 2, 3)


@member(draws=1, linear=True)
def spatial_2d_channels_first():
    return keras.Sequential(
        [
            keras.Input((3, 2, 2)),
            layers.SpatialDropout2D(0.5, data_format="channels_first"),
            linear_dense(1),
        ]
    ), numbers(3, 2, 2)


@member(draws=1, linear=True)
def spatial_3d():
    return keras.Sequential(
        [
            keras.Input((2, 1, 2, 3)),
            layers.SpatialDropout3D(0.5),
            linear_dense(1),
        ]
    ), numbers(2, 1, 2, 3)


@member(draws=1, linear=True)
def gaussian_dropout():
    return keras.Sequential(
        [keras.Input((4,)), layers.GaussianDropout(0.4), linear_dense(2)]
    ), numbers(4)


@member(draws=1, linear=True)
def gaussian_noise():
    return keras.Sequential(
        [keras.Input((4,)), layers.GaussianNoise(0.7), linear_dense(2)]
    ), numbers(4)


@member(draws=1)
def alpha_dropout():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="selu"),
            layers.AlphaDropout(0.4),
            linear_dense(2),
        ]
    ), numbers(4)


@member(draws=1)
def alpha_dropout_with_shape():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.AlphaDropout(0.4, noise_shape=(None, 1, 4)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1, linear=True)
def noise_shape():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.Dropout(0.5, noise_shape=(None, 1, None)),
            linear_dense(2),
        ]
    ), numbers(3, 4)


@member(draws=1, linear=True, like_training=False)
def noise_shape_of_batch_one():
    # One mask for the whole batch: tiled rows are no separate draws.
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.5, noise_shape=(1, None)),
            linear_dense(2),
        ]
    ), numbers(4)


@member(draws=2, linear=True)
def stochastic_depth():
    inputs = keras.Input((2, 2, 3))
    x = inputs
    for _ in range(2):
        y = layers.Conv2D(3, 1)(x)
        x = x + layers.Dropout(0.3, noise_shape=(None, 1, 1, 1))(y)
    return keras.Model(inputs, linear_dense(1)(x)), numbers(2, 2, 3)


@member(draws=1)
def rate_zero():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.0),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            linear_dense(2),
            layers.GaussianNoise(0.0),
        ]
    ), numbers(4)


@member(draws=5, always_on=True)
def ours():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            MCSpatialDropout1D(0.2),
            layers.Dense(6, activation="tanh"),
            MCDropout(0.3),
            linear_dense(2),
            MCGaussianDropout(0.1),
            MCDropout(0.1, noise="gaussian"),
            MCAlphaDropout(0.1),
        ]
    ), numbers(3, 4)


# Operations in the graph.


@member(draws=1)
def operations():
    inputs = keras.Input((4,))
    x = ops.tanh(inputs * 2.0 + np.arange(4, dtype="float32"))
    x = layers.Dropout(0.5)(x)
    x = ops.concatenate([x, ops.square(x), ops.ones_like(inputs)], axis=-1)
    x = ops.stack([x[:, :6], x[:, 6:]], axis=1)
    return keras.Model(inputs, ops.sum(x, axis=2)), numbers(4)


@member(draws=1)
def lambdas():
    inputs = keras.Input((4,))
    x = layers.Lambda(lambda t: t * 2.0)(inputs)
    x = layers.Dropout(0.5)(x)
    x = layers.Lambda(lambda t: ops.sum(t, axis=-1, keepdims=True))(x)
    return keras.Model(inputs, x), numbers(4)


@member(draws=1, linear=True)
def time_folded_into_batch():
    """A graph that moves time into the batch axis, and back."""
    inputs = keras.Input((3, 4))
    x = ops.reshape(inputs, (-1, 4))
    x = layers.Dropout(0.5)(x)
    x = ops.reshape(x, (-1, 3, 4))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=2, linear=True)
def time_folded_after_noise():
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.2)(inputs)
    x = ops.reshape(x, (-1, 4))
    x = layers.Dropout(0.5)(x)
    x = ops.reshape(x, (-1, 3, 4))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


class FoldsTime(layers.Layer):
    """Runs a Dropout on [batch * time, features]."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.drop = layers.Dropout(0.5)

    def call(self, x):
        flat = self.drop(ops.reshape(x, (-1, x.shape[-1])))
        return ops.reshape(flat, (-1, *x.shape[1:]))


@member(draws=1, linear=True)
def time_folded_inside_a_layer():
    return keras.Sequential(
        [keras.Input((3, 4)), FoldsTime(), linear_dense(2)]
    ), numbers(3, 4)


@member(draws=1, linear=True)
def dense_on_rank_three():
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.Dense(5, activation="relu"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), numbers(3, 4)


class Positions(layers.Layer):
    """Returns its weights, which have no batch axis: [1, time, features]."""

    def build(self, shape):
        self.table = self.add_weight(
            shape=(1, *shape[1:]), initializer="random_normal", name="table"
        )

    def call(self, x):
        return ops.convert_to_tensor(self.table)

    def compute_output_shape(self, shape):
        return (1, *shape[1:])


@member(draws=1)
def positions():
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.5)(inputs) + Positions()(inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


@member(draws=1, like_training=False)
def noise_on_positions():
    inputs = keras.Input((3, 4))
    x = inputs + layers.Dropout(0.5)(Positions()(inputs))
    return keras.Model(inputs, linear_dense(2)(x)), numbers(3, 4)


# What must not train.


def move_statistics(model: Any) -> None:
    """Gives every BatchNormalization statistics worth keeping."""
    rng = np.random.default_rng(5)
    for layer in model._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            shape = layer.moving_mean.shape
            layer.moving_mean.assign(rng.normal(size=shape))
            layer.moving_variance.assign(rng.uniform(0.5, 2, shape))


@member(draws=1, like_training=False)
def batch_norm():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.BatchNormalization(),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            layers.BatchNormalization(),
            linear_dense(2),
        ]
    )
    move_statistics(model)
    return model, numbers(4)


@member(draws=1, like_training=False)
def batch_norm_told_to_train():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(inputs)
    x = layers.BatchNormalization()(x, training=True)
    model = keras.Model(inputs, linear_dense(2)(x))
    move_statistics(model)
    return model, numbers(4)


@member(draws=1, linear=True)
def dropout_told_to_train():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(inputs, training=True)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


class Penalty(layers.Layer):
    def call(self, x):
        self.add_loss(1e-3 * ops.mean(ops.square(x)))
        return x


@member(draws=1)
def losses():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, "tanh", activity_regularizer="l2"),
            Penalty(),
            layers.Dropout(0.5),
            layers.Dense(2, activity_regularizer="l1", kernel_regularizer="l2"),
            layers.ActivityRegularization(0.1),
        ]
    ), numbers(4)


# Shapes, types, and what comes before the network.


@member(draws=1, linear=True)
def fixed_batch_size():
    inputs = keras.Input((4,), batch_size=ROWS)
    x = layers.Dropout(0.5)(inputs)
    return keras.Model(inputs, linear_dense(2)(x)), numbers(4)


@member(draws=2, rtol=1e-12)
def double_precision():
    keras.config.set_dtype_policy("float64")
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            layers.GaussianDropout(0.1),
            layers.Dense(2),
        ]
    ), numbers(4)


@member(draws=2, rtol=2e-3)
def half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dropout(0.2),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(2, dtype="float32"),
        ]
    ), numbers(4)


@member(draws=1, rtol=2e-3)
def half_precision_to_the_end():
    keras.config.set_dtype_policy("mixed_float16")
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(3), layers.Dropout(0.5)]
    ), numbers(4)


@member(draws=2, like_training=False)
def conv_net():
    inputs = keras.Input((6, 6, 2))
    x = layers.Rescaling(0.5)(inputs)
    for filters in (3, 4):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.SpatialDropout2D(0.2)(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.5)(x)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))
    move_statistics(model)
    return model, numbers(6, 6, 2)


@member(draws=1)
def preprocessing():
    x = numbers(4)
    normalization = layers.Normalization()
    normalization.adapt(x)
    return keras.Sequential(
        [
            keras.Input((4,)),
            normalization,
            layers.Rescaling(2.0, offset=1.0),
            layers.Dense(6, activation="tanh"),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), x


@member(draws=1)
def token_average():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(9, 4, mask_zero=True),
            layers.SpatialDropout1D(0.4),
            layers.GlobalAveragePooling1D(),
            linear_dense(2),
        ]
    ), tokens(4)


@member(draws=1)
def one_feature_without_its_axis():
    return keras.Sequential(
        [
            keras.Input((1,)),
            linear_dense(6),
            layers.Dropout(0.5),
            linear_dense(2),
        ]
    ), numbers(1)[:, 0]


# What a model is, down to the last bit.


def fingerprint(model: Any) -> dict[str, Any]:
    """Returns everything of a model that looking at it must not change."""
    found: dict[str, Any] = {}
    for number, layer in enumerate([model, *model._flatten_layers(False)]):
        where = f"{number} {layer.name}"
        found[f"{where} attributes"] = sorted(vars(layer))
        found[f"{where} trainable"] = (layer.trainable, layer.built)
        found[f"{where} nodes"] = (
            len(layer._inbound_nodes),
            len(layer._outbound_nodes),
        )
        found[f"{where} output"] = _output_of(layer)
        found[f"{where} own losses"] = len(layer._losses)
        for index, variable in enumerate(layer.variables):
            found[f"{where} variable {index}"] = _bits(variable)
    found["losses"] = [_bits(loss) for loss in model.losses]
    found["stop"] = getattr(model, "stop_predicting", "never set")
    return found


def outputs_of(model: Any, x: Any) -> list[bytes]:
    """Returns the bits of what a model predicts in inference mode."""
    outputs = model(x, training=False)
    return [_bits(value) for value in keras.tree.flatten(outputs)]


def _bits(value: Any) -> bytes:
    return keras.ops.convert_to_numpy(value).tobytes()


def _output_of(layer: Any) -> str:
    try:
        return str(keras.tree.map_structure(lambda t: t.shape, layer.output))
    except (AttributeError, ValueError) as error:
        return str(error)
