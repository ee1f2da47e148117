# SPDX-License-Identifier: Apache-2.0
"""Works on any Keras model, and never changes it: the whole zoo, one by one."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests import zoo
from tests.helpers import flat

SEED = 3

SAMPLES = 4


# Draws in a comparison of distributions, and how many standard errors apart
# two estimates may be. The zoo makes about 2,500 comparisons, and a normal
# draw is beyond 5 with probability 6e-7: one false alarm in 700 seeds.
MANY = 2000
STANDARD_ERRORS = 5.0
VALUES = 8


@dataclasses.dataclass(frozen=True)
class Visit:
    """A member of the zoo, with what it predicts."""

    member: zoo.Member
    model: Any
    x: Any

    def predict(self, **kwargs: Any) -> list[Any]:
        """Returns the `Predictive` of each output."""
        settings = {
            "num_samples": SAMPLES,
            "seed": SEED,
            "return_samples": True,
            "head": "regression",
            "verbose": 0,
            **kwargs,
        }
        x = settings.pop("x", self.x)
        return keras.tree.flatten(
            kbd.predict_with_uncertainty(self.model, x, **flat(**settings))
        )

    def close(self, actual: Any, desired: Any, slack: float = 10.0) -> None:
        """Asserts that two predictions agree up to rounding."""
        desired = np.asarray(desired, "float64")
        np.testing.assert_allclose(
            np.asarray(actual, "float64"),
            desired,
            rtol=slack * self.member.rtol,
            atol=slack * self.member.rtol * np.max(np.abs(desired)),
        )


def members(wanted):
    """Names of the members that are wanted, the slow ones marked."""
    return [
        pytest.param(name, marks=pytest.mark.slow if member.slow else ())
        for name, member in zoo.ZOO.items()
        if wanted(member)
    ]


@pytest.fixture(scope="module", params=members(lambda member: True))
def visit(request):
    """Visits one member after another; what it compiled is kept meanwhile."""
    member = zoo.ZOO[request.param]
    model, x = member.build()
    return Visit(member, model, x)


def test_number_of_draws(visit):
    plan = build_plan(visit.model, None, input_data.specs_of(visit.x))
    draws = sum(
        int(step.noise.active)
        if isinstance(step, NoiseStep)
        else step.num_sites
        for step in plan.steps
    )
    assert draws == visit.member.draws


def test_deterministic_is_inference(visit):
    view = kbd.deterministic(visit.model)
    ours = view(visit.x)
    keras.tree.assert_same_structure(ours, view(visit.x))
    if visit.member.always_on:
        theirs = view(visit.x)  # Keras has no way to turn these off.
    else:
        theirs = visit.model(visit.x, training=False)
    keras.tree.assert_same_structure(ours, theirs)
    for our, their in zip(
        keras.tree.flatten(ours), keras.tree.flatten(theirs), strict=True
    ):
        assert our.dtype == their.dtype
        visit.close(our, their, slack=1)


def test_stochastic_draws_anew(visit):
    view = kbd.stochastic(visit.model, seed=1)
    first, second = (keras.tree.flatten(view(visit.x)) for _ in range(2))
    assert not np.array_equal(first[0], second[0])
    again = kbd.stochastic(visit.model, seed=1)
    for value, same in zip(
        first, keras.tree.flatten(again(visit.x)), strict=True
    ):
        np.testing.assert_array_equal(value, same)


def test_there_is_uncertainty(visit):
    predicted = visit.predict()[0]
    assert np.all(np.isfinite(predicted.variance))
    # Every row, unless the noise on it was the same four times.
    per_row = predicted.variance.reshape(len(predicted.variance), -1)
    assert np.mean(per_row.max(axis=1) > 0) > 0.5


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_batch_size_does_not_matter(visit, masks):
    whole = visit.predict(masks=masks)
    for batch_size in (1, 3):
        cut = visit.predict(masks=masks, batch_size=batch_size)
        for a, b in zip(whole, cut, strict=True):
            visit.close(b.samples, a.samples)


def test_sample_function_is_the_sample(visit):
    few, predicted = visit.predict(), visit.predict(num_samples=12)
    for a, b in zip(few, predicted, strict=True):
        visit.close(b.samples[:SAMPLES], a.samples)
    for number in (0, 11):
        view = kbd.sample_function(visit.model, SEED, number)
        outputs = keras.tree.flatten(view(visit.x))
        for output, p in zip(outputs, predicted, strict=True):
            visit.close(output, p.samples[number])


def test_nothing_changes(visit):
    model, x = visit.model, visit.x
    outputs = None if visit.member.always_on else zoo.outputs_of(model, x)
    before = zoo.fingerprint(model)
    for view in (
        kbd.stochastic(model),
        kbd.deterministic(model),
        kbd.sample_function(model, SEED, 1),
    ):
        view(x)
    visit.predict()
    visit.predict(masks="independent", seed=None)
    kbd.inspect(model)
    kbd.explain(model)
    after = zoo.fingerprint(model)
    assert after == before
    if outputs is not None:
        assert zoo.outputs_of(model, x) == outputs


def many_draws(visit):
    """Predicts two rows, with masks of their own, many times."""
    two = keras.tree.map_structure(lambda leaf: leaf[:2], visit.x)
    return visit.predict(x=two, num_samples=MANY, masks="independent")


@pytest.mark.parametrize(
    "visit", members(lambda member: member.like_training), indirect=True
)
def test_same_distribution_as_training(visit):
    """Means, variances and covariances are those of Keras' own noise."""
    tiled = keras.tree.map_structure(
        lambda leaf: np.repeat(leaf[1:2], MANY, axis=0), visit.x
    )
    ours = [p.samples[:, 1] for p in many_draws(visit)]
    theirs = keras.tree.flatten(visit.model(tiled, training=True))
    ours, theirs = (
        np.concatenate(
            [np.reshape(np.asarray(v, "float64"), (MANY, -1)) for v in values],
            axis=1,
        )[:, :VALUES]
        for values in (ours, theirs)
    )
    compare_moments(ours, theirs)


@pytest.mark.parametrize(
    "visit", members(lambda member: member.linear), indirect=True
)
def test_mean_is_the_scaled_prediction(visit):
    certain = keras.tree.flatten(visit.model(visit.x, training=False))
    for p, value in zip(many_draws(visit), certain, strict=True):
        # At most 24 values in each of a dozen members.
        assert np.all(p.mc_error > 0)
        z = (p.mean - np.asarray(value)[:2]) / p.mc_error
        assert np.max(np.abs(z)) < STANDARD_ERRORS


def compare_moments(a, b):
    """Asserts that two samples [draws, values] agree in first two moments."""
    means = [np.mean(s, axis=0) for s in (a, b)]
    products = []
    for sample, mean in zip((a, b), means, strict=True):
        centred = sample - mean
        products.append(centred[:, :, None] * centred[:, None, :])
    for pair in ((a, b), products):
        estimates = [np.mean(s, axis=0) for s in pair]
        errors = [np.std(s, axis=0) / np.sqrt(len(s)) for s in pair]
        allowed = STANDARD_ERRORS * np.hypot(*errors)
        # Constants agree up to rounding.
        allowed += 1e-5 * np.abs(estimates[0]) + 1e-6
        gap = np.abs(estimates[0] - estimates[1])
        worst = np.max(gap / allowed)
        assert worst <= 1, f"{STANDARD_ERRORS * worst:.1f} standard errors"
