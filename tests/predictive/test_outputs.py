# SPDX-License-Identifier: Apache-2.0
"""Selections of outputs: `p[:, 0]` and the argument `output` of plots."""

import dataclasses

import numpy as np
import pytest

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from keras_bayesdrop.predictive.outputs import one_output
from keras_bayesdrop.predictive.outputs import targets_of
from tests.predictive.cases import make
from tests.predictive.cases import make_stats
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit

SAMPLES = {
    "regression": normal((6, 4, 3)),
    "heteroscedastic": normal((6, 4, 3)),
    "binary": unit((6, 4, 3)),
    "classification": simplex((6, 4, 3, 5)),
}
KEYS = [
    (slice(None), 0),
    (slice(None), 1, 2),
    (slice(1, 4), slice(None), -1),
    (slice(None), [2, 0], slice(1, 3)),
    (slice(None), np.array([True, False, True, False])),
    (..., 1),
    (slice(0, 5, 2), ..., 0),
    (slice(None),),
    (..., 2, slice(None)),
]


def of_samples(task, quantiles=(0.25, 0.5)):
    samples = SAMPLES[task]
    noise = None
    if task == "heteroscedastic":
        noise = np.random.default_rng(1).uniform(0.1, 2.0, samples.shape)
    return Predictive.from_samples(
        samples, task, quantiles, make_stats(20, 6), noise_samples=noise
    )


def assert_equal_fields(actual, desired):
    for field in dataclasses.fields(Predictive):
        one, other = (getattr(p, field.name) for p in (actual, desired))
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other, err_msg=field.name)
            assert one.dtype == other.dtype
        else:
            assert one == other, field.name


@pytest.mark.parametrize("task", SAMPLES)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_selection_is_the_prediction_of_selected_samples(task, key):
    p = of_samples(task)
    part = p[key]
    # NumPy selects the rows and outputs of an array that has no classes.
    array = np.arange(6 * 4 * 3).reshape(6, 4, 3)
    shape = array[key].shape
    assert part.mean.shape == shape + p.mean.shape[3:]
    places = array[key].reshape(-1)

    def chosen(values):
        classes = p.mean.shape[3:]
        flat = values.reshape(20, 72, *classes)
        return flat[:, places].reshape(20, *shape, *classes)

    noise = None if p.noise_samples is None else chosen(p.noise_samples)
    again = Predictive.from_samples(
        chosen(p.samples),
        task,
        (0.25, 0.5),
        make_stats(20, shape[0]),
        noise_samples=noise,
    )
    assert_equal_fields(part, again)


def test_what_belongs_to_rows_stays_with_them():
    p = make("regression", normal((4, 3)), keep=False)
    counts = np.array([20, 5, 7, 9])
    p = dataclasses.replace(p, num_samples_used=counts)
    part = p[1:, 2]
    np.testing.assert_array_equal(part.num_samples_used, counts[1:])
    np.testing.assert_array_equal(part.mean, p.mean[1:, 2])
    np.testing.assert_array_equal(part.mc_error, p.mc_error[1:, 2])
    part = dataclasses.replace(p, sampled_variance=p.variance / 2)[:, [0]]
    np.testing.assert_array_equal(part.sampled_variance, p.variance[:, :1] / 2)


def test_precisions_go_with_their_outputs():
    head = Regression(noise_precision=[1.0, 4.0, 16.0])
    p = Predictive.from_samples(normal((5, 2, 3)), head)
    for key in (
        np.s_[:, :, 1],
        np.s_[:, 0, 1],
        np.s_[..., [2, 0]],
        np.s_[:, 1],
    ):
        part = p[key]
        np.testing.assert_array_equal(part.aleatoric, p.aleatoric[key])
        np.testing.assert_array_equal(
            part.interval(0.5), [end[key] for end in p.interval(0.5)]
        )
    assert p[:, 0, 1].head == Regression(noise_precision=4.0)
    assert p[..., ::2].head == Regression(noise_precision=(1.0, 16.0))
    assert p[1:].head == head


def test_an_output_is_a_view():
    p = of_samples("binary")
    assert np.shares_memory(p[:, 1].samples, p.samples)


@pytest.mark.parametrize(
    ("task", "key", "message"),
    [
        ("regression", np.s_[:, 0, 0, 0], "at most 3 indices.*Received: 4"),
        ("regression", np.s_[..., ...], "Invalid selection of rows and outp"),
        ("regression", (), "Invalid selection of rows and outputs"),
        ("regression", np.s_[:, 4], "axis 0 of the outputs. Expected an int"),
        ("regression", np.s_[:, -5], "below 4.*Received: -5"),
        ("regression", np.s_[:, :, [0, 3]], r"axis 1.*Received: \[0, 3\]"),
        ("regression", np.s_[:, "a"], "Received: 'a'"),
        ("regression", np.s_[:, 0.5], "Received: 0.5"),
        ("regression", np.s_[:, [True] * 3], "of 4 bools. Received"),
        ("regression", np.s_[:, None], "Received: None"),
        ("regression", np.s_[:, np.eye(4, dtype=bool)], "axis 0"),
        ("classification", np.s_[:, 0, 0, 0], "of a row stay together. Recei"),
    ],
)
def test_wrong_selections(task, key, message):
    with pytest.raises(BayesdropError, match=message):
        of_samples(task)[key]


def test_classes_are_not_taken_apart():
    p = make("classification", simplex((6, 3)))
    with pytest.raises(BayesdropError, match=r"together\. Received: 2 ind"):
        p[:, 0]
    assert_equal_fields(p[:, ...], p)


@pytest.mark.parametrize("task", SAMPLES)
def test_one_output_by_its_number_or_its_place(task):
    p = of_samples(task)
    assert_equal_fields(one_output(p, 7), p[:, 2, 1])
    assert_equal_fields(one_output(p, (2, 1)), p[:, 2, 1])
    assert one_output(p[:, :1, :1], None).mean.shape[0] == 6
    y = np.arange(72).reshape(6, 4, 3)
    np.testing.assert_array_equal(targets_of(p, y, 7), y[:, 2, 1])
    np.testing.assert_array_equal(targets_of(p, y, (2, 1)), y[:, 2, 1])
    np.testing.assert_array_equal(targets_of(p, y[:, 0, 0], 7), y[:, 0, 0])
    one_hot = np.eye(5)[y % 5]
    if task == "classification":
        np.testing.assert_array_equal(
            targets_of(p, one_hot, 7), one_hot[:, 2, 1]
        )


@pytest.mark.parametrize("output", [12, -1, (4, 0), (0,), (0, -1), 0.5, "a"])
def test_wrong_outputs(output):
    with pytest.raises(BayesdropError, match=r"`output`\. Expected"):
        one_output(of_samples("regression"), output)


def test_several_outputs_need_a_choice():
    with pytest.raises(BayesdropError, match=r"from 0 to 11\. Received"):
        one_output(of_samples("classification"), None)
