# SPDX-License-Identifier: Apache-2.0
"""Chains: their steps, their links, and why other steps are left out.

Needs no compiled library: a chain is data.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise import families
from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import build_plan
from tests import zoo

layers = keras.layers


def plan_of(*stack, shape=(6,), dtype=None, **kwargs):
    """Plans a Sequential model, its layers named a, b, c..."""
    for letter, layer in zip("abcdefghijklmnop", stack, strict=False):
        layer.name = letter
    inputs = keras.Input(shape, dtype=dtype)
    return build_plan(keras.Sequential([inputs, *stack]), **kwargs)


def chains_of(plan):
    return [step for step in plan.fusion.steps if isinstance(step, ChainStep)]


def members(chain):
    return "".join(step.path for step in chain.steps)


def reasons(plan):
    return {
        step.path: why
        for step, why in zip(plan.suffix, plan.fusion.why_not, strict=True)
        if why
    }


def dropout(rate=0.5, **kwargs):
    return layers.Dropout(rate, **kwargs)


def dense(units=6, activation=None, **kwargs):
    return layers.Dense(units, activation, **kwargs)


def test_links_in_order():
    plan = plan_of(
        dropout(0.1),
        dense(4, "relu"),
        layers.GaussianDropout(0.2),
        dense(5, "tanh", use_bias=False),
        dense(3, "softmax"),
    )
    (chain,) = chains_of(plan)
    assert members(chain) == "abcde"
    assert plan.fusion.steps == (chain,)
    assert plan.fusion.why_not == ("",) * 5
    assert (chain.path, chain.kind) == ("a", "dense chain")
    assert chain.inputs == plan.suffix[0].inputs
    assert chain.outputs == plan.suffix[-1].outputs == plan.outputs
    assert not chain.flattens
    assert [link.activation for link in chain.links] == [
        "relu",
        "tanh",
        "softmax",
    ]
    assert [link.sizes for link in chain.links] == [(6, 4), (4, 5), (5, 3)]
    assert [link.noise for link in chain.links] == [
        plan.suffix[0],
        plan.suffix[2],
        None,
    ]
    assert isinstance(chain.links[1].noise.noise, Gaussian)
    assert [link.weights()[1] is None for link in chain.links] == [
        False,
        True,
        False,
    ]
    assert not any(link.per_entry for link in chain.links)


@pytest.mark.parametrize(
    ("make", "noise"),
    [
        (lambda: MCDropout(0.3), Bernoulli(0.3)),
        (lambda: MCDropout(noise=Bernoulli(0.3)), Bernoulli(0.3)),
        (lambda: MCDropout(0.3, noise="gaussian"), Gaussian(0.3)),
        (lambda: MCDropout(noise=Gaussian(0.3)), Gaussian(0.3)),
    ],
)
def test_noise_as_an_argument(make, noise):
    """Dropout and its Gaussian form fuse, whichever way they are written."""
    plan = plan_of(make(), dense(4, "relu"), make(), dense(2))
    (chain,) = chains_of(plan)
    assert members(chain) == "abcd"
    assert [link.noise.noise for link in chain.links] == [noise, noise]


@pytest.mark.parametrize("name", families.NAMES[2:])
def test_noise_that_does_not_fuse(name):
    plan = plan_of(dropout(), dense(4), MCDropout(noise=name), dense(2))
    assert [members(chain) for chain in chains_of(plan)] == ["ab"]
    assert set(reasons(plan)) == {"c", "d"}


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        # Noise at the end waits for a Dense that never comes.
        ([dropout, dense, dropout], ["ab"]),
        ([dense, dropout], []),
        ([dropout], []),
        # What follows the last Dense may be its activation, and nothing more.
        ([dropout, dense, layers.ReLU], ["abc"]),
        ([dropout, dense, layers.ReLU, layers.ReLU], ["abc"]),
        ([dropout, dense, layers.LayerNormalization], ["ab"]),
        # Two chains with something between.
        (
            [dropout, dense, layers.LayerNormalization, dropout, dense],
            ["ab", "de"],
        ),
        # A Dense whose input is random belongs to the chain before it.
        ([dropout, dense, dense, dense], ["abcd"]),
        # Without noise of its own it is no chain.
        ([dropout, layers.LayerNormalization, dense], []),
        ([dropout, layers.LayerNormalization, dense, dropout, dense], ["cde"]),
        # Normalization by the side of a Dense, before or after it.
        ([dropout, layers.BatchNormalization, dense], ["abc"]),
        ([dropout, dense, layers.BatchNormalization], ["abc"]),
        (
            [dropout, dense, layers.BatchNormalization, layers.ReLU],
            ["abcd"],
        ),
        (
            [
                *[dropout, dense, layers.ReLU, layers.BatchNormalization],
                *[layers.BatchNormalization, dense],
            ],
            ["abcdef"],
        ),
        # After an activation, at the end, it has no Dense to be folded into.
        ([dropout, dense, layers.ReLU, layers.BatchNormalization], ["abc"]),
        # Before noise it cannot be moved past it.
        (
            [
                *[dropout, dense, layers.ReLU],
                *[layers.BatchNormalization, dropout, dense],
            ],
            ["abc", "ef"],
        ),
        # After a linear Dense it can, for it is folded into that.
        (
            [dropout, dense, layers.BatchNormalization, dropout, dense],
            ["abcde"],
        ),
        # Noise on noise: the first is its own step.
        ([dropout, dropout, dense], ["bc"]),
        ([dropout, layers.Identity, dense], ["abc"]),
        ([dropout, layers.ActivityRegularization, dense], ["abc"]),
        ([dropout, layers.Flatten, dense], ["abc"]),
        # Activations on what is no linear Dense.
        ([dropout, layers.ReLU, dense], []),
        (
            [dropout, dense, dropout, layers.ReLU, dense, dropout, dense],
            ["ab", "efg"],
        ),
        # Other noises.
        ([layers.GaussianDropout, dense], ["ab"]),
        ([layers.AlphaDropout, dense], []),
        ([layers.GaussianNoise, dense, dropout, dense], ["bcd"]),
    ],
)
def test_members(stack, expected):
    stacked = [
        make() if make in (dropout, dense) else make(*arguments(make))
        for make in stack
    ]
    plan = plan_of(*stacked)
    assert [members(chain) for chain in chains_of(plan)] == expected
    # Each step of the suffix once, in a chain or by itself, and in an order in
    # which they can run.
    flat = "".join(
        members(step) if isinstance(step, ChainStep) else step.path
        for step in plan.fusion.steps
    )
    assert flat == "".join(step.path for step in plan.suffix)
    inside = set("".join(expected))
    for step, why in zip(plan.suffix, plan.fusion.why_not, strict=True):
        assert bool(why) == (step.path not in inside)


def arguments(make):
    noisy = (layers.GaussianDropout, layers.AlphaDropout, layers.GaussianNoise)
    return (0.3,) if make in noisy else ()


@pytest.mark.parametrize(
    ("stack", "path", "reason"),
    [
        ([dropout, dense, dropout], "c", "no Dense with noise follows"),
        ([dropout, dropout, dense], "a", "noise on noise"),
        ([lambda: layers.AlphaDropout(0.3), dense], "a", "alpha.*not compiled"),
        ([lambda: layers.AlphaDropout(0.3), dense], "b", "no Dense with noise"),
        ([lambda: layers.GaussianNoise(0.3), dense], "a", "added Gaussian"),
        ([dropout, layers.ReLU, dense], "a", "follows no linear Dense"),
        ([dropout, lambda: dense(2, "hard_sigmoid")], "b", "hard_sigmoid"),
        (
            [dropout, dense, layers.ReLU, layers.BatchNormalization, dropout],
            "d",
            "noise between a normalization and its Dense",
        ),
        (
            [dropout, layers.LayerNormalization],
            "b",
            "LayerNormalization is not",
        ),
        ([lambda: dropout(noise_shape=(1, None)), dense], "a", r"\(1, None\)"),
        ([lambda: dropout(noise_shape=(None, 1)), dense], "a", r"\(None, 1\)"),
        ([dropout, lambda: dense(dtype="mixed_float16")], "b", "float16"),
        ([dropout, lambda: dense(dtype="mixed_bfloat16")], "b", "bfloat16"),
    ],
)
def test_reasons(stack, path, reason):
    plan = plan_of(*(make() for make in stack))
    assert path in reasons(plan)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(reasons(plan)[path])


@pytest.mark.parametrize("first", ["float32", "float64"])
@pytest.mark.parametrize("second", ["float32", "float64"])
def test_a_chain_has_one_dtype(first, second):
    """Keras converts between layers; a chain does not."""
    plan = plan_of(
        dropout(dtype=first),
        dense(dtype=first),
        dropout(dtype=second),
        dense(dtype=second),
        dtype=first,
    )
    for chain in chains_of(plan):
        dtypes = {
            tensor.dtype for link in chain.links for tensor in link.weights()
        } | {tf.as_dtype(plan.specs[chain.inputs[0]].dtype)}
        assert len(dtypes) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_dense_of_another_dtype_than_its_noise(dtype):
    other = "float64" if dtype == "float32" else "float32"
    plan = plan_of(dropout(dtype=dtype), dense(dtype=other), dtype=dtype)
    for chain in chains_of(plan):
        assert plan.specs[chain.inputs[0]].dtype == other


# Higher ranks.


@pytest.mark.parametrize(
    ("make", "shape", "per_entry"),
    [
        (dropout, (3, 6), True),
        (dropout, (None, 6), True),
        (dropout, (2, 3, 6), True),
        (lambda: dropout(noise_shape=(None, None, None)), (3, 6), True),
        (lambda: dropout(noise_shape=(None, 1, None)), (3, 6), False),
        (lambda: dropout(noise_shape=(None, 1, 1, None)), (2, 3, 6), False),
        (lambda: layers.SpatialDropout1D(0.5), (3, 6), False),
        (lambda: layers.SpatialDropout2D(0.5), (2, 3, 6), False),
        (lambda: layers.GaussianDropout(0.5), (3, 6), True),
    ],
)
def test_noise_of_sequences(make, shape, per_entry):
    (chain,) = chains_of(plan_of(make(), dense(4), shape=shape))
    (link,) = chain.links
    assert link.per_entry == per_entry
    assert not chain.flattens


@pytest.mark.parametrize(
    "noise_shape",
    [
        (None, None, 1),
        (None, 1, 1),
        (1, None, None),
        (None, 3, None),
        (None, 3, 6),
        (None, 1, 6),
    ],
)
def test_noise_of_other_shapes(noise_shape):
    plan = plan_of(dropout(noise_shape=noise_shape), dense(4), shape=(3, 6))
    assert not chains_of(plan)
    assert "noise of shape" in reasons(plan)["a"]


def test_channels_first():
    plan = plan_of(
        layers.SpatialDropout2D(0.5, data_format="channels_first"),
        dense(4),
        shape=(2, 3, 6),
    )
    assert not chains_of(plan)


def test_flatten():
    (chain,) = chains_of(
        plan_of(dropout(), layers.Flatten(), dense(4), shape=(2, 3))
    )
    assert chain.flattens and members(chain) == "abc"
    assert not chain.links[0].per_entry
    plan = plan_of(
        layers.SpatialDropout1D(0.5), layers.Flatten(), dense(4), shape=(2, 3)
    )
    assert not chains_of(plan)
    assert "flattened" in reasons(plan)["a"]
    plan = plan_of(
        dropout(), dense(4), layers.Flatten(), dense(4), shape=(2, 3)
    )
    assert [members(chain) for chain in chains_of(plan)] == ["ab"]
    assert not chains_of(plan)[0].flattens
    plan = plan_of(
        dropout(), layers.Flatten(), dropout(), dense(4), shape=(2, 3)
    )
    (chain,) = chains_of(plan)
    assert members(chain) == "bcd" and chain.flattens


def test_normalization_before_flattening_is_not_that_of_a_dense():
    plan = plan_of(
        dropout(),
        layers.BatchNormalization(),
        layers.Flatten(),
        dense(4),
        shape=(2, 3),
    )
    assert not chains_of(plan)


# Graphs.


def test_a_value_that_is_used_twice_ends_a_chain():
    inputs = keras.Input((6,))
    x = layers.Dropout(0.5, name="a")(inputs)
    x = layers.Dense(6, name="b")(x)
    y = layers.Dropout(0.5, name="c")(x)
    y = layers.Dense(6, name="d")(y)
    z = layers.Add(name="e")([x, y])
    plan = build_plan(keras.Model(inputs, z))
    assert [members(chain) for chain in chains_of(plan)] == ["ab", "cd"]
    # Where noise itself is used twice, no chain goes over it.
    x = layers.Dropout(0.5, name="a")(inputs)
    y = layers.Dense(6, name="b")(x)
    plan = build_plan(keras.Model(inputs, layers.Add(name="c")([x, y])))
    assert not chains_of(plan)
    assert reasons(plan)["a"] == "its output is used more than once"


def test_an_output_on_the_way_ends_a_chain():
    inputs = keras.Input((6,))
    x = layers.Dense(6, name="b")(layers.Dropout(0.5, name="a")(inputs))
    y = layers.Dense(6, name="d")(layers.Dropout(0.5, name="c")(x))
    plan = build_plan(keras.Model(inputs, [x, y]))
    assert [members(chain) for chain in chains_of(plan)] == ["ab", "cd"]
    assert {chain.outputs[0] for chain in chains_of(plan)} == set(plan.outputs)


def test_branches_are_chains_of_their_own():
    inputs = keras.Input((6,))
    ends = []
    for names in ("abc", "def"):
        x = layers.Dropout(0.5, name=names[0])(inputs)
        x = layers.Dense(6, "relu", name=names[1])(x)
        ends.append(layers.Dense(6, name=names[2])(x))
    plan = build_plan(keras.Model(inputs, layers.Add(name="g")(ends)))
    assert [members(chain) for chain in chains_of(plan)] == ["abc", "def"]
    # Each comes before the step that needs it.
    assert plan.fusion.steps[-1].path == "g"
    assert "Add" in reasons(plan)["g"]


@pytest.mark.parametrize(
    "name",
    [
        *("functional", "nested_three_deep", "two_inputs", "list_outputs"),
        *("dict_outputs", "outputs_without_noise", "model_called_twice"),
        *("skip_connection", "subclassed", "layers_with_layers", "positions"),
        *("noise_on_positions", "batch_norm", "conv_net", "stochastic_depth"),
        *("ours", "operations", "rate_zero", "losses", "double_precision"),
    ],
)
def test_every_value_is_made_before_it_is_used(name):
    model, _ = zoo.ZOO[name].build()
    plan = build_plan(model)
    known = set(plan.cut)
    for step in plan.fusion.steps:
        assert set(step.inputs) <= known
        known.update(step.outputs)
    assert set(plan.outputs) <= known
    inside = [
        each
        for step in plan.fusion.steps
        for each in getattr(step, "steps", [step])
    ]
    assert sorted(map(id, inside)) == sorted(map(id, plan.suffix))
    for step, why in zip(plan.suffix, plan.fusion.why_not, strict=True):
        assert bool(why) == (step in plan.fusion.steps)


def test_shared_layers_are_links_twice():
    inputs = keras.Input((6,))
    drop, layer = layers.Dropout(0.5), layers.Dense(6, "tanh")
    x = layer(drop(layer(drop(inputs))))
    (chain,) = chains_of(build_plan(keras.Model(inputs, x)))
    assert len(chain.links) == 2
    sites = [link.noise.site for link in chain.links]
    assert sites == [0, 1]


def test_nested_models_are_opened():
    inner = keras.Sequential(
        [keras.Input((6,)), dropout(name="a"), dense(4, "relu", name="b")],
        name="inner",
    )
    inputs = keras.Input((6,))
    x = layers.Dense(2, name="c")(inner(inputs))
    (chain,) = chains_of(build_plan(keras.Model(inputs, x)))
    paths = [step.path for step in chain.steps]
    assert paths == ["inner/a", "inner/b", "c"]


def test_sites_that_are_off():
    stack = [
        dropout(),
        dense(4, "relu"),
        dropout(),
        dense(3),
        dropout(),
        dense(2),
    ]
    plan = plan_of(*stack, layers=["a", "e"])
    (chain,) = chains_of(plan)
    assert members(chain) == "abcdef"
    active = [link.noise is not None for link in chain.links]
    assert active == [True, False, True]
    assert [link.noise.site for link in chain.links if link.noise] == [0, 2]
    # What is off at the beginning runs once.
    (chain,) = chains_of(
        plan_of(dropout(0.0), dense(4, "relu"), dropout(), dense(3))
    )
    assert members(chain) == "cd"


def test_time_in_the_batch_axis():
    model, _ = zoo.ZOO["time_folded_into_batch"].build()
    plan = build_plan(model)
    assert not chains_of(plan)
    assert any("does not hold the rows" in why for why in plan.fusion.why_not)


# Folding.


def move(layer):
    rng = np.random.default_rng(ord(layer.name))
    layer.set_weights(
        [rng.uniform(0.5, 2.0, w.shape) for w in layer.get_weights()]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_normalizations_are_folded_into_the_kernel(
    after, before, use_bias, dtype
):
    """Against the layers themselves, one after another."""
    keras.config.set_dtype_policy(dtype)
    affine = [layers.BatchNormalization() for _ in range(before + after)]
    middle = dense(4, use_bias=use_bias)
    stack = [dropout(), *affine[:before], middle, *affine[before:]]
    stack.append(layers.ReLU())
    plan = plan_of(*stack, shape=(5,), dtype=dtype)
    for layer in (middle, *affine):
        move(layer)
    (chain,) = chains_of(plan)
    (link,) = chain.links
    assert len(chain.steps) == len(stack)
    assert link.activation == "relu"
    x = zoo.numbers(5).astype(dtype)
    expected = x
    for layer in stack[1:]:
        expected = layer(expected, **training_off(layer))
    kernel, bias = link.weights()
    assert (bias is None) == (not use_bias and not affine)
    y = tf.nn.relu(tf.matmul(x, kernel) + (0 if bias is None else bias))
    assert kernel.dtype == dtype
    rtol = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol)
    assert np.std(expected) > 0.1


def training_off(layer):
    is_norm = isinstance(layer, layers.BatchNormalization)
    return {"training": False} if is_norm else {}


def test_folded_weights_are_read_when_called():
    norm, layer = layers.BatchNormalization(), dense(4)
    (chain,) = chains_of(plan_of(dropout(), layer, norm))
    before = chain.links[0].weights()
    move(norm)
    move(layer)
    after = chain.links[0].weights()
    for old, new in zip(before, after, strict=True):
        assert np.abs(old - new).min() > 0
