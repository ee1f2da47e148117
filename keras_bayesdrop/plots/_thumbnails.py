# SPDX-License-Identifier: Apache-2.0
"""Thumbnails of the inputs, under an axis of rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plots import _style

# In points of 1 / 72 inch.
_SMALLEST, _LARGEST = 8.0, 44.0
_GAP = 5.0
# Fraction of the width of a row.
_FILLED = 0.85


def check_images(images: Any, rows: int) -> npt.NDArray[Any]:
    """Returns images [rows, height, width] or [rows, height, width, 3]."""
    array = as_numbers("images", images)
    if array.ndim == 4 and array.shape[-1] == 1:
        array = array[..., 0]
    colours = array.ndim == 4 and array.shape[-1] == 3
    drawable = (array.ndim == 3 or colours) and array.size > 0
    if not drawable or len(array) != rows:
        raise BayesdropError(
            "Invalid shape of argument `images`. Expected "
            f"({rows}, height, width), or that with a last axis of 1 or 3 "
            f"colours. Received: images.shape={array.shape}"
        )
    return array


def add_thumbnails(ax: Any, images: npt.NDArray[Any]) -> None:
    """Draws an image under each row, between the axis and its labels.

    Row `i` is at `i` on the axis. The limits of the axis must be set before.
    """
    from matplotlib.offsetbox import AnnotationBbox
    from matplotlib.offsetbox import OffsetImage

    low, high = ax.get_xlim()
    inches = ax.get_window_extent().width / ax.figure.dpi / (high - low)
    size = float(np.clip(_FILLED * 72 * inches, _SMALLEST, _LARGEST))
    norm = _style.pyplot().Normalize(float(images.min()), float(images.max()))
    for row, image in enumerate(images):
        box = OffsetImage(
            image,
            zoom=size / max(image.shape[:2]),
            cmap="gray_r",
            norm=norm,
            interpolation="nearest",
        )
        ax.add_artist(
            AnnotationBbox(
                box,
                (row, 0.0),
                xycoords=ax.get_xaxis_transform(),
                xybox=(0.0, -_GAP),
                boxcoords="offset points",
                box_alignment=(0.5, 1.0),
                frameon=False,
                pad=0.0,
                annotation_clip=False,
            )
        )
    ax.tick_params(axis="x", length=0, pad=size + 2 * _GAP)
