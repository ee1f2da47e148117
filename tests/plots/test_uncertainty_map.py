# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from tests.plots import pixels
from tests.plots import predictions

SIZE = (6, 9)


def panels(ax):
    """Returns titles, values and colour limits of the maps."""
    assert not ax.axison
    return {
        inner.get_title(): (
            np.asarray(inner.images[0].get_array()),
            inner.images[0].get_clim(),
        )
        for inner in ax.child_axes
    }


def numbers(head="regression", channels=1, noise=None):
    random = np.random.default_rng(0)
    samples = random.normal(size=(12, 2, *SIZE, channels))
    return Predictive.from_samples(samples, head, noise_samples=noise)


def probabilities():
    random = np.random.default_rng(0)
    return Predictive.from_samples(random.random((12, 2, *SIZE)), "binary")


def test_segmentation():
    p = predictions.segmentation()
    image = np.random.default_rng(1).random((2, *SIZE, 3))
    ax = plots.uncertainty_map(p, image, row=1, labels=["sky", "sea", "sand"])
    drawn = panels(ax)
    assert list(drawn) == ["image", "prediction", "total", "epistemic"]
    for name, values in {
        "image": image[1],
        "prediction": p.mean[1].argmax(axis=-1),
        "total": p.predictive_entropy[1],
        "epistemic": p.mutual_information[1],
    }.items():
        np.testing.assert_array_equal(drawn[name][0], values)
    # One scale for both, so that they compare.
    largest = p.predictive_entropy[1].max()
    assert drawn["total"][1] == drawn["epistemic"][1] == (0.0, largest)
    legend = ax.child_axes[1].get_legend()
    names = {text.get_text() for text in legend.get_texts()}
    assert names == {"sky", "sea", "sand"}
    first = ax.child_axes[1].images[0]
    for patch, number in zip(legend.get_patches(), range(3), strict=True):
        colour = first.cmap(first.norm(number))
        np.testing.assert_array_equal(patch.get_facecolor(), colour)
    assert pixels.overlapping_texts(ax.figure) == []


def test_learned_noise_splits_into_its_parts():
    noise = np.exp(np.random.default_rng(1).normal(size=(12, 2, *SIZE, 1)))
    p = numbers("heteroscedastic", noise=noise)
    drawn = panels(plots.uncertainty_map(p, row=1))
    assert list(drawn) == ["prediction", "total", "epistemic"]
    for name, values in {
        "prediction": p.mean,
        "total": np.sqrt(p.variance + p.noise_variance),
        "epistemic": p.std,
    }.items():
        np.testing.assert_allclose(drawn[name][0], values[1, ..., 0])
    assert drawn["total"][1] == drawn["epistemic"][1]


def test_noise_that_is_not_known_has_no_total():
    assert list(panels(plots.uncertainty_map(numbers()))) == [
        "prediction",
        "epistemic",
    ]
    known = numbers(Regression(noise_precision=4.0))
    drawn = panels(plots.uncertainty_map(known))
    np.testing.assert_allclose(
        drawn["total"][0] ** 2, drawn["epistemic"][0] ** 2 + 0.25
    )


def test_probabilities_of_a_mask():
    p = probabilities()
    drawn = panels(plots.uncertainty_map(p))
    np.testing.assert_array_equal(drawn["prediction"][0], p.mean[0])
    assert drawn["prediction"][1] == (0.0, 1.0)
    np.testing.assert_array_equal(drawn["total"][0], p.predictive_entropy[0])


def test_channel():
    p = numbers(channels=3)
    drawn = panels(plots.uncertainty_map(p, output=2))
    np.testing.assert_array_equal(drawn["prediction"][0], p.mean[0, ..., 2])


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((2, *SIZE), float),
        ((2, *SIZE, 1), float),
        (SIZE, float),
        ((*SIZE, 3), float),
        ((2, 12, 18, 3), np.uint8),
    ],
)
def test_shapes_of_images(shape, kind):
    image = (200 * np.random.default_rng(0).random(shape)).astype(kind)
    if kind is float:
        image /= 255
    p = predictions.segmentation()
    values, _ = panels(plots.uncertainty_map(p, image))["image"]
    expected = image[0] if image.shape[0] == 2 else image
    if expected.shape[-1] == 1:
        expected = expected[..., 0]
    if kind is np.uint8:
        expected = expected / 255
    np.testing.assert_allclose(values, expected)


def test_on_axes_and_many_classes():
    figure, (left, right) = plt.subplots(1, 2)
    p = predictions.segmentation(classes=12)
    assert plots.uncertainty_map(p, ax=right) is right
    assert len(right.child_axes) == 3 and not left.child_axes
    assert plt.get_fignums() == [figure.number]
    # The most frequent classes have names.
    texts = right.child_axes[0].get_legend().get_texts()
    values, counts = np.unique(p.mean[0].argmax(-1), return_counts=True)
    least = sorted(counts)[-8]
    shown = {int(text.get_text()) for text in texts}
    assert len(shown) == 8
    assert shown >= set(values[counts > least])


@pytest.mark.parametrize(
    ("p", "arguments", "error", "message"),
    [
        (
            predictions.regression(),
            {},
            BayesdropError,
            "no pixels to draw. Expected a mean of .* Received: .*40, 1",
        ),
        (
            predictions.segmentation(),
            {"row": 2},
            BayesdropError,
            "`row`. Expected an integer below 2. Received",
        ),
        (
            predictions.segmentation(),
            {"image": np.ones((3, *SIZE, 3))},
            BayesdropError,
            "`image`. Expected an image for each of 2 rows",
        ),
        (
            predictions.segmentation(),
            {"image": np.ones(5)},
            BayesdropError,
            "`image`. Expected .* Received: image.shape=.5",
        ),
        (
            predictions.segmentation(),
            {"labels": ["a"]},
            BayesdropError,
            "`labels`. Expected 3 entries",
        ),
        (
            predictions.segmentation(),
            {"output": 0},
            BayesdropError,
            "`output`. Expected `None`",
        ),
        (
            numbers(channels=3),
            {},
            BayesdropError,
            "`output` from 0 to 2. Received: output=None and 3 channels",
        ),
        (
            numbers(channels=3),
            {"output": 3},
            BayesdropError,
            "`output`. Expected an integer below 3",
        ),
        (
            numbers(),
            {"labels": ["a"]},
            BayesdropError,
            "`labels`. Expected `None` for task='regression'",
        ),
        (
            Predictive(
                head="classification",
                mean=np.full((1, *SIZE, 2), 0.5),
                variance=np.zeros((1, *SIZE, 2)),
            ),
            {},
            MissingSamplesError,
            "`mutual_information`. Expected the single samples",
        ),
    ],
)
def test_wrong_arguments(p, arguments, error, message):
    with pytest.raises(error, match=message):
        plots.uncertainty_map(p, **arguments)
    assert not plt.get_fignums()
