# SPDX-License-Identifier: Apache-2.0
"""Chains: their steps, their links, and why other steps are left out.

Needs no compiled library: a chain is data.
"""

import keras
import pytest
import tensorflow as tf

from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise import Gaussian
from keras_bayesdrop.noise import families
from keras_bayesdrop.plan import ChainStep
from tests.plan.plans import chains_of
from tests.plan.plans import dense
from tests.plan.plans import dropout
from tests.plan.plans import members
from tests.plan.plans import plan_of
from tests.plan.plans import reasons

layers = keras.layers


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
