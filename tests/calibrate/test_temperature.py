# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import pickle

import numpy as np
import pytest
import scipy.special
import scipy.stats
from scipy.optimize import minimize_scalar

from keras_bayesdrop import calibrate
from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.errors import NonFiniteError
from tests.metrics import cases


def best(negative_log_likelihood):
    """By the bounded search of SciPy, in the temperature itself."""
    return minimize_scalar(
        negative_log_likelihood,
        bounds=(0.1, 15),
        method="bounded",
        options={"xatol": 1e-9},
    ).x


def mc_classes(rows=300, samples=6, dtype="float64"):
    """Samples `[T, rows, 4]` of a model that is too sure, and labels."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((rows, 4))
    y = np.argmax(logits + rng.gumbel(size=(rows, 4)), axis=1)
    noisy = logits + 0.5 * rng.standard_normal((samples, rows, 4))
    draws = scipy.special.softmax(4 * noisy, axis=-1).astype(dtype)
    return prediction("classification", draws), y


def prediction(task, samples):
    p = cases.predictive(task, samples.mean(axis=0))
    return dataclasses.replace(
        p,
        stats=dataclasses.replace(p.stats, num_samples=len(samples)),
        variance=samples.var(axis=0, ddof=1),
        samples=samples,
    )


def test_of_probabilities_and_of_logits():
    p, y = cases.classes(300)

    def nll(h):
        tempered = scipy.special.softmax(np.log(p) / h, axis=1)
        return metrics.negative_log_likelihood(y, tempered)

    fit = calibrate.temperature(y, p)
    assert fit.of == "mean"
    assert fit.temperature == pytest.approx(best(nll), rel=1e-5)
    # The logits of the case are too large by a factor of 3.
    assert fit.temperature == pytest.approx(3, rel=0.3)
    again = calibrate.temperature(y, np.log(p) + 7, from_logits=True)
    assert again.temperature == pytest.approx(fit.temperature)
    expected = scipy.special.softmax(np.log(p) / fit.temperature, axis=1)
    np.testing.assert_allclose(fit.apply(p), expected)
    np.testing.assert_allclose(
        fit.apply(np.log(p) + 7, from_logits=True), expected
    )
    one_hot = calibrate.temperature(np.eye(4)[y], p)
    assert one_hot == fit


def test_of_binary_labels():
    p, y = cases.binary(300)
    logits = scipy.special.logit(p)
    fit = calibrate.temperature(y, p)
    expected = best(
        lambda h: metrics.negative_log_likelihood(
            y, scipy.special.expit(logits / h)
        )
    )
    assert fit.temperature == pytest.approx(expected, rel=1e-5)
    again = calibrate.temperature(y, logits[:, None], from_logits=True)
    assert again.temperature == pytest.approx(fit.temperature)
    np.testing.assert_allclose(
        fit.apply(p), scipy.special.expit(logits / fit.temperature)
    )
    both = np.stack([1 - p, p], axis=1)
    as_classes = calibrate.temperature(y, both)
    assert as_classes.temperature == pytest.approx(fit.temperature)
    np.testing.assert_allclose(as_classes.apply(both)[:, 1], fit.apply(p))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_are_tempered_and_then_averaged(dtype):
    p, y = mc_classes(dtype=dtype)
    logs = np.log(p.samples.astype("float64"))

    def averaged(h):
        return scipy.special.softmax(logs / h, axis=-1).mean(axis=0)

    fit = calibrate.temperature(y, p)
    expected = best(lambda h: metrics.negative_log_likelihood(y, averaged(h)))
    assert fit.of == "samples"
    # The likelihood is flat at its maximum: float32 has half its digits there.
    rtol = 1e-5 if dtype == "float64" else 2e-3
    assert fit.temperature == pytest.approx(expected, rel=rtol)
    new = fit.apply(p)
    np.testing.assert_allclose(new.mean, averaged(fit.temperature), rtol=1e-5)
    np.testing.assert_allclose(
        new.samples,
        scipy.special.softmax(logs / fit.temperature, axis=-1),
        rtol=2e-5,
    )
    np.testing.assert_allclose(
        new.variance,
        new.samples.astype("float64").var(axis=0, ddof=1),
        rtol=1e-4,
    )
    assert new.samples.dtype == new.mean.dtype == np.dtype(dtype)
    # All that is derived belongs to the tempered samples.
    entropy = scipy.stats.entropy(new.samples.astype("float64"), axis=-1)
    np.testing.assert_allclose(
        new.expected_entropy, entropy.mean(axis=0), rtol=1e-4
    )
    np.testing.assert_array_equal(new.variation_ratio, p.variation_ratio)
    assert metrics.negative_log_likelihood(y, new) < (
        metrics.negative_log_likelihood(y, p) - 0.1
    )
    assert metrics.expected_calibration_error(y, new) < (
        metrics.expected_calibration_error(y, p) / 2
    )


def test_stale_parts_are_left_out():
    p, y = mc_classes(50)
    p = dataclasses.replace(
        p,
        quantile_levels=(0.5,),
        quantile_values=np.quantile(p.samples, [0.5], axis=0),
        mean_entropy=np.ones(50),
        vote_counts=np.full((50, 4), 2),
    )
    fit = calibrate.temperature(y, p)
    new = fit.apply(p)
    assert new.quantile_levels is None and new.mean_entropy is None
    np.testing.assert_allclose(
        new.quantile(0.5), np.quantile(new.samples, 0.5, axis=0)
    )
    np.testing.assert_array_equal(new.vote_counts, p.vote_counts)


def test_binary_samples():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal(200)
    y = rng.uniform(size=200) < scipy.special.expit(logits)
    noisy = 3 * (logits + 0.5 * rng.standard_normal((5, 200)))
    p = prediction("binary", scipy.special.expit(noisy))
    fit = calibrate.temperature(y, p)
    expected = best(
        lambda h: metrics.negative_log_likelihood(
            y, scipy.special.expit(noisy / h).mean(axis=0)
        )
    )
    assert fit.temperature == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(
        fit.apply(p).mean,
        scipy.special.expit(noisy / fit.temperature).mean(axis=0),
    )


def test_mean_alone():
    p, y = mc_classes()
    alone = dataclasses.replace(p, samples=None)
    fit = calibrate.temperature(y, alone)
    array = calibrate.temperature(y, p.mean)
    assert fit == array
    new = fit.apply(alone)
    np.testing.assert_allclose(new.mean, fit.apply(p.mean))
    assert new.samples is None
    # Samples that were not tempered do not belong to the new mean.
    assert fit.apply(p).samples is None
    with pytest.raises(MissingSamplesError, match="mutual_information"):
        _ = new.mutual_information


def test_variance_of_a_tempered_mean_is_that_of_narrow_samples():
    # So narrow that the derivative is all that matters.
    rng = np.random.default_rng(0)
    centre = scipy.special.logit(rng.uniform(0.1, 0.9, size=20))
    draws = scipy.special.expit(centre + 1e-3 * rng.standard_normal((50, 20)))
    p = prediction("binary", draws)
    by_samples = calibrate.Temperature(2.0, "samples").apply(p)
    by_mean = calibrate.Temperature(2.0, "mean").apply(p)
    np.testing.assert_allclose(by_mean.variance, by_samples.variance, rtol=0.01)
    # Wide, and next to 0: never more than a probability can vary.
    p = dataclasses.replace(
        p, mean=np.full(20, 1e-9), variance=np.full(20, 1e-9)
    )
    new = calibrate.Temperature(5.0, "mean").apply(p)
    assert np.all(new.variance <= new.mean * (1 - new.mean))


def test_one_is_the_identity():
    p, _ = mc_classes(50)
    for of in ("samples", "mean"):
        new = calibrate.Temperature(1.0, of).apply(p)
        np.testing.assert_allclose(new.mean, p.mean)
        np.testing.assert_allclose(new.variance, p.variance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_probabilities_of_zero_and_one(dtype):
    # A wrong row that is certain: the likelihood is zero at any temperature,
    # unless zero counts as a small number.
    p = np.tile(np.array([[1.0, 0.0], [0.9, 0.1]], dtype), (20, 1))
    y = np.zeros(40, int)
    y[[0, 1, 3]] = 1
    for prob in (p, p[:, 1]):
        fit = calibrate.temperature(y, prob)
        assert fit.temperature > 1
        tempered = fit.apply(prob)
        assert np.all(np.isfinite(tempered))
        assert np.isfinite(metrics.negative_log_likelihood(y, tempered))


def test_travels():
    fit = calibrate.Temperature(1.5, "samples")
    assert pickle.loads(pickle.dumps(fit)) == fit
    text = json.dumps(fit.to_dict())
    assert calibrate.Temperature.from_dict(json.loads(text)) == fit


def test_labels_without_a_best_temperature():
    p = np.array([[0.7, 0.3], [0.6, 0.4]])
    with pytest.raises(BayesdropError, match=r"all predicted right.*\(2,\)"):
        calibrate.temperature([0, 0], p)
    with pytest.raises(BayesdropError, match=r"all predicted wrong"):
        calibrate.temperature([1, 1], p)


def test_bad_input():
    p, y = mc_classes(20)
    fit = calibrate.temperature(y, p)
    with pytest.raises(MissingSamplesError, match="fitted to samples"):
        fit.apply(dataclasses.replace(p, samples=None))
    r = cases.predictive("regression", np.ones(3))
    for call in (lambda: fit.apply(r), lambda: calibrate.temperature(y, r)):
        with pytest.raises(BayesdropError, match="Received: task='regression'"):
            call()
    with pytest.raises(BayesdropError, match=r"\[0, 1\].*\(1, 2\)"):
        calibrate.temperature([0], [[2.0, 3.0]])
    with pytest.raises(NonFiniteError, match="1 values"):
        calibrate.temperature([0], [[2.0, np.nan]], from_logits=True)
    with pytest.raises(BayesdropError, match=r"`y`.*\(20,\).*\(3,\)"):
        calibrate.temperature([0, 1, 2], p)
    with pytest.raises(BayesdropError, match="at least one example"):
        calibrate.temperature([], np.ones((0, 3)))
    for value in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(BayesdropError, match="`temperature`"):
            calibrate.Temperature(value, "mean")
    with pytest.raises(BayesdropError, match=r"`of`.*'samples', 'mean'"):
        calibrate.Temperature(1.0, "x")
