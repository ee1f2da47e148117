# SPDX-License-Identifier: Apache-2.0
"""The fused engine predicts as the reference engine does.

Where only the fused engine runs, samples agree bit for bit.
"""

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
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests import zoo
from tests.engines.both_engines import MASKS
from tests.engines.both_engines import assert_close
from tests.engines.both_engines import assert_engines_agree
from tests.engines.both_engines import assert_same
from tests.engines.both_engines import draws
from tests.engines.both_engines import engines_of
from tests.engines.both_engines import fused_paths
from tests.engines.both_engines import predict
from tests.engines.both_engines import run
from tests.engines.both_engines import samples
from tests.engines.chain_models import activation_layers
from tests.engines.chain_models import branches
from tests.engines.chain_models import chain_in_the_middle
from tests.engines.chain_models import conv_head
from tests.engines.chain_models import flatten_after_noise
from tests.engines.chain_models import flatten_inside
from tests.engines.chain_models import images
from tests.engines.chain_models import in_float64
from tests.engines.chain_models import input_that_is_folded_already
from tests.engines.chain_models import moved
from tests.engines.chain_models import nested
from tests.engines.chain_models import noise_used_twice
from tests.engines.chain_models import normalization_before_noise
from tests.engines.chain_models import normalizations
from tests.engines.chain_models import open_sequences
from tests.engines.chain_models import sequences
from tests.engines.chain_models import sequences_in_the_middle
from tests.engines.chain_models import sequential
from tests.engines.chain_models import shared_layers
from tests.engines.chain_models import with_adapter

problem = op_library.library().problem
needs_library = pytest.mark.skipif(bool(problem), reason=problem)
layers = keras.layers


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
        assert told[path][0] in ("reference", "noise")
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
