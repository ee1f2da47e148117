# SPDX-License-Identifier: Apache-2.0
"""Chains in graphs: where they end, what they share, what they fold.

Needs no compiled library: a chain is data.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.plan import build_plan
from tests import zoo
from tests.plan.plans import chains_of
from tests.plan.plans import dense
from tests.plan.plans import dropout
from tests.plan.plans import members
from tests.plan.plans import plan_of
from tests.plan.plans import reasons

layers = keras.layers


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
