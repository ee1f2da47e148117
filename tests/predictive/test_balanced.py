# SPDX-License-Identifier: Apache-2.0
"""Predictions with balanced draws, against the definitions."""

import dataclasses

import numpy as np
import pytest

from keras_bayesdrop.calibrate._tempering import temper_mean
from keras_bayesdrop.calibrate._tempering import temper_samples
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import quantities
from keras_bayesdrop.predictive.ensemble import point
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK
from tests.predictive.cases import make_stats
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit

COUNTS = (32, 33, 47, 48, 50, 64, 130)
SAMPLES = {"classification": simplex, "binary": unit, "regression": normal}


def predictive(num_samples, head="regression", draws="balanced", **fields):
    samples = SAMPLES[head]((7, 3), num_samples, dtype="float64")
    stats = make_stats(num_samples, 7, draws=draws)
    return Predictive.from_samples(samples, head, stats=stats, **fields)


def blocks_of(samples):
    """The samples of each block of 16; the last may have fewer."""
    return [samples[at : at + 16] for at in range(0, len(samples), 16)]


def from_definitions(samples):
    """Variance of the mean, by V and C of the definition, and the variance."""
    blocks = blocks_of(samples)
    whole = [block.mean(axis=0) for block in blocks if len(block) == 16]
    within = sum(
        np.sum((block - block.mean(axis=0)) ** 2, axis=0) for block in blocks
    )
    inner = within / (len(samples) - len(blocks))  # V - C
    outer = 16 * np.var(whole, axis=0, ddof=1)  # V + 15 C
    covariance = (outer - inner) / 16
    variance = inner + covariance
    of_mean = (
        sum(
            len(block) * (variance + (len(block) - 1) * covariance)
            for block in blocks
        )
        / len(samples) ** 2
    )
    return samples.var(axis=0) + of_mean, of_mean


@pytest.mark.parametrize("num_samples", COUNTS)
@pytest.mark.parametrize("head", SAMPLES)
def test_definitions(head, num_samples):
    p = predictive(num_samples, head)
    variance, of_mean = from_definitions(p.samples)
    np.testing.assert_allclose(p.variance, variance, rtol=1e-12)
    np.testing.assert_allclose(p.mean_variance, of_mean, rtol=1e-10)
    # The blend, and its largest value.
    blocks, alone = num_samples // 16, variance / num_samples
    blend = (4 * alone + (blocks - 1) * of_mean) / (4 + blocks - 1)
    assert np.any(blend > 16 / 15 * alone) and np.any(blend < alone)
    np.testing.assert_allclose(
        p.mc_error**2, np.minimum(blend, 16 / 15 * alone), rtol=1e-12
    )


@pytest.mark.parametrize("num_samples", [32, 64, 128])
def test_whole_blocks(num_samples):
    """With whole blocks the formula is (15 (V - C) + (V + 15 C)) / 16."""
    p = predictive(num_samples)
    blocks = np.stack(blocks_of(p.samples))
    inner = blocks.var(axis=1, ddof=1).mean(axis=0)
    outer = 16 * blocks.mean(axis=1).var(axis=0, ddof=1)
    np.testing.assert_allclose(p.variance, (15 * inner + outer) / 16)
    np.testing.assert_allclose(p.mean_variance, outer / num_samples)


@pytest.mark.parametrize("num_samples", [2, 15, 16, 17, 31])
def test_fewer_than_two_blocks_have_the_error_of_independent_draws(
    num_samples,
):
    p = predictive(num_samples)
    plain = predictive(num_samples, draws="independent")
    assert plain.mean_variance is None
    np.testing.assert_array_equal(p.variance, plain.variance)
    np.testing.assert_allclose(p.mc_error, plain.mc_error, rtol=1e-12)
    np.testing.assert_allclose(p.mean_variance, p.variance / num_samples)


@pytest.mark.parametrize("head", ["classification", "binary"])
@pytest.mark.parametrize("num_samples", [20, 50, 64])
def test_parts_of_the_variance_of_labels(num_samples, head):
    p = predictive(num_samples, head)
    noise = (p.samples * (1 - p.samples)).mean(axis=0)
    np.testing.assert_allclose(p.aleatoric, noise, rtol=1e-10)
    for name in (
        "predictive_entropy",
        "expected_entropy",
        "mutual_information",
        "variation_ratio",
    ):
        plain = predictive(num_samples, head, "independent")
        np.testing.assert_array_equal(getattr(p, name), getattr(plain, name))


def test_blocks_that_agree_say_that_the_mean_is_exact():
    block = normal((7, 3), 16, dtype="float64")
    samples = np.concatenate([block] * 4)
    p = Predictive.from_samples(
        samples, stats=make_stats(64, 7, draws="balanced")
    )
    scale = p.variance.max()
    np.testing.assert_allclose(p.mean_variance, 0.0, atol=1e-14 * scale)
    np.testing.assert_allclose(p.variance, block.var(axis=0), rtol=1e-12)
    np.testing.assert_allclose(
        p.mc_error, np.sqrt(4 / 7 * p.variance / 64), rtol=1e-12
    )


def test_constant_samples():
    samples = np.full((50, 3, 2), 0.1)
    p = Predictive.from_samples(
        samples, stats=make_stats(50, 3, draws="balanced")
    )
    # The mean of equal numbers differs from them by its rounding at most.
    assert np.all(p.variance < 1e-30) and np.all(p.mc_error < 1e-15)


