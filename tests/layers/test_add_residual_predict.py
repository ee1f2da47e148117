# SPDX-License-Identifier: Apache-2.0
"""Networks of random depth: against all of them, and as a prior of weights."""

import itertools

import keras
import numpy as np
import pytest
import scipy.stats

import keras_bayesdrop as kbd
from keras_bayesdrop import noise
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers import MCDropout
from tests.helpers import flat
from tests.random.test_rng import philox_words

layers = keras.layers

RATES = (0.2, 0.5, 0.4, 0.7)
NUM_SAMPLES = 8192


def _numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _blocks(rates=RATES, units=3):
    return [
        ADDResidual(
            [layers.Dense(5, "tanh"), layers.Dense(units)],
            mode="noise",
            rate=rate,
            name=f"block_{index}",
        )
        for index, rate in enumerate(rates)
    ]


def _network():
    model = keras.Sequential([keras.Input((3,)), *_blocks(), layers.Dense(2)])
    rng = np.random.default_rng(3)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


def _of_depth(model, x, keep):
    """Outputs in float64 of the network in which `keep` says what is left."""
    h = x.astype(np.float64)
    for layer, kept, rate in zip(model.layers[:-1], keep, RATES, strict=True):
        w, b, v, c = (np.float64(each) for each in layer.get_weights())
        h = h + kept / (1 - rate) * (np.tanh(h @ w + b) @ v + c)
    w, b = (np.float64(each) for each in model.layers[-1].get_weights())
    return h @ w + b


def _all_depths(model, x):
    """Probabilities [16] and outputs [16, rows, outputs]."""
    masks = list(itertools.product((0, 1), repeat=len(RATES)))
    keep = 1 - np.array(RATES)
    probabilities = [np.prod(np.where(m, keep, 1 - keep)) for m in masks]
    return np.array(probabilities), np.stack(
        [_of_depth(model, x, mask) for mask in masks]
    )


def _predict(model, x, num_samples=NUM_SAMPLES, **settings):
    fixed = {"seed": 7, "return_samples": True, "verbose": 0}
    settings = {**fixed, "draws": "independent", **settings}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_moments_are_those_over_all_depths(masks):
    model, x = _network(), _numbers(5, 3, seed=4)
    predicted = _predict(model, x, masks=masks)
    probabilities, outputs = _all_depths(model, x)
    mean = np.tensordot(probabilities, outputs, 1)
    centred = outputs - mean
    variance = np.tensordot(probabilities, centred**2, 1)
    fourth = np.tensordot(probabilities, centred**4, 1)
    # 4 standard errors, by the exact moments; 1e-5 for float32.
    error = 4 * np.sqrt(variance / NUM_SAMPLES) + 1e-5
    np.testing.assert_array_less(np.abs(predicted.mean - mean), error)
    error = 4 * np.sqrt((fourth - variance**2) / NUM_SAMPLES) + 1e-5
    sample_variance = predicted.samples.var(axis=0)
    np.testing.assert_array_less(np.abs(sample_variance - variance), error)
    # The depths matter: without noise the model predicts something else.
    alone = model.predict(x, verbose=0)
    assert np.abs(alone - mean).max() > 0.1


def test_one_block_keeps_its_mean():
    model = keras.Sequential([keras.Input((3,)), _blocks([0.3])[0]])
    x = _numbers(4, 3)
    (keep, drop), rows = (1 / 0.7, 0.0), model.predict(x, verbose=0) - x
    expected = x + 0.7 * keep * rows + 0.3 * drop * rows
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_draws_are_those_of_the_counters(masks):
    model, x = _network(), _numbers(5, 3, seed=4)
    samples = _predict(model, x, 40, masks=masks).samples
    rows = range(1 if masks == "shared" else 5)
    # [rows, samples, blocks], a word each.
    words = np.concatenate(
        [philox_words(7, site, range(40), rows, 1) for site in range(4)], -1
    )
    keep = np.broadcast_to(words >= np.array(RATES) * 2**32, (5, 40, 4))
    for sample in range(40):
        for row in range(5):
            mask = keep[row, sample]
            expected = _of_depth(model, x[row : row + 1], mask)[0]
            np.testing.assert_allclose(
                samples[sample, row], expected, rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_draws_are_reproducible(masks):
    model, x = _network(), _numbers(5, 3, seed=4)
    whole = _predict(model, x, 40, masks=masks).samples
    again = _predict(model, x, 40, masks=masks).samples
    np.testing.assert_array_equal(again, whole)
    parts = _predict(model, x, 40, masks=masks, batch_size=2).samples
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)
    other = _predict(model, x, 40, masks=masks, seed=8).samples
    assert np.abs(other - whole).max() > 0.1
    if masks == "shared":
        function = kbd.sample_function(
            model, seed=7, sample=3, draws="independent"
        )
        np.testing.assert_allclose(function(x), whole[3], rtol=1e-5, atol=1e-6)


