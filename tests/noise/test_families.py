# SPDX-License-Identifier: Apache-2.0
"""Every family: draws from words, moments, configs, and bad parameters."""

import json
import math

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from keras_bayesdrop import noise
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.noise import families
from tests.noise.cases import CONTINUOUS
from tests.noise.cases import LAYER_NOISE
from tests.noise.cases import uniforms
from tests.noise.cases import words
from tests.random.test_rng import philox_words

ALL = (*CONTINUOUS, ("bernoulli", noise.Bernoulli(0.3), None))
by_name = pytest.mark.parametrize(
    "family, reference",
    [case[1:] for case in CONTINUOUS],
    ids=[case[0] for case in CONTINUOUS],
)
every = pytest.mark.parametrize(
    "family", [case[1] for case in ALL], ids=[case[0] for case in ALL]
)


@by_name
def test_draws_are_the_inverse_cdf_of_the_words(family, reference):
    u = uniforms(words())
    drawn = family.from_words(tf.constant(words())).numpy()
    assert drawn.dtype == np.float64
    # Tables are good to 1e-8 in u, so to that over the density in xi: compared
    # in u, relative to the nearer end. The others are formulas.
    tables = isinstance(family, (noise.Beta, noise.InverseNakagami))
    if tables:
        # SciPy's CDF near 1 has an absolute error of 1e-16.
        atol = 1e-15
        np.testing.assert_allclose(reference.cdf(drawn), u, 1e-7, atol)
    else:
        # SciPy subtracts from 1 in the upper tail, where 2^-33 is left.
        np.testing.assert_allclose(drawn, reference.ppf(u), rtol=1e-6)
        middle = (u > 1e-3) & (u < 1 - 1e-3)
        np.testing.assert_allclose(
            drawn[middle], reference.ppf(u)[middle], rtol=1e-12, atol=1e-12
        )


@by_name
def test_draws_grow_with_the_word(family, reference):
    step = np.arange(0, 2**32, 1_000_003, dtype=np.uint64).astype(np.uint32)
    drawn = family.from_words(tf.constant(step)).numpy()
    assert np.all(np.diff(drawn) > 0)


@by_name
def test_formula_of_training_is_the_same_under_xla(family, reference):
    # Uniform numbers as in training: odd multiples of 2^-24.
    rng = np.random.default_rng(0)
    steps = np.concatenate([[0, 2**23 - 1], rng.integers(0, 2**23, 2000)])
    u = ((steps + 0.5) * 2.0**-23).astype(np.float32)
    compiled = tf.function(family.quantile, jit_compile=True)
    drawn = compiled(tf.constant(u)).numpy()
    assert drawn.dtype == np.float32
    assert np.all(np.isfinite(drawn))
    # In u: rounding to float32 moves u itself by 6e-8, and a draw by 1e-6 of
    # its size (several roundings), at most a density of 2 times that.
    np.testing.assert_allclose(
        reference.cdf(drawn.astype(np.float64)), u, rtol=0, atol=3e-6
    )


@pytest.mark.parametrize(
    "family, reference",
    [case[1:] for case in CONTINUOUS if case[0] != "inverse_nakagami"],
    ids=[case[0] for case in CONTINUOUS if case[0] != "inverse_nakagami"],
)
def test_moments_are_those_of_scipy(family, reference):
    if isinstance(family, noise.HalfCauchy):
        assert family.mean == family.variance == math.inf
        return
    np.testing.assert_allclose(family.mean, reference.mean(), rtol=1e-12)
    np.testing.assert_allclose(family.variance, reference.var(), rtol=1e-12)


def test_moments_of_inverse_nakagami():
    for a, b in ((1.2, 0.7), (2.5, 1.5), (30.0, 4.0)):
        square = scipy.stats.invgamma(a, scale=b)
        family = noise.InverseNakagami(a, b)
        mean = square.expect(np.sqrt, epsabs=0, epsrel=1e-11, limit=500)
        np.testing.assert_allclose(family.mean, mean, rtol=1e-6)
        variance = square.mean() - mean**2
        np.testing.assert_allclose(family.variance, variance, rtol=1e-4)
    assert noise.InverseNakagami(0.5).mean == math.inf
    assert noise.InverseNakagami(0.51).mean < math.inf
    assert noise.InverseNakagami(1.0).variance == math.inf


