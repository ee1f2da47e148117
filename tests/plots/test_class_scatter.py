# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import offsetbox

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from tests.plots import pixels
from tests.plots import predictions

P = predictions.classification(rows=6, classes=5, count=30)


def clouds(ax):
    """Returns places [T, rows, 2] of the points of each class."""
    return [
        np.asarray(each.get_offsets()).reshape(30, 6, 2)
        for each in ax.collections
        if len(each.get_offsets()) == 180
    ]


def test_points_are_the_samples_and_dashes_the_means():
    ax = plots.class_scatter(P, classes=[4, 0])
    shown = clouds(ax)
    assert len(shown) == 2
    for cloud, cls in zip(shown, (4, 0), strict=True):
        np.testing.assert_array_equal(cloud[..., 1], P.samples[:, :, cls])
        # Every point stays in the column of its row.
        assert np.all(np.abs(cloud[..., 0] - np.arange(6)) < 0.4)
    # Class beside class, and point beside point.
    assert np.all(shown[0][..., 0].max(axis=0) < shown[1][..., 0].min(axis=0))
    assert len(np.unique(shown[0][:, 0, 0])) == 30
    for dashes, cls in zip(ax.collections[1::2], (4, 0), strict=True):
        segments = np.array(dashes.get_segments())
        np.testing.assert_allclose(
            segments[:, :, 1], np.repeat(P.mean[:, [cls]], 2, axis=1)
        )


def test_classes_by_themselves_are_those_with_the_largest_mean():
    mean = np.array([[0.1, 0.5, 0.2, 0.2], [0.3, 0.1, 0.05, 0.55]])
    p = predictions.predictive(np.stack([mean, mean]), "classification")
    ax = plots.class_scatter(p)
    assert predictions.legend_texts(ax) == ("class", ["0", "1", "3"])


def test_texts_limits_and_markers():
    ax = plots.class_scatter(
        P, [1, 2, 3], labels=list("abcde"), x=[0, 15, 30, 45.5, 60, 75]
    )
    assert predictions.legend_texts(ax) == ("class", ["b", "c", "d"])
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        "0",
        "15",
        "30",
        "45.5",
        "60",
        "75",
    ]
    np.testing.assert_allclose(ax.get_xlim(), (-0.6, 5.6))
    assert ax.get_ylim() == (-0.03, 1.03)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("", "probability")
    assert ax.get_title() == "30 samples of each row"
    entries = ax.get_legend().legend_handles
    assert len({entry.get_marker() for entry in entries}) == 3
    assert len({entry.get_color() for entry in entries}) == 3
    assert pixels.overlapping_texts(ax.figure) == []
    assert plots.class_scatter(P).get_xlabel() == "row"


def test_logits():
    logits = np.log(P.samples)
    p = predictions.predictive(logits, "regression")
    ax = plots.class_scatter(p, [0])
    (cloud,) = clouds(ax)
    np.testing.assert_array_equal(cloud[..., 1], logits[:, :, 0])
    assert ax.get_ylabel() == "output"
    assert ax.get_ylim()[0] < logits[:, :, 0].min()


@pytest.mark.parametrize("shape", [(6, 8, 8), (6, 8, 8, 1), (6, 4, 9, 3)])
def test_images_are_under_their_rows(shape):
    images = np.random.default_rng(0).uniform(size=shape)
    images[2] = 0.0
    images[3] = 1.0
    ax = plots.class_scatter(P, x=list("uvwxyz"), images=images)
    boxes = [
        each
        for each in ax.artists
        if isinstance(each, offsetbox.AnnotationBbox)
    ]
    assert len(boxes) == 6
    picture = pixels.drawn(ax.figure)
    bottom = ax.get_window_extent().y0
    labels = [label.get_window_extent() for label in ax.get_xticklabels()]
    for row, (box, label) in enumerate(zip(boxes, labels, strict=True)):
        image = box.offsetbox
        np.testing.assert_array_equal(
            image.get_data(), images.reshape(6, *shape[1:3], -1).squeeze()[row]
        )
        place = image.get_window_extent(ax.figure.canvas.get_renderer())
        middle = ax.transData.transform((row, 0))[0]
        assert abs((place.x0 + place.x1) / 2 - middle) < 1.0
        # Between the axis and its label.
        assert label.y1 <= place.y0 and place.y1 <= bottom
        up = len(picture) - 1 - int((place.y0 + place.y1) / 2)
        colour = picture[up, int(middle), :3]
        if row in (2, 3):
            black_is_one = len(shape) == 3 or shape[-1] == 1
            wanted = float((row == 2) == black_is_one)
            np.testing.assert_allclose(colour, wanted, atol=0.01)


def test_many_points_are_fainter():
    def strength(count):
        p = predictions.classification(rows=3, count=count)
        return plots.class_scatter(p).collections[0].get_alpha()

    assert strength(1000) < strength(30)


def test_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.class_scatter(P, ax=right) is right
    assert right.collections and not left.collections
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": P.samples}, BayesdropError, "argument `p`. Expected a `Pred"),
        (
            {"p": predictions.classification(keep=False)},
            MissingSamplesError,
            "Expected the single samples. Received: samples=None",
        ),
        (
            {"p": predictions.binary()},
            BayesdropError,
            "Expected task='classification' or 'regression' or "
            "'heteroscedastic'. Received: task=",
        ),
        (
            {"p": predictions.regression()},
            BayesdropError,
            r"two classes at least. Received: p.mean.shape=\(40, 1\)",
        ),
        ({"classes": [5]}, BayesdropError, "`classes`. Expected .* Received"),
        ({"classes": []}, BayesdropError, "`classes`. Expected .* Received"),
        ({"classes": [1, 1]}, BayesdropError, "`classes`. Expected .* Rec"),
        ({"classes": "1"}, BayesdropError, "`classes`. Expected .* Rec"),
        ({"classes": [0.5]}, BayesdropError, "`classes`. Expected .* Rec"),
        ({"labels": "abcde"}, BayesdropError, "`labels`. Expected .* Rec"),
        ({"labels": ["a"]}, BayesdropError, "`labels`. Expected 5 .* Rec"),
        ({"x": [1, 2]}, BayesdropError, "`x`. Expected 6 .* Received: 2"),
        ({"x": 3}, BayesdropError, "`x`. Expected .* Received: x=3"),
        (
            {"x": [None] * 6},
            BayesdropError,
            "`x`. Expected texts or numbers. Received: None",
        ),
        (
            {"images": np.ones((5, 8, 8))},
            BayesdropError,
            r"`images`. Expected \(6, height, width\).* Received: images.sha",
        ),
        ({"images": np.ones((6, 64))}, BayesdropError, "`images`. Expected"),
        ({"images": 3.0}, BayesdropError, "`images`. Expected .* Received"),
        ({"ax": 1}, BayesdropError, "`ax`. Expected .* Received: ax=1"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.class_scatter(**{"p": P, **arguments})
    assert not plt.get_fignums()
