# SPDX-License-Identifier: Apache-2.0
"""Scatter of the samples of a few classes, row by row."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.plots._thumbnails import add_thumbnails
from keras_bayesdrop.plots._thumbnails import check_images
from keras_bayesdrop.predictive.outputs import one_output

# Default number of classes to draw.
_CLASSES = 3
# Distinguishable without colours.
_MARKERS = ("o", "s", "^", "D", "v", "P")
# Fraction of the width of a row that its points cover.
_FILLED = 0.8
# Steps of the golden ratio spread any number of points evenly.
_GOLDEN = 0.6180339887498949


def class_scatter(
    p: Any,
    classes: Any = None,
    labels: Any = None,
    x: Any = None,
    images: Any = None,
    ax: Any = None,
    output: Any = None,
) -> Any:
    """Draws the samples of a few classes as points, for each row.

    The point `(i, y[t, i, c])` is the output of sample `t` for class `c` in
    row `i`. The model is certain where the clouds of the classes are apart. It
    is uncertain where they overlap, even if their means differ. Dashes are the
    means. Points of a row are spread sideways, class by class, so that none
    hides another; their horizontal position has no meaning.

    Args:
        p: `Predictive` with samples. Of a classification, for probabilities
            (softmax outputs); of a regression with several outputs, for
            logits (softmax inputs).
        classes: Classes to draw, a sequence of up to six ints. Defaults to
            the three classes with the largest mean in any row.
        labels: Names of all classes. Defaults to their numbers.
        x: Texts or numbers to write under the rows, such as angles. Defaults
            to the numbers of the rows.
        images: Array `[rows, height, width]`, or `[rows, height, width, 3]`
            in `[0, 1]`: thumbnails of the inputs, drawn under the axis.
            Without colours zero is white and the largest value black.
        ax: Axes to draw on; `None` for those of a new figure.
        output: The label of a classification to draw, if a row has several:
            its number along the flattened axes, or a tuple with an int for
            each axis.

    Returns:
        The axes.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(
        model, rotated, num_samples=100, return_samples=True
    )
    keras_bayesdrop.plots.class_scatter(p, x=angles, images=rotated)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142),
          figure 4.
    """
    p = _inputs.check_prediction(p, ("class", "number"))
    if output is not None:
        p = _inputs.check_prediction(p, ("class",))
        p = one_output(p, output)
    samples = _check_samples(p)
    chosen = _check_classes(p.mean, classes)
    names = _inputs.check_names(labels, "labels", p.mean.shape[-1], "class")
    under = _inputs.check_names(x, "x", len(p), "row")
    if images is not None:
        images = check_images(images, len(p))
    ax = _style.axes_for(ax)
    column = _FILLED / len(chosen)
    spread = (np.arange(len(samples)) * _GOLDEN) % 1.0 - 0.5
    rows = np.arange(len(p))
    # Many points are fainter, so that their density shows.
    alpha = max(0.08, min(0.6, 5.0 / np.sqrt(len(samples))))
    for number, cls in enumerate(chosen):
        colour = _style.COLOURS[number]
        middle = rows + (number - (len(chosen) - 1) / 2) * column
        across = middle + 0.75 * column * spread[:, np.newaxis]  # [T, rows]
        ax.scatter(
            across,
            samples[:, :, cls],
            s=14,
            marker=_MARKERS[number],
            color=colour,
            alpha=alpha,
            lw=0,
        )
        ax.hlines(
            p.mean[:, cls],
            middle - column / 2,
            middle + column / 2,
            color=colour,
            lw=2.2,
            zorder=3,
        )
        # The legend shows the marker without transparency.
        ax.plot(
            [],
            [],
            ls="",
            marker=_MARKERS[number],
            color=colour,
            label=names[cls],
        )
    ax.set_xlim(-0.6, len(p) - 0.4)
    ax.set_xticks(rows, under)
    probable = p.head.observation == "class"
    if probable:
        ax.set_ylim(-0.03, 1.03)
    _style.dress(
        ax,
        f"{len(samples)} samples of each row",
        "row" if x is None else "",
        "probability" if probable else "output",
    )
    ax.grid(visible=False, axis="x")
    for between in rows[:-1] + 0.5:
        ax.axvline(between, color="black", alpha=0.08, lw=0.8, zorder=0)
    if images is not None:
        add_thumbnails(ax, images)
    _style.legend(ax, "class", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _check_samples(p: Any) -> Array:
    """Returns the samples, [T, rows, classes]."""
    if p.mean.ndim != 2 or p.mean.shape[1] < 2:
        raise BayesdropError(
            "There are no classes to compare. Expected a mean of shape (rows, "
            "classes), with two classes at least. Received: "
            f"p.mean.shape={p.mean.shape}"
        )
    if p.samples is None:
        raise MissingSamplesError(
            "There are no points to draw. Expected the single samples. "
            "Received: samples=None. Use predict_with_uncertainty(..., "
            "return_samples=True)."
        )
    samples: Array = p.samples
    return samples


def _check_classes(mean: Array, classes: Any) -> list[int]:
    """Returns the classes to draw."""
    count = mean.shape[1]
    if classes is None:
        order = np.argsort(-mean.max(axis=0), kind="stable")
        return sorted(int(cls) for cls in order[:_CLASSES])
    expected = (
        f"a sequence of up to {len(_MARKERS)} different integers from 0 to "
        f"{count - 1}"
    )
    if isinstance(classes, str) or not isinstance(
        classes, (Sequence, np.ndarray)
    ):
        raise invalid("classes", classes, expected)
    chosen = [check_int(cls, "classes", at_least=0) for cls in classes]
    few = 0 < len(chosen) <= len(_MARKERS) and len(set(chosen)) == len(chosen)
    if not few or max(chosen) >= count:
        raise invalid("classes", classes, expected)
    return chosen
