# SPDX-License-Identifier: Apache-2.0
"""Formulas give the same numbers with NumPy and with TensorFlow.

`Predictive`, an exported model, metrics and the tolerance of a prediction use
them: each of these notices a formula that changes.
"""

import dataclasses

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.metrics import negative_log_likelihood
from keras_bayesdrop.metrics import pinball_loss
from keras_bayesdrop.prediction.sampling.accumulate import SampleMoments
from keras_bayesdrop.prediction.sampling.tolerance import Tolerance
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive import binary
from keras_bayesdrop.predictive import classes
from keras_bayesdrop.predictive import quantities
from keras_bayesdrop.predictive import regression
from keras_bayesdrop.predictive.select import quantities_of
from keras_bayesdrop.serving.quantities import QUANTITIES
from keras_bayesdrop.serving.quantities import Statistics
from keras_bayesdrop.serving.quantities import is_defined
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit

SAMPLES = {
    "classification": simplex,
    "binary": unit,
    Regression(): normal,
    Regression(noise_precision=3.0): normal,
}
HEADS = list(SAMPLES)


def predictive(head, dtype="float32"):
    return Predictive.from_samples(SAMPLES[head]((7, 3), 21, dtype=dtype), head)


def served(p):
    """Returns the quantities of an exported model with the same moments."""
    count = p.stats.num_samples
    statistics = Statistics(
        quantities_of(p.head),
        count,
        tf.constant(p.mean),
        tf.constant(p.variance),
        tf.constant(p.std),
        None if p.mean_entropy is None else count * p.mean_entropy.astype("f8"),
        None if p.vote_counts is None else tf.constant(p.vote_counts),
    )
    return {
        name: quantity(statistics).numpy()
        for name, quantity in QUANTITIES.items()
        if is_defined(name, p.head)
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("head", HEADS, ids=str)
def test_numpy_and_tensorflow_agree(head, dtype):
    p = predictive(head, dtype)
    tensors = served(p)
    assert len(tensors) == (7 if isinstance(head, Regression) else 12)
    for name, actual in tensors.items():
        attribute = "predictive_entropy" if name == "entropy" else name
        expected = getattr(p, attribute)
        assert actual.dtype == expected.dtype
        # A logarithm of one library may differ from that of the other in its
        # last bit; a difference of entropies keeps their rounding.
        largest = np.abs(expected).max()
        if "information" in name:
            largest = p.predictive_entropy.max()
        error = np.abs(actual.astype("f8") - expected).max()
        assert error <= 4 * np.spacing(largest), name


def from_definitions(p):
    """Returns quantities of a prediction by their definitions."""
    samples, count = p.samples, len(p.samples)
    variance = samples.var(axis=0, ddof=1)
    results = {
        "mean": samples.mean(axis=0),
        "variance": variance,
        "epistemic": variance,
        "std": np.sqrt(variance),
        "mc_error": scipy.stats.sem(samples, axis=0),
    }
    if p.task == "regression":
        tau = p.noise_precision
        results["aleatoric"] = np.full((7, 3), 1 / tau if tau else 0.0)
    else:
        results["aleatoric"] = (samples * (1 - samples)).mean(axis=0)
        parts, classes = [samples], samples.argmax(axis=-1)[..., np.newaxis]
        votes = [(classes == c).sum(axis=0)[..., 0] for c in range(3)]
        if p.task == "binary":
            parts = [samples, 1 - samples]
            votes = [(part >= 0.5).sum(axis=0) for part in parts]

        def entropy(mean_or_all):
            terms = sum(scipy.special.entr(x) for x in mean_or_all)
            return terms.sum(axis=-1) if p.task == "classification" else terms

        whole = entropy([part.mean(axis=0) for part in parts])
        part = entropy(parts).mean(axis=0)
        results |= {
            "predictive_entropy": whole,
            "entropy": whole,
            "expected_entropy": part,
            "mutual_information": whole - part,
            "variation_ratio": 1 - np.max(votes, axis=0) / count,
        }
    results["total"] = variance + results["aleatoric"]
    return results


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_an_exported_model_follows_the_definitions(head):
    p = predictive(head, "float64")
    tensors, expected = served(p), from_definitions(p)
    assert tensors.keys() == expected.keys()
    for name, actual in tensors.items():
        np.testing.assert_allclose(
            actual, expected[name], rtol=1e-12, atol=1e-14, err_msg=name
        )


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_prediction_follows_the_definitions(head):
    p = predictive(head, "float64")
    expected = from_definitions(p)
    expected.pop("entropy", None)
    for name, values in expected.items():
        np.testing.assert_allclose(
            getattr(p, name), values, rtol=1e-12, atol=1e-14, err_msg=name
        )


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_tolerance_follows_the_definitions(head):
    p = predictive(head, "float64")
    expected = from_definitions(p)
    ratio = expected["mc_error"] / np.sqrt(expected["total"])
    for factor in (1 + 1e-6, 1 - 1e-6):
        for row in range(len(p)):
            relative = factor * ratio[row].max()
            assert tolerance_met(p[row], relative=relative) == (factor > 1)


def tolerance_met(p, **limits):
    moments = SampleMoments(p.mean, p.variance)
    limits = {"relative": 0.0, "absolute": 0.0, **limits}
    return Tolerance(**limits).met(moments, p.stats.num_samples, p.head)


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_tolerance_is_that_of_predictive(head):
    p = predictive(head, "float64")
    error, spread = p.mc_error, np.sqrt(p.total)
    for factor in (1 + 1e-6, 1 - 1e-6):
        for row in range(len(p)):
            absolute = factor * error[row].max()
            relative = factor * (error / spread)[row].max()
            one = p[row]
            assert tolerance_met(one, absolute=absolute) == (factor > 1)
            assert tolerance_met(one, relative=relative) == (factor > 1)


# A formula that changes is noticed by all of its users.


@pytest.mark.parametrize("head", ["classification", "binary"])
def test_all_users_take_the_variance_of_a_label(head, monkeypatch):
    p = predictive(head)
    before, tensors = p.aleatoric, served(p)["aleatoric"]
    relative = 1.001 * (p.mc_error / np.sqrt(p.total)).max()
    assert tolerance_met(p, relative=relative).all()
    formula = quantities.label_variance
    monkeypatch.setattr(
        classes, "label_variance", lambda *args: formula(*args) / 2
    )
    np.testing.assert_allclose(p.aleatoric, before / 2, rtol=1e-6)
    np.testing.assert_allclose(served(p)["aleatoric"], tensors / 2, rtol=1e-6)
    assert not tolerance_met(p, relative=relative).all()


@pytest.mark.parametrize("head", ["classification", "binary"])
def test_all_users_take_the_same_logarithm(head, monkeypatch):
    p = predictive(head)
    before, tensors = p.predictive_entropy, served(p)["predictive_entropy"]
    formula = quantities.x_log_x
    monkeypatch.setattr(quantities, "x_log_x", lambda *args: 2 * formula(*args))
    np.testing.assert_array_equal(p.predictive_entropy, 2 * before)
    for name in ("predictive_entropy", "entropy"):
        np.testing.assert_array_equal(served(p)[name], 2 * tensors)


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_all_users_take_the_same_error(head, monkeypatch):
    p = predictive(head)
    before, tensors = p.mc_error, served(p)["mc_error"]
    absolute = 1.001 * before.max()
    assert tolerance_met(p, absolute=absolute).all()
    formula = quantities.mc_error

    def doubled(*args):
        return 2 * formula(*args)

    monkeypatch.setattr(quantities, "mc_error", doubled)
    monkeypatch.setattr(
        "keras_bayesdrop.prediction.sampling.tolerance.mc_error", doubled
    )
    np.testing.assert_array_equal(p.mc_error, 2 * before)
    np.testing.assert_array_equal(served(p)["mc_error"], 2 * tensors)
    assert not tolerance_met(p, absolute=absolute).all()


def test_all_users_take_the_same_noise(monkeypatch):
    p = predictive(HEADS[-1])
    relative = 1.001 * (p.mc_error / np.sqrt(p.total)).max()
    y = np.zeros((7, 3))
    loss = pinball_loss(y, p, 0.1)
    moments = dataclasses.replace(p, samples=None)
    loss_of_moments = pinball_loss(y, moments, 0.1)
    assert tolerance_met(p, relative=relative).all()
    monkeypatch.setattr(regression, "noise_variance", lambda tau: 0.5 / tau)
    monkeypatch.setattr(regression, "noise_std", lambda tau: (2 * tau) ** -0.5)
    np.testing.assert_allclose(p.aleatoric, 1 / 6, rtol=1e-6)
    np.testing.assert_allclose(served(p)["aleatoric"], 1 / 6, rtol=1e-6)
    assert not tolerance_met(p, relative=relative).all()
    assert pinball_loss(y, p, 0.1) != loss
    assert pinball_loss(y, moments, 0.1) != loss_of_moments


@pytest.mark.parametrize(
    ("head", "labels", "module", "kind"),
    [
        ("classification", [0, 1, 2, 0, 1, 2, 0], classes, "ClassQuantities"),
        ("binary", [0, 1, 1, 0, 1, 0, 0], binary, "BinaryQuantities"),
    ],
)
def test_metrics_take_the_likelihood_of_labels(
    head, labels, module, kind, monkeypatch
):
    samples = predictive(head, "float64").samples
    if head == "binary":
        samples = samples[..., 0]
    p = Predictive.from_samples(samples, head)
    expected = -p.log_likelihood(labels).mean()
    assert negative_log_likelihood(labels, p.mean) == pytest.approx(expected)
    formula = getattr(module, kind).label_probabilities
    monkeypatch.setattr(
        getattr(module, kind),
        "label_probabilities",
        lambda *args: formula(*args) ** 2,
    )
    changed = -p.log_likelihood(labels).mean()
    assert changed == pytest.approx(2 * expected)
    assert negative_log_likelihood(labels, p.mean) == pytest.approx(changed)