def test_moments_of_bernoulli():
    for rate in (0.0, 0.3, 1.0):
        reference = scipy.stats.bernoulli(1 - rate)
        family = noise.Bernoulli(rate)
        assert family.mean == reference.mean()
        np.testing.assert_allclose(family.variance, reference.var(), atol=1e-16)


@by_name
def test_density_is_that_of_scipy(family, reference):
    x = np.concatenate([np.linspace(-2, 3, 101) + 0.003, [8.0]])
    expected = reference.pdf(x)
    log_density = family.log_prob(tf.constant(x, tf.float64)).numpy()
    kept = expected > 1e-290
    np.testing.assert_allclose(
        log_density[kept], np.log(expected[kept]), rtol=1e-10, atol=1e-11
    )
    # Zero, or too small for a number.
    assert np.all(log_density[~kept] < math.log(1e-290) + 1)


def test_probabilities_of_bernoulli():
    log_prob = noise.Bernoulli(0.3).log_prob([0.0, 1.0, 0.5]).numpy()
    np.testing.assert_allclose(np.exp(log_prob), [0.3, 0.7, 0.0], rtol=1e-6)


@pytest.mark.parametrize(
    "family, reference",
    [case[1:] for case in LAYER_NOISE],
    ids=[case[0] for case in LAYER_NOISE],
)
def test_applied_noise_has_mean_one_or_median_one(family, reference):
    """The mean over equally likely words, as a fine integral over u."""
    count = 1 << 20
    middle = ((np.arange(count) + 0.5) * (2**32 / count)).astype(np.uint32)
    ones = tf.ones([count], tf.float64)
    y = family.apply(ones, tf.constant(middle)).numpy()
    if isinstance(family, noise.HalfCauchy):
        np.testing.assert_allclose(np.median(y), 1.0, rtol=1e-5)
        return
    # What the midpoint rule misses of the upper tail is largest for the
    # inverse Nakagami, of density x^-6: x * P(X > x) ~ count^(-4 / 5) = 2e-5.
    np.testing.assert_allclose(y.mean(), 1.0, rtol=5e-5)
    # Its second moment is x^2 * P(X > x) ~ count^(-3 / 5) = 2e-4.
    expected = family.variance / family.normalizer**2
    np.testing.assert_allclose(y.var(), expected, rtol=5e-3)


@every
def test_sample_is_reproducible_and_a_plain_array(family):
    drawn = family.sample((3, 50), seed=5)
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == (3, 50) and drawn.dtype == np.float64
    np.testing.assert_array_equal(drawn, family.sample((3, 50), seed=5))
    assert np.any(drawn != family.sample((3, 50), seed=6))
    assert np.any(family.sample(50) != family.sample(50))
    # The words of the contract: first site, first sample.
    expected = philox_words(5, 0, range(1), range(1), 150).reshape(3, 50)
    np.testing.assert_array_equal(
        drawn, family.from_words(tf.constant(expected)).numpy()
    )


@by_name
def test_draws_have_the_density(family, reference):
    """By a path of its own: the integral of `exp(log_prob)`, not the CDF."""
    low, high = (float(reference.ppf(u)) for u in (1e-7, 1 - 1e-7))
    # At quantiles, which crowd where the density is high, and ever closer
    # towards both ends.
    middle = reference.ppf(np.linspace(1e-7, 1 - 1e-7, 20_001))
    steps = (high - low) * np.geomspace(1e-12, 1.0, 3_000)
    x = np.unique(np.concatenate([middle, low + steps, high - steps]))
    density = np.exp(family.log_prob(tf.constant(x, tf.float64)))
    cdf = scipy.integrate.cumulative_trapezoid(density, x, initial=0.0)
    # The trapezoids cost the most at a pole of the density.
    np.testing.assert_allclose(cdf[-1], 1.0, rtol=0, atol=2e-3)
    draws = family.sample(20_000, seed=21)
    test = scipy.stats.kstest(draws, lambda y: np.interp(y, x, cdf / cdf[-1]))
    # 8 tests at level 1e-4: of all seeds one in 1,200 would fail. A CDF that
    # is off by 0.016 is detected: sqrt(log(2 / 1e-4) / (2 * 20,000)).
    assert test.pvalue > 1e-4


