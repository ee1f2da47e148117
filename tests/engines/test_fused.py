# SPDX-License-Identifier: Apache-2.0
"""The fused engine: what it fuses, and that it predicts as the reference does.

Samples of both engines agree up to the rounding of float32 sums, 1e-5 of the
largest; where only the fused engine runs, they agree bit for bit.
"""

import gc
import os
import subprocess
import sys
import weakref

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests import zoo
from tests.helpers import flat

problem = op_library.library().problem
needs_library = pytest.mark.skipif(bool(problem), reason=problem)

layers = keras.layers
MASKS = ("shared", "independent")
ROWS, SAMPLES = 5, 7


def sequential(*stack, shape=(6,), dtype=None):
    return keras.Sequential([keras.Input(shape, dtype=dtype), *stack])


def moved(model):
    """Gives a model biases, and statistics, that are not those of a new one."""
    rng = np.random.default_rng(3)
    for layer in model._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.set_weights(
                [rng.uniform(0.5, 2.0, w.shape) for w in layer.get_weights()]
            )
        elif isinstance(layer, layers.Dense) and layer.bias is not None:
            layer.bias.assign(rng.normal(size=layer.bias.shape))
    return model


def predict(model, x, engine, num_samples=SAMPLES, **kwargs):
    """Returns the prediction of every output."""
    predicted = kbd.predict_with_uncertainty(
        model,
        x,
        num_samples,
        return_samples=True,
        verbose=0,
        **flat(engine=engine, **{"seed": 3, **kwargs}),
    )
    return keras.tree.flatten(predicted)


def samples(model, x, engine, num_samples=SAMPLES, **kwargs):
    """Returns the samples of every output, [samples, rows, ...]."""
    predicted = predict(model, x, engine, num_samples, **kwargs)
    return [each.samples for each in predicted]


