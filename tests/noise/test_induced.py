# SPDX-License-Identifier: Apache-2.0
"""Priors that noise induces, against quadrature, SciPy and draws."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

from keras_bayesdrop import noise
from tests.noise.cases import CONTINUOUS
from tests.noise.cases import InverseNakagami

SIGMA = 0.7
# Weak, strong, narrow, signed and heavy-tailed noise beside the usual.
WIDE = (
    *(case[1:] for case in CONTINUOUS),
    (noise.Gaussian(1e-4), scipy.stats.norm(1, math.sqrt(1e-4 / (1 - 1e-4)))),
    (noise.Gaussian(0.02), scipy.stats.norm(1, math.sqrt(0.02 / 0.98))),
    (noise.Gaussian(0.9), scipy.stats.norm(1, 3)),
    (noise.InverseNakagami(0.4, 2.0), InverseNakagami(0.4, 2.0)),
    (noise.Beta(0.05, 4.0), scipy.stats.beta(0.05, 4)),
    (noise.Beta(2.5, 0.3), scipy.stats.beta(2.5, 0.3)),
    (noise.Beta(60.0, 40.0), scipy.stats.beta(60, 40)),
    (noise.Beta(3e3, 2e3), scipy.stats.beta(3e3, 2e3)),
    (noise.Uniform(), scipy.stats.uniform(0, 1)),
    (noise.Uniform(0.9, 1.1), scipy.stats.uniform(0.9, 0.2)),
    (noise.LogNormal(0.0, 3.0), scipy.stats.lognorm(3)),
)
wide = pytest.mark.parametrize(
    "family, reference", WIDE, ids=[repr(case[0]) for case in WIDE]
)
usual = pytest.mark.parametrize(
    "family", [case[1] for case in CONTINUOUS], ids=[c[0] for c in CONTINUOUS]
)


def _quadrature(reference, w):
    """The density of `xi * z` at `w`, by Gauss-Legendre over u = CDF(xi).

    The integrand is that of the definition, E[N(w; 0, sigma0^2 xi^2)]. Where
    it may have a pole, at the ends of u and where noise is zero, panels halve.
    """
    zero = float(reference.cdf(0.0))
    if 1e-9 < zero < 1 - 1e-9:
        pieces = [
            (reference.ppf, zero),
            (lambda u: reference.ppf(zero - u), zero),
            (lambda u: reference.ppf(zero + u), 1 - zero),
            (reference.isf, 1 - zero),
        ]
    else:
        pieces = [(reference.ppf, 1.0), (_isf(reference), 1.0)]
    points, weights = np.polynomial.legendre.leggauss(24)
    total = 0.0
    for function, length in pieces:
        ends = length * np.append(0.0, 0.5 ** np.arange(200.0, 0.0, -1.0))
        start, end = ends[:-1, None], ends[1:, None]
        u = start + (end - start) * (points + 1) / 2
        scale = SIGMA * np.abs(function(u))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            density = np.exp(-0.5 * (w / scale) ** 2) / scale
        density = np.where(scale > 0, density, 0.0) / math.sqrt(2 * math.pi)
        total += np.sum((end - start) / 2 * weights * density)
    return total


def _isf(reference):
    if isinstance(reference, InverseNakagami):
        return lambda u: np.sqrt(reference.square.isf(u))
    return reference.isf


@wide
def test_marginal_density_is_the_integral(family, reference):
    w = SIGMA * np.array([1e-3, 0.1, 0.5, 1.0, 2.5])
    prior = family.marginal_prior(SIGMA, "float64")
    expected = [_quadrature(reference, value) for value in w]
    # Both sides are quadratures; the panels of this one are the coarser.
    np.testing.assert_allclose(prior.prob(w), expected, rtol=1e-6)
    np.testing.assert_array_equal(prior.log_prob(w), prior.log_prob(-w))


@wide
def test_variance_density_is_that_of_the_square(family, reference):
    """Its integral over an interval is a difference of CDFs of `xi`."""
    prior = family.variance_prior("float64")
    edges = np.array([0.05, 0.3, 0.6, 0.85, 1.0, 1.18, 2.0, 4.5])
    points, weights = np.polynomial.legendre.leggauss(60)
    half = np.diff(edges)[:, None] / 2
    v = edges[:-1, None] + half * (points + 1)
    integrals = np.sum(half * weights * prior.prob(v).numpy(), axis=1)
    root = np.sqrt(edges)
    expected = np.diff(reference.cdf(root) - reference.cdf(-root))
    # 60 points do not resolve a jump of the uniform's density, nor the pole
    # of the Beta's at 1, nor a peak of width 0.01 or less.
    smooth = ~_rough(family, edges)
    np.testing.assert_allclose(
        integrals[smooth], expected[smooth], rtol=1e-8, atol=1e-13
    )
    assert np.any(smooth & (expected > 1e-3))


def _rough(family, edges):
    """Returns the intervals with an end of the noise, or a narrow peak."""
    ends = []
    if isinstance(family, noise.Uniform):
        ends = [family.low**2, family.high**2]
    elif isinstance(family, noise.Beta):
        ends = [1.0]
    rough = np.zeros(len(edges) - 1, bool)
    for end in ends:
        rough |= (edges[:-1] < end + 1e-9) & (edges[1:] > end - 1e-9)
    return rough


def test_named_priors():
    """The table of the paper, by SciPy."""
    w = np.array([-3.0, -0.2, 0.01, 0.5, 4.0, 30.0])
    v = np.array([0.01, 0.5, 3.0, 20.0])
    s = 0.7
    rayleigh = noise.Rayleigh(0.8)
    half_cauchy = noise.HalfCauchy(0.6)
    inverse = noise.InverseNakagami(2.5, 1.5)
    centered = noise.CenteredGaussian(1.3)
    gaussian = noise.Gaussian(0.2)
    y = 0.5 * (w / (0.6 * s)) ** 2
    stats = scipy.stats
    cases = (
        (rayleigh.marginal_prior, stats.laplace(scale=0.8 * s).logpdf(w)),
        (rayleigh.variance_prior, stats.expon(scale=2 * 0.8**2).logpdf(v)),
        (
            inverse.marginal_prior,
            stats.t(5, scale=s * math.sqrt(1.5 / 2.5)).logpdf(w),
        ),
        (inverse.variance_prior, stats.invgamma(2.5, scale=1.5).logpdf(v)),
        (
            half_cauchy.marginal_prior,
            # exp(y) * E1(y), which SciPy has as a Tricomi function U(1, 1, y).
            np.log(scipy.special.hyperu(1, 1, y))
            - math.log(math.sqrt(2 * math.pi**3) * 0.6 * s),
        ),
        (
            centered.marginal_prior,
            np.log(scipy.special.k0e(np.abs(w) / (1.3 * s)))
            - np.abs(w) / (1.3 * s)
            - math.log(math.pi * 1.3 * s),
        ),
        (centered.variance_prior, stats.chi2(1, scale=1.3**2).logpdf(v)),
        (
            gaussian.variance_prior,
            stats.ncx2(1, 1 / 0.25, scale=0.25).logpdf(v),
        ),
    )
    for make, expected in cases:
        if "marginal" in make.__name__:
            log_density = make(s, "float64").log_prob(w)
        else:
            log_density = make("float64").log_prob(v)
        np.testing.assert_allclose(log_density, expected, rtol=1e-9, atol=1e-9)


def test_spike_and_slab():
    prior = noise.Bernoulli(0.3).marginal_prior(SIGMA, "float64")
    slab = scipy.stats.norm(scale=SIGMA)
    np.testing.assert_allclose(
        prior.prob([0.0, 0.5, -2.0]),
        [0.3, 0.7 * slab.pdf(0.5), 0.7 * slab.pdf(2.0)],
        rtol=1e-12,
    )
    variance = noise.Bernoulli(0.3).variance_prior("float64")
    np.testing.assert_allclose(variance.prob([0.0, 1.0]), [0.3, 0.7])
    nothing_dropped = noise.Bernoulli(0.0).marginal_prior(SIGMA, "float64")
    np.testing.assert_allclose(nothing_dropped.prob(0.0), slab.pdf(0.0))
    all_dropped = noise.Bernoulli(1.0).marginal_prior(SIGMA, "float64")
    np.testing.assert_array_equal(all_dropped.prob([0.0, 0.5]), [1.0, 0.0])
    draws = prior.sample(20_000, seed=3).numpy()
    # 4 standard errors of 20,000 Bernoulli draws.
    error = 4 * math.sqrt(0.3 * 0.7 / 20_000)
    np.testing.assert_allclose(np.mean(draws == 0), 0.3, rtol=0, atol=error)
    kept = draws[draws != 0]
    assert scipy.stats.kstest(kept, slab.cdf).pvalue > 1e-4


# 16 tests of draws against densities, each at level 1e-4: of all seeds, one in
# 600 would fail. With 20,000 draws a CDF that is off by 0.016 is detected:
# sqrt(log(2 / 1e-4) / (2 * 20,000)).
LEVEL = 1e-4
DRAWS = 20_000


def _check_draws(draws, density, step):
    """Compares draws of positive numbers with the integral of a density.

    Over logarithms, since there may be a pole at zero and a heavy tail.
    """
    t = np.arange(-40.0, 40.0, step)
    mass = density(np.exp(t)) * np.exp(t)
    cdf = scipy.integrate.cumulative_simpson(mass, x=t, initial=0.0)
    # A jump of the density (below 1 in logarithms, at the end of the uniform)
    # costs at most a step of 0.005.
    np.testing.assert_allclose(cdf[-1], 1.0, rtol=0, atol=5e-3)
    test = scipy.stats.kstest(
        np.log(draws), lambda x: np.interp(x, t, cdf / cdf[-1])
    )
    assert test.pvalue > LEVEL


@usual
def test_draws_of_a_weight_have_its_density(family):
    prior = family.marginal_prior(SIGMA, "float64")
    draws = _sample(prior)
    # Symmetric: 4 standard errors of the share of positive numbers.
    np.testing.assert_allclose(
        np.mean(draws > 0), 0.5, rtol=0, atol=2 / math.sqrt(DRAWS)
    )
    _check_draws(np.abs(draws), lambda w: 2 * prior.prob(w).numpy(), 0.05)


@usual
def test_draws_of_a_variance_have_its_density(family):
    prior = family.variance_prior("float64")
    _check_draws(_sample(prior), lambda v: prior.prob(v).numpy(), 0.005)


def _sample(prior):
    ours = type(prior).__module__.startswith("keras_bayesdrop")
    return prior.sample(DRAWS, seed=11 if ours else (11, 0)).numpy()


@usual
def test_in_float32_and_with_gradients(family):
    w = tf.constant([-2.0, 1e-3, 0.3, 5.0])
    for make, value in (
        (lambda dtype: family.marginal_prior(SIGMA, dtype), w),
        (lambda dtype: family.variance_prior(dtype), w**2 / 30),
    ):
        with tf.GradientTape() as tape:
            tape.watch(value)
            log_density = make("float32").log_prob(value)
        slope = tape.gradient(log_density, value)
        assert log_density.dtype == tf.float32
        wide = tf.cast(value, tf.float64)
        step = 1e-5 * wide
        exact = make("float64").log_prob
        # Sums of a thousand exponentials in float32.
        np.testing.assert_allclose(
            log_density, exact(wide), rtol=1e-4, atol=1e-4
        )
        numeric = (exact(wide + step) - exact(wide - step)) / (2 * step)
        np.testing.assert_allclose(slope, numeric, rtol=2e-3, atol=1e-4)


def test_at_zero():
    """A pole if small noise is likely enough, and a number if not."""
    poles = (
        noise.Gaussian(0.2),
        noise.CenteredGaussian(),
        noise.HalfCauchy(),
        noise.Beta(1.0, 2.0),
        noise.Uniform(),
    )
    for family in poles:
        assert family.marginal_prior(1.0, "float64").prob(0.0) == math.inf
    # E[1 / xi] / (sigma0 * sqrt(2 * pi)), for a Beta (a + b - 1) / (a - 1).
    for family, mean in (
        (noise.Beta(3.0, 2.0), 2.0),
        (noise.LogNormal(0.0, 0.5), math.exp(0.125)),
        (noise.Uniform(1.0, 2.0), math.log(2.0)),
    ):
        density = family.marginal_prior(SIGMA, "float64").prob(0.0)
        expected = mean / (SIGMA * math.sqrt(2 * math.pi))
        np.testing.assert_allclose(density, expected, rtol=1e-8)


def test_what_a_layer_induces():
    """Divided by the normalizer, noise is that of another `sigma0`."""
    family = noise.Rayleigh(3.0)
    scaled = noise.Rayleigh(3.0 / family.normalizer)
    w = np.array([0.1, 1.0])
    np.testing.assert_allclose(
        family.marginal_prior(0.5 / family.normalizer).log_prob(w),
        scaled.marginal_prior(0.5).log_prob(w),
        rtol=1e-6,
    )
