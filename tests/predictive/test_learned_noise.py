# SPDX-License-Identifier: Apache-2.0
"""Predictions whose noise the model predicts, or has several precisions."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Heteroscedastic
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import mixture
from keras_bayesdrop.predictive.mixture import mixture_quantile
from tests.predictive.cases import normal


def variances(shape, num_samples=20, seed=1, spread=1.0, dtype="float32"):
    rng = np.random.default_rng(seed)
    logs = spread * rng.standard_normal((num_samples, *shape))
    return np.exp(logs).astype(dtype)


def make(shape=(6, 2), dtype="float64", **options):
    return Predictive.from_samples(
        normal(shape, dtype=dtype),
        "heteroscedastic",
        noise_samples=variances(shape, dtype=dtype),
        **options,
    )


def without_samples(p, method="sampling"):
    stats = dataclasses.replace(p.stats, method=method)
    return dataclasses.replace(p, samples=None, noise_samples=None, stats=stats)


def test_parts_of_the_variance():
    p = make()
    assert p.task == "heteroscedastic"
    np.testing.assert_allclose(p.mean, p.samples.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(
        p.epistemic, p.samples.var(axis=0, ddof=1), rtol=1e-13
    )
    np.testing.assert_allclose(
        p.aleatoric, p.noise_samples.mean(axis=0), rtol=1e-14
    )
    np.testing.assert_array_equal(p.total, p.epistemic + p.aleatoric)
    assert p.noise_precision is None


def test_types_are_those_of_the_mean():
    p = make(dtype="float32")
    for name in ("mean", "aleatoric", "total", "noise_variance"):
        assert getattr(p, name).dtype == "float32", name
    lower, upper = p.interval()
    assert lower.dtype == upper.dtype == "float32"


def mixture_cdf(p, y, row, output):
    z = (y - p.samples[:, row, output]) / np.sqrt(
        p.noise_samples[:, row, output]
    )
    return scipy.stats.norm.cdf(z).mean()


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_interval_is_that_of_the_mixture(level):
    p = make()
    ends = p.interval(level)
    for end, tail in zip(ends, (1 - level, 1 + level), strict=True):
        for row in range(6):
            for output in range(2):
                cdf = mixture_cdf(p, end[row, output], row, output)
                # The quantile is right to 1e-9 of the smallest noise.
                assert cdf == pytest.approx(tail / 2, abs=1e-9)


@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
@pytest.mark.parametrize("q", [1e-6, 0.05, 0.5, 0.97])
def test_mixture_quantile_of_very_different_parts(spread, q):
    """Against a root by bisection, for noise over 20 orders of magnitude."""
    samples = normal((5,), dtype="float64")
    noise = np.sqrt(variances((5,), spread=spread, dtype="float64"))
    quantiles = mixture_quantile(samples, noise, q)
    for row, value in enumerate(quantiles):

        def excess(y, row=row):
            z = (y - samples[:, row]) / noise[:, row]
            return scipy.stats.norm.cdf(z).mean() - q

        reach = 10 * noise[:, row].max() + 20
        root = scipy.optimize.brentq(excess, -reach, reach, xtol=1e-12)
        # brentq stops within xtol, or 4 roundings of the root.
        assert value == pytest.approx(root, rel=1e-8, abs=1e-8)


def test_one_noise_for_all_parts_is_one_number():
    samples = normal((5, 3))
    one = mixture_quantile(samples, 0.7, 0.2)
    per_output = mixture_quantile(samples, np.full(3, 0.7), 0.2)
    per_part = mixture_quantile(samples, np.full(samples.shape, 0.7), 0.2)
    np.testing.assert_array_equal(one, per_output)
    np.testing.assert_allclose(one, per_part, rtol=1e-9)


def test_log_likelihood_against_scipy():
    p = make()
    y = np.random.default_rng(3).normal(3.0, 3.0, (6, 2))
    densities = scipy.stats.norm.pdf(y, p.samples, np.sqrt(p.noise_samples))
    expected = np.log(densities.prod(axis=-1).mean(axis=0))
    np.testing.assert_allclose(p.log_likelihood(y), expected, rtol=1e-12)


def test_density_of_one_output_integrates_to_its_interval():
    p = make((4, 1))
    lower, upper = p.interval(0.8)
    for row in range(4):
        one = p[row]
        mass, error = scipy.integrate.quad(
            lambda y, one=one: float(np.exp(one.log_likelihood([[y]])[0])),
            lower[row, 0],
            upper[row, 0],
            limit=500,
        )
        assert mass == pytest.approx(0.8, abs=error + 1e-8)


def test_log_likelihood_far_from_all_samples_is_finite():
    p = make((1, 1))
    assert math.isfinite(p.log_likelihood([[1e6]])[0])


def test_without_samples_a_normal_of_the_total_variance():
    whole = make()
    p = without_samples(whole, "moments")
    z = scipy.stats.norm.ppf(0.95)
    lower, upper = p.interval(0.9)
    np.testing.assert_allclose(lower, p.mean - z * np.sqrt(p.total))
    np.testing.assert_allclose(upper, p.mean + z * np.sqrt(p.total))
    y = np.full((6, 2), 2.5)
    expected = scipy.stats.norm.logpdf(y, p.mean, np.sqrt(p.total)).sum(-1)
    np.testing.assert_allclose(p.log_likelihood(y), expected)
    # Quantiles are those of the mean, without the noise.
    np.testing.assert_allclose(p.quantile(0.95), p.mean + z * p.std)
    with pytest.raises(MissingSamplesError, match="log_likelihood"):
        without_samples(whole).log_likelihood(y)


def test_quantiles_are_those_of_the_means():
    p = make(quantiles=[0.1, 0.9])
    expected = np.quantile(p.samples, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(p.quantile([0.1, 0.9]), expected)
    stored = without_samples(p)
    np.testing.assert_allclose(stored.quantile(0.1), expected[0])
    # An interval is one of observations, and has the noise in it.
    lower, _ = stored.interval(0.8)
    assert (lower < stored.quantile(0.1)).all()


def test_distribution_is_the_mixture():
    p = make((3, 2), dtype="float32")
    y = np.linspace(-2, 8, 6).reshape(3, 2).astype("float32")
    distribution = p.to_distribution()
    densities = scipy.stats.norm.pdf(
        y, p.samples.astype(float), np.sqrt(p.noise_samples.astype(float))
    )
    # Twenty terms in float32.
    np.testing.assert_allclose(
        distribution.prob(y), densities.mean(axis=0), rtol=1e-4
    )
    np.testing.assert_allclose(distribution.mean(), p.mean, rtol=1e-4)
    total = p.samples.var(axis=0) + p.noise_samples.mean(axis=0)
    np.testing.assert_allclose(distribution.variance(), total, rtol=1e-3)
    by_moments = without_samples(p, "moments").to_distribution()
    np.testing.assert_allclose(by_moments.variance(), p.total, rtol=1e-5)


def test_rows_and_file_carry_the_noise(tmp_path):
    p = make(quantiles=[0.5])
    some = p[[4, 1]]
    np.testing.assert_array_equal(some.noise_variance, p.noise_variance[[4, 1]])
    np.testing.assert_array_equal(
        some.noise_samples, p.noise_samples[:, [4, 1]]
    )
    path = tmp_path / "p.npz"
    p.save(path)
    loaded = Predictive.load(path)
    assert loaded.head == p.head == Heteroscedastic()
    for name in ("mean", "samples", "noise_variance", "noise_samples"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(p, name))
    np.testing.assert_array_equal(loaded.interval(), p.interval())


def test_a_prediction_names_no_outputs():
    head = Heteroscedastic(mean="a", log_variance="b", log_variance_limit=5.0)
    p = Predictive(
        head=head,
        mean=np.zeros((2, 1)),
        variance=np.ones((2, 1)),
        noise_variance=np.ones((2, 1)),
    )
    assert p.head == Heteroscedastic(log_variance_limit=5.0)
    assert p.stats.method == "moments"


def test_without_noise_is_the_function():
    p = make().without_noise()
    assert p.head == Regression()
    assert not p.aleatoric.any()
    assert p.noise_samples is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise_variance": None}, "`noise_variance`.*Expected an array.*None"),
        ({"noise_samples": None}, "`noise_samples`.*with samples.*None"),
        ({"samples": None}, "`noise_samples`.*Expected None.*without samples"),
        ({"noise_variance": np.zeros((6, 2))}, "noise_variance.*positive.*12"),
        ({"noise_variance": np.full((6, 2), np.nan)}, "`noise_variance`.*12"),
        ({"noise_variance": np.ones((6, 1))}, r"`noise_variance`.*\(6, 1\)"),
        ({"noise_samples": np.ones((3, 6, 2))}, r"`noise_samples`.*\(3, 6, 2"),
        ({"head": "regression"}, "`noise_variance`.*Expected None.*regression"),
    ],
    ids=str,
)
def test_noise_that_does_not_fit(fields, message):
    p = make()
    with pytest.raises(BayesdropError, match=message + ".*"):
        dataclasses.replace(p, **fields)


@pytest.mark.parametrize(
    ("head", "noise", "message"),
    [
        ("heteroscedastic", None, "Expected an array like.*np.split.*=None"),
        ("regression", "fits", "`noise_samples`.*`None` for others.*an array"),
        ("heteroscedastic", np.ones((20, 6, 1)), r"shape.*\(20, 6, 1\)"),
        ("heteroscedastic", np.zeros((20, 6, 2)), "positive, finite.*12"),
        ("heteroscedastic", np.full((20, 6, 2), np.inf), "`noise_samples`.*12"),
    ],
    ids=str,
)
def test_bad_noise_samples(head, noise, message):
    if isinstance(noise, str):
        noise = np.ones((20, 6, 2))
    with pytest.raises(BayesdropError, match=message):
        Predictive.from_samples(normal((6, 2)), head, noise_samples=noise)


# Precisions of a regression.


def test_with_noise_is_another_head():
    p = Predictive.from_samples(normal((6, 2)))
    noisy = p.with_noise(noise_precision=4.0)
    assert noisy.head == Regression(noise_precision=4.0)
    assert p.head == Regression()
    np.testing.assert_array_equal(noisy.samples, p.samples)
    assert (noisy.aleatoric == 0.25).all()
    assert noisy.with_noise(noise_precision=None).head == Regression()


def test_with_noise_is_for_regressions():
    binary = Predictive.from_samples(np.full((3, 2, 1), 0.5), "binary")
    for p in (make(), binary):
        with pytest.raises(
            BayesdropError, match=r"head='regression'.*Received: head="
        ):
            p.with_noise(noise_precision=4.0)


def test_precisions_of_each_output():
    p = Predictive.from_samples(
        normal((6, 2), dtype="float64"), Regression(noise_precision=[4.0, 0.25])
    )
    stds = np.array([0.5, 2.0])
    np.testing.assert_allclose(p.aleatoric, np.tile(stds**2, (6, 1)))
    y = np.random.default_rng(3).normal(3.0, 3.0, (6, 2))
    densities = scipy.stats.norm.pdf(y, p.samples, stds)
    expected = np.log(densities.prod(axis=-1).mean(axis=0))
    np.testing.assert_allclose(p.log_likelihood(y), expected, rtol=1e-12)
    lower, upper = p.interval(0.9)
    for output, std in enumerate(stds):
        one = Predictive.from_samples(
            p.samples[..., [output]], Regression(noise_precision=std**-2)
        )
        one_lower, one_upper = one.interval(0.9)
        np.testing.assert_allclose(lower[:, [output]], one_lower)
        np.testing.assert_allclose(upper[:, [output]], one_upper)
    means = densities.mean(axis=0)
    np.testing.assert_allclose(p.to_distribution().prob(y), means, rtol=1e-10)


def test_precisions_survive_a_file(tmp_path):
    p = Predictive.from_samples(
        normal((6, 2)), Regression(noise_precision=[4.0, 0.25])
    )
    p.save(tmp_path / "p.npz")
    assert Predictive.load(tmp_path / "p.npz").head == p.head


@pytest.mark.parametrize("shape", [(6, 3), (6,), (6, 2, 1)])
def test_precisions_that_do_not_fit(shape):
    with pytest.raises(
        BayesdropError, match=r"noise_precision.*last axis.*2 precisions"
    ):
        Predictive.from_samples(normal(shape), Regression([1.0, 2.0]))


def test_mixture_quantiles_take_few_steps(monkeypatch):
    """Newton's steps need the slope of the mixture with all its scales."""
    calls = []
    exact = mixture.normal_cdf

    def counted(z):
        calls.append(z.shape)
        return exact(z)

    monkeypatch.setattr(mixture, "normal_cdf", counted)
    samples = normal((200,), dtype="float64")
    noise = np.sqrt(variances((200,), spread=2.0, dtype="float64"))
    mixture_quantile(samples, noise, 0.2)
    # Bisection alone halves a bracket to 1e-9 in 30 steps and more.
    assert len(calls) < 25