def assert_close(actual, desired, rtol=1e-5):
    assert len(actual) == len(desired)
    for one, other in zip(actual, desired, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape and one.dtype == other.dtype
        scale = max(np.abs(other).max(), 1e-30)
        np.testing.assert_allclose(one, other, rtol=0, atol=rtol * scale)


def assert_same(actual, desired):
    for one, other in zip(actual, desired, strict=True):
        np.testing.assert_array_equal(one, other)


def draws(num_rows=ROWS, shared=False, **kwargs):
    settings = {
        "seed": tf.constant(5, tf.uint64),
        "first_sample": 14,
        "num_samples": 4,
        "num_blocks": 2,
        "first_row": 3,
        "num_rows": num_rows,
        "shared": shared,
        **kwargs,
    }
    return Draws(**settings)


def run(engine, plan, x, drawn):
    """Runs a plan eagerly, which needs no trace."""
    cut = engine.run_prefix(plan, plan.flatten(x))
    return [np.asarray(y) for y in engine.run_suffix(plan, cut, drawn)]


def assert_engines_agree(model, x, rtol=1e-5, **kwargs):
    """Asserts that both engines draw the same samples, for both masks."""
    plan = build_plan(model, kwargs.get("layers"), input_data.specs_of(x))
    fused, _ = choose_engine(plan, "fused")
    for shared in (True, False):
        desired = run(Reference(), plan, x, draws(shared=shared))
        actual = run(fused, plan, x, draws(shared=shared))
        assert_close(actual, desired, rtol)
        first = keras.tree.flatten(desired)[0]
        assert first.reshape(ROWS, 4, -1).std(axis=1).max() > 0


def engines_of(model, **kwargs):
    """Returns, per path, the engine that runs it and why."""
    explained = kbd.explain(model, **kwargs)
    return {step.path: (step.engine, step.reason) for step in explained.steps}


def fused_paths(model, **kwargs):
    assigned = engines_of(model, engine="fused", **kwargs)
    return [path for path, (engine, _) in assigned.items() if engine == "fused"]


# Models of the zoo.

# How many steps of each are in chains. A model that is not here has none.
IN_CHAINS = {
    "sequential": 2,
    "sequential_built_by_call": 2,
    "functional": 4,
    "nested_three_deep": 6,
    "two_inputs": 3,
    "list_outputs": 2,
    "outputs_without_noise": 2,
    "dropout_called_twice": 4,
    "model_called_twice": 5,
    "functional_subclass": 2,
    "encoder_decoder": 2,
    "masked_before_noise": 2,
    "spatial_1d": 2,
    "spatial_2d": 2,
    "spatial_3d": 2,
    "gaussian_dropout": 2,
    "noise_shape": 2,
    "rate_zero": 3,
    "ours": 4,
    "dense_on_rank_three": 2,
    "batch_norm": 3,
    "batch_norm_told_to_train": 3,
    "dropout_told_to_train": 2,
    "losses": 3,
    "fixed_batch_size": 2,
    "double_precision": 2,
    "conv_net": 2,
    "preprocessing": 2,
    "one_feature_without_its_axis": 2,
}
SLOW = {name for name, member in zoo.ZOO.items() if member.slow}
# Long to trace, with their noise inside of layers.
INSIDE = {
    *("lstm", "gru", "simple_rnn", "lstm_unrolled_backwards", "masked_lstm"),
    *("lstm_of_any_length", "bidirectional", "multi_head_attention"),
    *("cross_attention", "grouped_query_attention", "attention"),
    *("transformer", "subclassed_deep"),
}


@pytest.mark.parametrize("name", sorted(zoo.ZOO.keys() - SLOW - INSIDE))
def test_what_of_the_zoo_is_in_chains(name):
    """Known without the library, and nothing is lost unseen."""
    model, x = zoo.ZOO[name].build()
    plan = build_plan(model, example=input_data.specs_of(x))
    inside = sum(not why for why in plan.fusion.why_not)
    assert inside == IN_CHAINS.get(name, 0)


@needs_library
@pytest.mark.parametrize("name", sorted(IN_CHAINS.keys() - SLOW))
def test_zoo(name):
    member = zoo.ZOO[name]
    model, x = member.build()
    for masks in MASKS if name in ("functional", "ours") else MASKS[1:]:
        predicted = predict(model, x, "fused", masks=masks)
        assert_close(
            [each.samples for each in predicted],
            samples(model, x, "reference", masks=masks),
            member.rtol,
        )
    steps = predicted[0].stats.engine
    inside = [step for step in steps if step.engine == "fused"]
    assert len(inside) == IN_CHAINS[name]
    assert {step.reason for step in inside} == {"dense chain"}
    told = kbd.explain(model, engine="fused")
    assert [(step.engine, step.reason) for step in told.steps] == [
        (step.engine, step.reason) for step in steps
    ]
    # Left to itself the library is used, where there is no GPU.
    if not tf.config.list_physical_devices("GPU"):
        assert kbd.explain(model) == told


@needs_library
@pytest.mark.parametrize("name", ["functional", "ours", "batch_norm"])
def test_without_draws_is_inference(name):
    model, x = zoo.ZOO[name].build()
    plan = build_plan(model)
    fused, _ = choose_engine(plan, "fused")
    (actual,) = run(fused, plan, tf.constant(x), None)
    if not zoo.ZOO[name].always_on:
        np.testing.assert_allclose(actual, model(x, training=False), rtol=1e-5)
    assert_close([actual], run(Reference(), plan, tf.constant(x), None))


# Kinds of models.


def conv_head():
    return moved(
        sequential(
            layers.Conv2D(3, 3, activation="relu", name="conv"),
            layers.MaxPooling2D(name="pool"),
            layers.Flatten(name="flat"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(9, "relu", name="hidden"),
            layers.Dropout(0.5, name="drop2"),
            layers.Dense(3, "softmax", name="head"),
            shape=(6, 6, 2),
        )
    ), zoo.numbers(6, 6, 2)


def flatten_after_noise():
    return moved(
        sequential(
            layers.Conv2D(3, 3, name="conv"),
            layers.Dropout(0.3, name="drop"),
            layers.Flatten(name="flat"),
            layers.Dense(4, "tanh", name="head"),
            shape=(4, 5, 2),
        )
    ), zoo.numbers(4, 5, 2)


def flatten_inside():
    """Noise before a convolution: the chain begins with samples apart."""
    return moved(
        sequential(
            layers.SpatialDropout2D(0.3, name="noise"),
            layers.Conv2D(3, 3, name="conv"),
            layers.Flatten(name="flat"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(4, "tanh", name="head"),
            shape=(4, 5, 2),
        )
    ), zoo.numbers(4, 5, 2)


def activation_layers():
    return moved(
        sequential(
            layers.Dropout(0.2, name="a"),
            layers.Dense(9, name="b"),
            layers.Activation("gelu", name="c"),
            layers.Dense(8, name="d"),
            layers.LeakyReLU(negative_slope=0.2, name="e"),
            layers.GaussianDropout(0.2, name="f"),
            layers.Dense(7, name="g"),
            layers.ELU(name="h"),
            layers.Dense(4, name="i"),
            layers.Softmax(name="j"),
        )
    ), zoo.numbers(6)


def normalizations():
    return moved(
        sequential(
            layers.Dropout(0.2, name="a"),
            layers.BatchNormalization(name="b"),
            layers.Dense(9, name="c"),
            layers.BatchNormalization(name="d"),
            layers.ReLU(name="e"),
            layers.BatchNormalization(name="f"),
            layers.Dense(8, use_bias=False, name="g"),
            layers.BatchNormalization(scale=False, name="h"),
            layers.Dropout(0.5, name="i"),
            layers.Dense(2, name="j"),
        )
    ), zoo.numbers(6)


def normalization_before_noise():
    return moved(
        sequential(
            layers.Dropout(0.2, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.BatchNormalization(name="c"),
            layers.Dropout(0.5, name="d"),
            layers.Dense(2, name="e"),
        )
    ), zoo.numbers(6)


def sequences():
    return moved(
        sequential(
            layers.SpatialDropout1D(0.3, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.Dropout(0.4, name="c"),
            layers.Dense(8, name="d"),
            layers.GaussianDropout(0.3, name="e"),
            layers.Dense(2, name="f"),
            shape=(7, 6),
        )
    ), zoo.numbers(7, 6)


def open_sequences():
    return moved(
        sequential(
            layers.Dropout(0.4, name="a"),
            layers.Dense(8, "tanh", name="b"),
            layers.SpatialDropout1D(0.3, name="c"),
            layers.Dense(2, name="d"),
            shape=(None, 6),
        )
    ), zoo.numbers(7, 6)


def images():
    return moved(
        sequential(
            layers.Dropout(0.4, name="a"),
            layers.Dense(8, "tanh", name="b"),
            layers.SpatialDropout2D(0.3, name="c"),
            layers.Dense(2, name="d"),
            shape=(3, 2, 6),
        )
    ), zoo.numbers(3, 2, 6)


def nested():
    inner = sequential(
        layers.Dropout(0.3, name="a"), layers.Dense(5, "relu", name="b")
    )
    inner.name = "inner"
    inputs = keras.Input((6,))
    x = layers.Dropout(0.3, name="c")(inner(inputs))
    return moved(keras.Model(inputs, layers.Dense(2, name="d")(x))), (
        zoo.numbers(6)
    )


def branches():
    """One value is used by two chains, by a sum, and as an output."""
    inputs = keras.Input((6,))
    x = layers.Dense(6, "tanh", name="a")(inputs)
    left = layers.Dropout(0.3, name="b")(x)
    left = layers.Dense(6, "relu", name="c")(left)
    right = layers.GaussianDropout(0.3, name="d")(x)
    right = layers.Dense(6, "relu", name="e")(right)
    y = layers.Add(name="f")([left, right, x])
    z = layers.Dense(2, name="h")(layers.Dropout(0.5, name="g")(y))
    w = layers.Dense(3, name="j")(layers.Dropout(0.5, name="i")(y))
    return moved(keras.Model(inputs, [z, w, y, x])), zoo.numbers(6)


def input_that_is_folded_already():
    """A sum repeats the input for every sample before the chain takes it."""
    inputs = keras.Input((6,))
    x = layers.Dense(6, "tanh", name="a")(inputs)
    y = layers.Add(name="c")([layers.Dropout(0.3, name="b")(x), x])
    for name in "defg":
        y = layers.LayerNormalization(name=name)(y)
    z = layers.Dropout(0.5, name="h")(x)
    z = layers.Dense(6, "relu", name="i")(z)
    return moved(keras.Model(inputs, layers.Add(name="j")([y, z]))), (
        zoo.numbers(6)
    )


def noise_used_twice():
    inputs = keras.Input((6,))
    x = layers.Dropout(0.3, name="a")(inputs)
    y = layers.Dense(6, "relu", name="b")(x)
    z = layers.Dense(6, name="d")(layers.Dropout(0.5, name="c")(y))
    return moved(keras.Model(inputs, layers.Add(name="e")([x, z]))), (
        zoo.numbers(6)
    )


def shared_layers():
    inputs = keras.Input((6,))
    drop = layers.Dropout(0.3, name="drop")
    dense = layers.Dense(6, "tanh", name="dense")
    x = dense(drop(dense(drop(inputs))))
    return moved(keras.Model(inputs, x)), zoo.numbers(6)


def chain_in_the_middle():
    inputs = keras.Input((6,))
    x = layers.GaussianNoise(0.5, name="noise")(inputs)
    x = layers.LayerNormalization(name="norm")(x)
    x = layers.Dropout(0.1, name="a")(x)
    x = layers.Dense(8, "relu", name="b")(x)
    x = layers.Dropout(0.5, name="c")(x)
    x = layers.Dense(4, name="d")(x)
    x = layers.LayerNormalization(name="norm2")(x)
    return moved(keras.Model(inputs, x)), zoo.numbers(6)


def sequences_in_the_middle():
    inputs = keras.Input((None, 6))
    x = layers.SpatialDropout1D(0.5, name="noise")(inputs)
    x = layers.LayerNormalization(name="norm")(x)
    x = layers.Dropout(0.1, name="a")(x)
    x = layers.Dense(8, "relu", name="b")(x)
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    return moved(keras.Model(inputs, x)), zoo.numbers(7, 6)


def with_adapter():
    model = moved(
        sequential(
            layers.Dropout(0.3, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.Dropout(0.5, name="c"),
            layers.Dense(3, name="d"),
        )
    )
    model.get_layer("b").enable_lora(2)
    model.get_layer("b").lora_kernel_b.assign(np.ones((2, 9)))
    return model, zoo.numbers(6)


def in_float64():
    keras.config.set_dtype_policy("float64")
    model = moved(
        sequential(
            layers.Dropout(0.3, name="a"),
            layers.Dense(9, "relu", name="b"),
            layers.BatchNormalization(name="c"),
            layers.Dense(8, "tanh", name="d"),
            layers.GaussianDropout(0.5, name="e"),
            layers.Dense(3, name="f"),
            dtype="float64",
        )
    )
    return model, zoo.numbers(6).astype("float64")


# Per model, the paths that are in chains, and what is said of some others.
KINDS = {
    conv_head: ("drop hidden drop2 head", {}),
    flatten_after_noise: ("drop flat head", {}),
    flatten_inside: ("flat drop head", {"conv": "Conv2D is not part"}),
    activation_layers: ("a b c d e f g h i j", {}),
    normalizations: ("a b c d e f g h i j", {}),
    normalization_before_noise: ("a b d e", {"c": "noise between"}),
    sequences: ("a b c d e f", {}),
    open_sequences: ("a b c d", {}),
    images: ("a b c d", {}),
    nested: ("inner/a inner/b c d", {}),
    branches: (
        "b c d e g h i j",
        {"f": "Add", "a": "no noise reaches it"},
    ),
    input_that_is_folded_already: ("h i", {"b": "Add does not have one"}),
    noise_used_twice: ("b c d", {"a": "used more than once"}),
    shared_layers: ("drop dense", {}),
    chain_in_the_middle: ("a b c d", {"norm": "LayerNormalization is not"}),
    sequences_in_the_middle: ("a b", {"pool": "GlobalAveragePooling1D"}),
    with_adapter: ("a b c d", {}),
    in_float64: ("a b c d e f", {}),
}
every_kind = pytest.mark.parametrize(
    "make", KINDS, ids=lambda make: make.__name__
)


@needs_library
@every_kind
def test_kind(make):
    model, x = make()
    rtol = 1e-13 if make is in_float64 else 1e-5
    assert_engines_agree(model, x, rtol)
    paths, said = KINDS[make]
    assert sorted(fused_paths(model)) == sorted(paths.split())
    told = engines_of(model, engine="fused")
    for path, reason in said.items():
        assert told[path][0] == "reference"
        assert reason in told[path][1]


@needs_library
@pytest.mark.parametrize(
    "make",
    [conv_head, normalizations, sequences, sequences_in_the_middle],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("masks", MASKS)
def test_prediction_in_pieces(make, masks):
    """Compiled, in tiles of rows and blocks of samples."""
    model, x = make()
    desired = samples(model, x, "reference", 40, masks=masks)
    whole = samples(model, x, "fused", 40, masks=masks)
    assert_close(whole, desired)
    pieces = samples(model, x, "fused", 40, masks=masks, batch_size=2)
    few = samples(model, x, "fused", 18, masks=masks)
    if make in (normalizations, sequences):
        assert_same(pieces, whole)
        assert_same(few, [each[:18] for each in whole])
    else:
        # TensorFlow's own steps round differently in other batches.
        assert_close(pieces, whole)
        assert_close(few, [each[:18] for each in whole])


@needs_library
@pytest.mark.parametrize("masks", MASKS)
def test_batch_size_changes_no_bit(masks):
    """More rows than a tile, more samples than a block."""
    model = moved(
        sequential(
            layers.Dropout(0.2),
            layers.Dense(59, "relu"),
            layers.Dropout(0.5),
            layers.Dense(97, "tanh"),
            layers.Dropout(0.5),
            layers.Dense(3, "softmax"),
            shape=(33,),
        )
    )
    x = zoo.numbers(33, rows=130)
    whole = samples(model, x, "fused", 33, masks=masks)
    for batch_size in (1, 16, 100, 10_000):
        pieces = samples(
            model, x, "fused", 33, masks=masks, batch_size=batch_size
        )
        assert_same(pieces, whole)
    stream = tf.data.Dataset.from_tensor_slices(x).batch(50)
    assert_same(samples(model, stream, "fused", 33, masks=masks), whole)
    assert_close(samples(model, x, "reference", 33, masks=masks), whole)


@needs_library
def test_sample_function_is_that_sample():
    model, x = normalizations()
    (whole,) = samples(model, x, "reference", 20)
    for number in (0, 17):
        function = kbd.sample_function(model, 3, number)
        assert_close([np.asarray(function(x))], [whole[number]])


@needs_library
def test_sequences_of_other_lengths():
    model, _ = open_sequences()
    for length in (1, 4, 9):
        x = zoo.numbers(length, 6)
        assert_engines_agree(model, x)
        assert_close(samples(model, x, "fused"), samples(model, x, "reference"))


class Pools(layers.Layer):
    """Has no argument for a mask, and a layer inside that looks for one."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.pool = layers.GlobalAveragePooling1D()

    def call(self, x):
        return self.pool(x)


@needs_library
@pytest.mark.parametrize("noise", [layers.Dropout, layers.SpatialDropout1D])
def test_keras_masks_survive(noise):
    """A mask made before the chain steers what comes after it."""
    inputs = keras.Input((None,), dtype="int32")
    x = layers.Embedding(9, 6, mask_zero=True)(inputs)
    x = noise(0.4, name="a")(x)
    x = layers.Dense(5, "tanh", name="b")(x)
    average = layers.GlobalAveragePooling1D()(x)
    inside = Pools()(x)
    x = layers.Dropout(0.2, name="c")(x)
    x = layers.Dense(4, "tanh", name="d")(x)
    last = layers.LSTM(3)(x)
    model = moved(keras.Model(inputs, [average, last, inside]))
    x = zoo.tokens(4)
    assert set("abcd") <= set(fused_paths(model))
    assert_engines_agree(model, x)
    fused = samples(model, x, "fused", masks="independent")
    assert_close(fused, samples(model, x, "reference", masks="independent"))
    # Without the mask it would be another prediction.
    seen = model(x, training=False)
    full = np.where(x == 0, 1, x)
    assert np.abs(seen[0] - model(full, training=False)[0]).max() > 0.01


# What is not fused.


class Doubled(layers.Dense):
    def call(self, x):
        return 2 * super().call(x)


def own_activation(x):
    return keras.ops.relu(x) + 1


NOT_FUSED = {
    "subclass": (lambda: [layers.Dropout(0.5), Doubled(2)], "Doubled"),
    "own activation": (
        lambda: [layers.Dropout(0.5), layers.Dense(2, own_activation)],
        "own_activation",
    ),
    "alpha": (
        lambda: [layers.AlphaDropout(0.5), layers.Dense(2)],
        "alpha.*not compiled",
    ),
    "no Dense": (lambda: [layers.Dropout(0.5)], "no Dense"),
    "added": (
        lambda: [layers.GaussianNoise(0.5), layers.Dense(2)],
        "added Gaussian",
    ),
    "half precision": (
        lambda: [
            layers.Dense(4, dtype="mixed_float16"),
            layers.Dropout(0.5, dtype="mixed_float16"),
            layers.Dense(2, dtype="mixed_float16"),
        ],
        "computes in float16",
    ),
    "one mask for all rows": (
        lambda: [layers.Dropout(0.5, noise_shape=(1, 6)), layers.Dense(2)],
        "noise of shape",
    ),
}


@pytest.mark.parametrize("name", NOT_FUSED)
def test_not_fused(name):
    make, reason = NOT_FUSED[name]
    if name == "half precision" and problem:
        # A chain, but for the library that it would need.
        reason = "library"
    model, x = sequential(*make()), zoo.numbers(6)
    for predict in (
        lambda: samples(model, x, "fused"),
        lambda: kbd.explain(model, engine="fused"),
        lambda: choose_engine(build_plan(model), "fused"),
    ):
        with pytest.raises(
            EngineUnavailableError,
            match=f"(?s)fused engine cannot run.*{reason}"
            "(?s:.*)Expected engine='auto'.*Received: engine='fused'",
        ):
            predict()
    assert_same(samples(model, x, "auto"), samples(model, x, "reference"))
    told = kbd.explain(model).steps
    assert {step.engine for step in told} == {"reference"}


@needs_library
def test_reasons_are_given_step_by_step():
    model = sequential(
        layers.Dropout(0.5, name="a"),
        layers.Dense(5, "relu", name="b"),
        layers.AlphaDropout(0.5, name="c"),
        Doubled(5, name="d"),
        layers.Dense(5, own_activation, name="e"),
        layers.Dropout(0.5, name="f"),
        layers.Dense(2, name="g"),
    )
    told = engines_of(model, engine="fused")
    for path in "abfg":
        assert told[path] == ("fused", "dense chain")
    assert told["c"] == ("reference", "alpha, rate 0.5 is not compiled")
    assert "Doubled" in told["d"][1]
    assert "own_activation" in told["e"][1]
    assert_engines_agree(model, zoo.numbers(6))
    table = str(kbd.explain(model, engine="fused"))
    assert "dense chain" in table and "not compiled" in table


@needs_library
@pytest.mark.parametrize("first", ["float32", "float64"])
@pytest.mark.parametrize("second", ["float32", "float64"])
def test_dtypes_that_change_on_the_way(first, second):
    """Keras converts between layers, whatever of them is fused."""
    model = sequential(
        layers.Dropout(0.5, dtype=first),
        layers.Dense(5, "relu", dtype=second),
        layers.Dropout(0.5, dtype=second),
        layers.Dense(4, "relu", dtype=first),
        layers.Dropout(0.5, dtype=first),
        layers.Dense(2, dtype=first),
        dtype=first,
    )
    x = zoo.numbers(6).astype(first)
    assert_close(samples(model, x, "auto"), samples(model, x, "reference"))


def test_library_switched_off():
    program = """
import keras
import numpy as np
import keras_bayesdrop as kbd
model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5),
                          keras.layers.Dense(2)])
x = np.ones((4, 3), "float32")
p = kbd.predict_with_uncertainty(model, x, 5, seed=1, verbose=0)
assert {step.engine for step in p.stats.engine} == {"reference"}
assert all("KBD_LIBRARY" in step.reason for step in p.stats.engine), p.stats
try:
    fused = kbd.Sampling(engine="fused")
    kbd.predict_with_uncertainty(model, x, 5, method=fused, verbose=0)
except kbd.BayesdropError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KBD_LIBRARY": "off", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("EngineUnavailableError The fused engine")
    for beat in ("cannot run", "KBD_LIBRARY=off", "Expected", "Received"):
        assert beat in done.stdout


# Models that change.


@needs_library
def test_weights_that_change_between_calls():
    model, x = normalizations()
    model.compile("sgd", "mse")
    before = samples(model, x, "fused")
    model.fit(x, np.ones((ROWS, 2)), epochs=2, verbose=0)
    fitted = samples(model, x, "fused")
    assert_close(fitted, samples(model, x, "reference"))
    assert np.abs(fitted[0] - before[0]).max() > 1e-3
    model.set_weights([weight * 1.5 for weight in model.get_weights()])
    set_anew = samples(model, x, "fused")
    assert_close(set_anew, samples(model, x, "reference"))
    assert np.abs(set_anew[0] - fitted[0]).max() > 1e-3
    model.get_layer("b").moving_mean.assign(np.full(6, 3.0))
    shifted = samples(model, x, "fused")
    assert_close(shifted, samples(model, x, "reference"))
    assert np.abs(shifted[0] - set_anew[0]).max() > 1e-3


@needs_library
def test_layers_that_change_between_calls():
    model, x = normalizations()
    before = samples(model, x, "fused")
    for change in (
        lambda: setattr(model.get_layer("a"), "rate", 0.6),
        lambda: setattr(
            model.get_layer("j"), "activation", keras.activations.tanh
        ),
        lambda: model.get_layer("c").enable_lora(2),
        lambda: model.get_layer("c").lora_kernel_b.assign(np.ones((2, 9))),
    ):
        change()
        after = samples(model, x, "fused")
        assert_close(after, samples(model, x, "reference"))
    assert np.abs(after[0] - before[0]).max() > 1e-3


@needs_library
def test_saved_and_loaded(tmp_path):
    model, x = normalizations()
    before = samples(model, x, "fused")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(samples(loaded, x, "fused"), before)
    assert fused_paths(loaded) == fused_paths(model)


@needs_library
@pytest.mark.parametrize("chosen", ["a", "i", ["a", "i"]])
def test_sites_that_are_off(chosen):
    model, x = normalizations()
    assert_close(
        samples(model, x, "fused", layers=chosen),
        samples(model, x, "reference", layers=chosen),
    )
    told = engines_of(model, layers=chosen, engine="fused")
    assert told["i"][0] == "fused"
    assert (told["a"] == ("reference", "no noise reaches it")) == (
        chosen == "i"
    )


@needs_library
def test_the_model_is_not_kept_alive_and_not_changed():
    model, x = normalizations()
    outputs, before = zoo.outputs_of(model, x), zoo.fingerprint(model)
    samples(model, x, "fused")
    assert zoo.fingerprint(model) == before
    assert zoo.outputs_of(model, x) == outputs
    gone = weakref.ref(model)
    del model
    keras.utils.clear_session()
    gc.collect()
    assert gone() is None


@needs_library
def test_predicting_again_traces_nothing():
    model, x = normalizations()
    samples(model, x, "fused")
    traces = programs.made(model)
    assert traces
    samples(model, x[:3], "fused", seed=9)
    model.set_weights(model.get_weights())
    samples(model, x, "fused", seed=10)
    assert programs.made(model) == traces


# Any model.


@st.composite
def stacks(draw):
    """Draws layers of all the kinds that chains are made of, and others."""
    drawn = []
    for _ in range(draw(st.integers(2, 9), "layers")):
        kind = draw(
            st.sampled_from(
                [
                    *("dense", "dense", "dense", "dropout", "dropout"),
                    *("gaussian", "spatial", "norm", "activation", "relu"),
                    *("softmax", "identity", "alpha", "layer norm", "flatten"),
                ]
            ),
            "kind",
        )
        rate = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]), "rate")
        units = draw(st.integers(2, 20), "units")
        activation = draw(
            st.sampled_from([None, None, "relu", "selu", "softplus", "silu"])
        )
        drawn.append((kind, rate, units, activation))
    return drawn


def build(stack, shape):
    x = inputs = keras.Input(shape)
    for kind, rate, units, activation in stack:
        if kind in ("spatial", "flatten") and len(x.shape) != 3:
            continue
        layer = {
            "dense": lambda: layers.Dense(units, activation),  # noqa: B023
            "dropout": lambda: layers.Dropout(rate),  # noqa: B023
            "gaussian": lambda: layers.GaussianDropout(rate),  # noqa: B023
            "spatial": lambda: layers.SpatialDropout1D(rate),  # noqa: B023
            "norm": layers.BatchNormalization,
            "activation": lambda: layers.Activation(activation),  # noqa: B023
            "relu": layers.ReLU,
            "softmax": layers.Softmax,
            "identity": layers.Identity,
            "alpha": lambda: layers.AlphaDropout(rate),  # noqa: B023
            "layer norm": layers.LayerNormalization,
            "flatten": layers.Flatten,
        }[kind]()
        x = layer(x)
    return moved(keras.Model(inputs, x))


@needs_library
@hypothesis.settings(max_examples=30)
@hypothesis.given(
    stack=stacks(), shape=st.sampled_from([(6,), (3, 5)]), data=st.data()
)
def test_any_model(stack, shape, data):
    keras.utils.set_random_seed(2)
    model = build(stack, shape)
    plan = build_plan(model)
    hypothesis.assume(not all(plan.fusion.why_not) and plan.suffix)
    fused, _ = choose_engine(plan, "fused")
    rows = data.draw(st.integers(1, 9), "rows")
    first = data.draw(st.integers(0, 40), "first sample")
    count = data.draw(st.integers(1, 20), "samples")
    drawn = draws(
        rows,
        data.draw(st.booleans(), "shared"),
        seed=tf.constant(data.draw(st.integers(0, 2**64 - 1)), tf.uint64),
        first_sample=first,
        num_samples=count,
        num_blocks=-(-(first % 16 + count) // 16),
        first_row=data.draw(st.integers(0, 2**33), "first row"),
    )
    x = tf.constant(zoo.numbers(*shape, rows=rows))
    # Through up to nine layers, of which normalizations of small numbers
    # enlarge errors.
    assert_close(
        run(fused, plan, x, drawn), run(Reference(), plan, x, drawn), 2e-4
    )