class Own(keras.Model):
    """Blocks in a model that cannot be taken apart."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return inputs


def _noisy_blocks(place):
    return [
        ADDResidual(
            [
                MCDropout(0.3),
                keras.Sequential([layers.Dense(5, "relu"), MCDropout(0.2)]),
                layers.Dense(4),
            ],
            mode="noise",
            noise=noise.Gaussian(0.4),
            noise_on=place,
            projection="auto",
        ),
        ADDResidual(
            [ADDResidual(layers.Dense(4), mode="noise", rate=0.5)],
            mode="noise",
            noise="rayleigh",
        ),
    ]


@pytest.mark.parametrize("place", ["branch", "input"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_taken_apart_or_not_the_samples_are_the_same(place, masks):
    blocks = _noisy_blocks(place)
    own = Own(blocks)
    own(_numbers(2, 3))
    model = keras.Sequential([keras.Input((3,)), *blocks])
    x = _numbers(4, 3)
    expected = _predict(own, x, 20, masks=masks)
    predicted = _predict(model, x, 20, masks=masks)
    np.testing.assert_allclose(
        predicted.samples, expected.samples, rtol=1e-5, atol=1e-5
    )
    assert predicted.std.min() > 0.01


def test_what_runs_once():
    model = _network()
    rows = kbd.explain(model).steps
    once = [row.path for row in rows if row.runs == "once"]
    # No noise reaches the layers of the first block.
    assert len(once) == 2
    assert all(path.startswith("block_0/dense") for path in once)
    sites = [row.path for row in kbd.inspect(model).stochastic]
    assert sites == [f"block_{index}/noise" for index in range(4)]


def test_chosen_blocks():
    model, x = _network(), _numbers(5, 3)
    some = _predict(model, x, 64, layers="block_1/noise").samples
    assert len(np.unique(some[:, 0, 0].round(4))) == 2


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_convolutions_masks_and_nested_models(policy):
    keras.config.set_dtype_policy(policy)
    inner = keras.Sequential(
        [
            keras.Input((4, 3)),
            layers.Masking(),
            ADDResidual(layers.Dense(3), mode="noise", rate=0.5),
            layers.SimpleRNN(6),
            layers.Reshape((2, 1, 3)),
            ADDResidual(
                layers.Conv2D(3, 2, padding="same"), mode="noise", rate=0.4
            ),
        ]
    )
    inputs = keras.Input((4, 3))
    model = keras.Model(inputs, layers.Flatten()(inner(inputs)))
    x = _numbers(3, 4, 3)
    x[1, 2:] = 0.0
    own = Own([inner, layers.Flatten()])
    own(x)
    samples = _predict(model, x, 16).samples
    tolerance = 1e-5 if policy == "float32" else 5e-3
    np.testing.assert_allclose(
        samples, _predict(own, x, 16).samples, rtol=tolerance, atol=tolerance
    )
    # A masked step has no say, whatever is in it, with or without the block.
    assert np.all(samples.std(axis=0).max(axis=-1) > 0.01)
    off = kbd.deterministic(model)(x)
    np.testing.assert_allclose(off, model(x), rtol=tolerance, atol=tolerance)
    keras.config.set_dtype_policy("float32")


def test_layers_of_another_dtype_inside():
    # The layer rounds its input to float16 before the block sees it.
    block = ADDResidual(
        layers.Dense(3), mode="noise", rate=0.5, dtype="mixed_float16"
    )
    model = keras.Sequential([keras.Input((3,)), block])
    x = _numbers(50, 3)
    np.testing.assert_array_equal(kbd.deterministic(model)(x), model(x))
    own = Own([block])
    own(x)
    np.testing.assert_array_equal(
        _predict(model, x, 8).samples, _predict(own, x, 8).samples
    )


def test_moments_without_samples():
    # Linear blocks: the mean is exact, and so is the variance of one block.
    block = ADDResidual(layers.Dense(3), mode="noise", rate=0.4)
    model = keras.Sequential([keras.Input((3,)), block])
    x = _numbers(4, 3)
    predicted = kbd.predict_with_uncertainty(
        model, x, method="moments", verbose=0
    )
    added = np.asarray(block.block[0](x))
    np.testing.assert_allclose(predicted.mean, x + added, rtol=1e-5)
    expected = np.sqrt(0.4 / 0.6) * np.abs(added)
    np.testing.assert_allclose(predicted.std, expected, rtol=1e-4)


# The scale as noise, or as the prior of weights: equations 5 to 8, for 12.

NETWORKS = 8000
SIGMA = 0.8
FAMILIES = {
    "bernoulli": noise.Bernoulli(0.3),
    "rayleigh": noise.Rayleigh(1.2),
    "half_cauchy": noise.HalfCauchy(0.7),
    "log_normal": noise.LogNormal(0.6),
}
# Two samples of 8000, 2 statistics, 4 families, each at level 1e-4: of all
# seeds one in 1250 would fail. CDFs that differ by 0.035 are noticed:
# sqrt(log(2 / 1e-4) / 2 * 2 / 8000).
LEVEL = 1e-4


class Networks(layers.Layer):
    """A dense layer of which every row of the batch has its own weights."""

    def __init__(self, weights):
        super().__init__()
        self.drawn = weights.astype("float32")  # [networks, units, units]

    def call(self, x):
        return keras.ops.tanh(keras.ops.einsum("nr,nrj->nj", x, self.drawn))

    def compute_output_shape(self, input_shape):
        return input_shape


def _weights(rng, deviation=1.0):
    return rng.normal(size=(NETWORKS, 3, 3)) * SIGMA * deviation


def _outputs(blocks):
    inputs = keras.Input((3,))
    h = inputs
    for block in blocks:
        h = block(h)
    x = np.tile(np.float32([[0.8, -1.5, 0.3]]), (NETWORKS, 1))
    return keras.Model(inputs, h), x


def _expanded(family, seed):
    """Two blocks whose input is multiplied by the scale."""
    rng = np.random.default_rng(seed)
    model, x = _outputs(
        ADDResidual(
            Networks(_weights(rng)),
            mode="noise",
            noise=family,
            noise_on="input",
        )
        for _ in range(2)
    )
    # Every row is a network, with a scale of its own.
    return np.asarray(kbd.stochastic(model, seed=seed)(x))


def _hierarchical(family, seed, shape=(NETWORKS, 1, 1)):
    """The same with weights of a random variance."""
    rng = np.random.default_rng(seed)
    prior = family.variance_prior("float64")
    ours = type(prior).__module__.startswith("keras_bayesdrop")
    blocks = []
    for layer in range(2):
        key = seed + layer
        variance = np.asarray(prior.sample(shape, key if ours else (key, 0)))
        deviation = np.sqrt(variance) / family.normalizer
        block = ADDResidual(
            Networks(_weights(rng, deviation)), mode="noise", rate=0.0
        )
        blocks.append(block)
    model, x = _outputs(blocks)
    return np.asarray(model(x))


def _p_values(one, other):
    """Of an output, and of the product of two."""
    statistics = (lambda y: y[:, 0], lambda y: y[:, 0] * y[:, 1])
    return [
        scipy.stats.ks_2samp(f(one), f(other), method="asymp").pvalue
        for f in statistics
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_noise_on_the_input_is_a_prior_of_the_weights(name):
    family = FAMILIES[name]
    expanded = _expanded(family, 1)
    assert min(_p_values(expanded, _hierarchical(family, 100))) > LEVEL


@pytest.mark.parametrize("name", ["bernoulli", "half_cauchy"])
def test_a_scale_for_every_row_is_another_prior(name):
    """Relevance instead of depth: the test above fails, as it must."""
    family = FAMILIES[name]
    rows = _hierarchical(family, 100, shape=(NETWORKS, 3, 1))
    assert min(_p_values(_expanded(family, 1), rows)) < LEVEL