def test_bernoulli_keeps_the_words_that_dropout_keeps():
    every_word = tf.constant(words())
    for rate in (0.0, 0.3, 1.0):
        family = noise.Bernoulli(rate)
        applied = family.apply(tf.ones(every_word.shape), every_word)
        raw = family.from_words(every_word)
        np.testing.assert_array_equal(raw > 0, applied > 0)
        np.testing.assert_allclose(
            applied, family.factor_from_words(every_word), rtol=1e-7
        )


@every
def test_is_a_value_with_a_config(family):
    text = json.dumps(keras.saving.serialize_keras_object(family))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert again == family and hash(again) == hash(family)
    assert type(again) is type(family)
    if _fits(family):
        assert noise.get(json.loads(text)) == family
    changed = {
        name: value / 2 + 0.11 for name, value in family.get_config().items()
    }
    assert type(family)(**changed) != family
    assert family.describe()


def _fits(family):
    return not isinstance(family, noise.CenteredGaussian)


@pytest.mark.parametrize("name", families.NAMES)
def test_names(name):
    rate = 0.4 if name in ("bernoulli", "gaussian") else None
    family = noise.get(name, rate)
    assert family.kind == name
    assert family.active
    assert noise.get(family) == family


def test_strength_by_name_is_as_documented():
    """The rate of dropout with the same relative variance."""
    documented = {
        "rayleigh": 0.21,
        "inverse_nakagami": 0.12,
        "beta": 0.33,
        "uniform": 0.25,
        "log_normal": 0.22,
    }
    for name, rate in documented.items():
        family = noise.get(name)
        relative = family.variance / family.mean**2
        assert round(relative / (1 + relative), 2) == rate


def test_numpy_parameters_become_plain_ones():
    family = noise.Beta(np.float32(0.5), np.int64(2))
    assert all(type(v) is float for v in family.get_config().values())
    assert type(noise.Gaussian(np.float64(0.5)).rate) is float


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda: noise.Bernoulli(1.1), "rate"),
        (lambda: noise.Gaussian(1.0), "rate"),
        (lambda: noise.Rayleigh(0.0), "scale"),
        (lambda: noise.HalfCauchy(-1.0), "scale"),
        (lambda: noise.CenteredGaussian(math.nan), "scale"),
        (lambda: noise.InverseNakagami(0.0), "concentration"),
        (lambda: noise.InverseNakagami(1.0, None), "scale"),
        (lambda: noise.Beta(-1.0), "concentration1"),
        (lambda: noise.Beta(1.0, math.inf), "concentration0"),
        (lambda: noise.Uniform(1.0, 1.0), "high"),
        (lambda: noise.Uniform("0"), "low"),
        (lambda: noise.Uniform(0.0, math.inf), "high"),
        (lambda: noise.LogNormal(math.nan), "loc"),
        (lambda: noise.LogNormal(0.0, 0.0), "scale"),
        (lambda: noise.Rayleigh().marginal_prior(0.0), "sigma0"),
        (lambda: noise.Gaussian(0.0).marginal_prior(), "rate"),
        (lambda: noise.Rayleigh().sample(3, seed=1.5), "seed"),
    ],
)
def test_wrong_parameters(make, name):
    with pytest.raises(
        BayesdropError,
        match=f"Invalid value for argument `{name}`. Expected.*Received: ",
    ):
        make()


@pytest.mark.parametrize(
    "family, mean",
    [
        (noise.InverseNakagami(0.5, 1.0), "inf"),
        (noise.CenteredGaussian(), "0"),
        (noise.Uniform(-1.0, 1.0), "0"),
        (noise.LogNormal(0.0, 50.0), "inf"),
    ],
)
def test_noise_that_cannot_be_scaled_to_mean_one(family, mean):
    with pytest.raises(
        BayesdropError,
        match=f"cannot be scaled to mean 1. Expected.*Received: mean={mean}",
    ):
        noise.get(family)
    # It has a prior all the same.
    assert np.isfinite(family.marginal_prior().log_prob(0.5))


@every
def test_finite_in_half_precision_where_it_fits(family):
    if not _fits(family):
        return
    ones = tf.ones([6], tf.float16)
    y = family.apply(ones, tf.constant(words(0)))
    assert y.dtype == tf.float16
    if not isinstance(family, (noise.HalfCauchy, noise.InverseNakagami)):
        assert np.all(np.isfinite(y.numpy()))
    # A factor beyond float16 does not make NaN of a zero.
    np.testing.assert_array_equal(
        family.apply(0 * ones, tf.constant(words(0))), 0 * ones
    )