@pytest.mark.parametrize("num_samples", COUNTS)
def test_covariance(num_samples):
    p = predictive(num_samples)
    covariance = p.covariance()
    np.testing.assert_allclose(
        np.diagonal(covariance, axis1=1, axis2=2), p.variance, rtol=1e-10
    )
    # A covariance follows from the variances of sums and of differences.
    for i, j in ((0, 1), (0, 2), (1, 2)):
        parts = [
            from_definitions(p.samples[..., i] + sign * p.samples[..., j])[0]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            covariance[:, i, j],
            (parts[0] - parts[1]) / 4,
            rtol=1e-9,
            atol=1e-12,
        )


def test_rows_outputs_and_files(tmp_path):
    p = predictive(50)
    for part, index in (
        (p[2:5], np.s_[2:5]),
        (p[[6, 1]], np.s_[[6, 1]]),
        (p[:, 1], np.s_[:, 1]),
    ):
        np.testing.assert_array_equal(
            part.mean_variance, p.mean_variance[index]
        )
        np.testing.assert_array_equal(part.mc_error, p.mc_error[index])
    p.save(tmp_path / "p.npz")
    loaded = Predictive.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.mean_variance, p.mean_variance)
    np.testing.assert_array_equal(loaded.mc_error, p.mc_error)


def test_rows_with_their_own_numbers_of_samples():
    parts = [predictive(number) for number in (16, 32, 160)]
    fields = {
        name: np.concatenate([getattr(p, name)[:1] for p in parts])
        for name in ("mean", "variance", "mean_variance")
    }
    whole = Predictive(
        head="regression",
        stats=make_stats(160, 3, draws="balanced"),
        num_samples_used=np.array([16, 32, 160]),
        **fields,
    )
    wanted = np.concatenate([p.mc_error[:1] for p in parts])
    np.testing.assert_allclose(whole.mc_error, wanted, rtol=1e-12)


@pytest.mark.parametrize("head", SAMPLES)
def test_ensemble(head):
    members = [predictive(50, head), predictive(50, head)]
    members[1] = dataclasses.replace(
        members[1],
        mean=members[0].mean[::-1],
        mean_variance=2 * members[1].mean_variance,
    )
    p = Predictive.from_members(members)
    errors = [each.mc_error**2 for each in members]
    np.testing.assert_allclose(p.mc_error**2, sum(errors) / 4, rtol=1e-12)
    of_means = [each.mean_variance for each in members]
    within = np.mean(
        [each.variance - each.mean_variance for each in members], axis=0
    )
    np.testing.assert_allclose(p.within, within, rtol=1e-12)
    np.testing.assert_allclose(
        p.variance, p.within + p.between + sum(of_means) / 4, rtol=1e-12
    )
    # Its samples are those of several networks, no blocks of one.
    again = Predictive.from_samples(p.samples, head, stats=p.stats)
    assert again.mean_variance is None


@pytest.mark.parametrize("draws", ["balanced", "independent"])
def test_ensemble_with_a_network_without_noise(draws):
    """It is a sample by itself, whatever the draws of the others."""
    noisy = predictive(50, draws=draws)
    alone = Predictive(**point(noisy.head, make_stats(50, 7), noisy.mean + 1.0))
    p = Predictive.from_members([alone, noisy])
    of_mean = noisy.mean_variance
    if draws == "independent":
        of_mean = noisy.variance / 50
    whole = p.within + p.between + of_mean / 4
    # Independent draws: 1 - 1/4 - 1/200 below, and nothing is added.
    rtol = 1e-12 if draws == "balanced" else 0.02
    np.testing.assert_allclose(p.variance, whole / (1 - 1 / 4), rtol=rtol)
    np.testing.assert_allclose(p.mc_error, noisy.mc_error / 2, rtol=1e-12)


@pytest.mark.parametrize("keep", [True, False])
def test_temperature(keep):
    p = predictive(50, "classification")
    if not keep:
        p = dataclasses.replace(p, samples=None)
    tempered = temper_samples(p, 1.5) if keep else temper_mean(p, 1.5)
    if keep:
        again = Predictive.from_samples(
            tempered.samples, "classification", stats=p.stats
        )
        np.testing.assert_allclose(tempered.variance, again.variance)
        np.testing.assert_allclose(tempered.mc_error, again.mc_error)
    else:
        ratio = tempered.mean_variance / tempered.variance
        np.testing.assert_allclose(ratio, p.mean_variance / p.variance)


def test_counter_blocks_are_those_of_the_contract():
    assert quantities.SAMPLES_PER_BLOCK == SAMPLES_PER_BLOCK == 16


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean_variance": -np.ones((2, 1))}, "which are not negative"),
        ({"mean_variance": np.ones((2, 2))}, "Invalid shape"),
        ({"mean_variance": np.ones((2, 1)), "stats": None}, "is not known"),
    ],
)
def test_refused(fields, message):
    whole = {"stats": make_stats(50, 2), **fields}
    with pytest.raises(BayesdropError, match=message):
        Predictive(
            head="regression",
            mean=np.zeros((2, 1)),
            variance=np.ones((2, 1)),
            **whole,
        )
