# SPDX-License-Identifier: Apache-2.0
"""Maps of an image, its prediction and its uncertainty, side by side."""

from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.plots import _inputs
from keras_bayesdrop.plots import _style
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.observations import observation_of
from keras_bayesdrop.predictive.outputs import label_shape
from keras_bayesdrop.predictive.sample_noise import knows_noise

# Width of a panel in inches, and height of the texts and bars around it.
_PANEL, _AROUND = 2.8, 1.3
# Fractions of a panel's width: the space between panels.
_GAP = 0.15
# Fractions of the axes' height: a colour bar, and its distance from the map.
_BAR, _BELOW = 0.05, 0.06
# Most classes that a legend names.
_NAMED = 8


@dataclass(frozen=True)
class _Panel:
    """One map: its title, values, and the options of `imshow`."""

    title: str
    values: npt.NDArray[Any]
    options: dict[str, Any] = field(default_factory=dict)
    unit: str = ""
    scale: str = "bar"


def uncertainty_map(
    p: Any,
    image: Any = None,
    row: int = 0,
    output: int | None = None,
    labels: Any = None,
    ax: Any = None,
) -> Any:
    """Draws an image, its prediction, and total and epistemic uncertainty.

    A pixel of the maps is an output of the model: of a segmentation, of depth
    or another number for each pixel, of a mask. The maps show

        prediction   the likeliest class; the mean of numbers; the probability
                     of a label
        total        classes and labels: `predictive_entropy`, in nats;
                     numbers: sqrt(total), the standard deviation of an
                     observation
        epistemic    classes and labels: `mutual_information`, in nats;
                     numbers: `std`, the standard deviation over the samples

    Total and epistemic maps have one colour scale: where both are dark, more
    training data would help; where only the total is, the image itself leaves
    the answer open. For numbers whose noise is not known both are the same,
    and only the epistemic map is drawn.

    Args:
        p: `Predictive` of outputs `[rows, height, width, classes]`, or
            `[rows, height, width]` or `[rows, height, width, channels]` for
            numbers and labels.
        image: The inputs `[rows, height, width]`, or with a last axis of 1
            or 3 colours; or the image of this row alone. Colours are floats in
            `[0, 1]` or integers up to 255. Without it there is no such panel.
        row: Int. The row to draw. Defaults to `0`.
        output: Int. The channel to draw, if there are several.
        labels: Names of all classes. Defaults to their numbers.
        ax: Axes to draw in; `None` for those of a new figure.

    Returns:
        The axes, which are empty. The panels and their bars are in
        `child_axes`.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(segmenter, photos)
    keras_bayesdrop.plots.uncertainty_map(p, photos, row=3)
    ```

    References:
        - [Kendall and Gal, 2017](https://arxiv.org/abs/1703.04977), figure 1.
    """
    p = _inputs.check_prediction(p)
    one = _one_row(p, row)
    one = _one_channel(one, output)
    names = None
    if p.head.observation == "class":
        names = _inputs.check_names(labels, "labels", p.mean.shape[-1], "class")
    elif labels is not None:
        raise invalid("labels", labels, f"`None` for task={p.task!r}")
    panels = _panels(one)
    if image is not None:
        panels = [_image_panel(image, len(p), row), *panels]
    height, width = one.mean.shape[1:3]
    ax = _axes_for(ax, len(panels), height / width)
    ax.set_axis_off()
    step = 1.0 / (len(panels) - _GAP / (1.0 + _GAP))
    share = step / (1.0 + _GAP)
    for number, panel in enumerate(panels):
        place = (number * step, 0.0, share, 1.0)
        _draw(ax, place, panel, names)
    return ax


def is_image(p: Predictive, x: Any = None) -> bool:
    """Returns whether outputs are pixels: `[rows, height, width, ...]`.

    Three axes may also be series of several outputs. Then images as inputs,
    of the same height and width, say that they are pixels.

    Args:
        p: The prediction.
        x: The inputs, or `None`.
    """
    shape = label_shape(p)
    pixels = len(shape) >= 2 and min(shape[:2]) > 1
    classes = p.head.observation == "class"
    if x is None:
        return pixels and len(shape) == (2 if classes else 3)
    size = np.shape(x)
    return pixels and len(size) >= 3 and size[1:3] == shape[:2]


def _one_row(p: Predictive, row: Any) -> Predictive:
    """Returns one row of pixels."""
    shape = label_shape(p)
    most = 2 if p.head.observation == "class" else 3
    if not 2 <= len(shape) <= most:
        raise BayesdropError(
            "There are no pixels to draw. Expected a mean of shape (rows, "
            "height, width), with a last axis of classes or channels. "
            f"Received: p.mean.shape={p.mean.shape}"
        )
    row = check_int(row, "row", at_least=0)
    if row >= len(p):
        raise invalid("row", row, f"an integer below {len(p)}")
    return p[row]


def _one_channel(p: Predictive, output: Any) -> Predictive:
    """Returns one channel, `[1, height, width]`."""
    shape = label_shape(p)
    if len(shape) == 2:
        if output is not None:
            raise invalid("output", output, "`None` without channels")
        return p
    if output is None and shape[2] != 1:
        raise BayesdropError(
            "A map shows one channel. Expected pixels with one channel, or "
            f"the argument `output` from 0 to {shape[2] - 1}. Received: "
            f"output=None and {shape[2]} channels"
        )
    channel = check_int(0 if output is None else output, "output", at_least=0)
    if channel >= shape[2]:
        raise invalid("output", output, f"an integer below {shape[2]}")
    return p[..., channel]


def _panels(p: Predictive) -> list[_Panel]:
    """Returns the maps of a prediction of one row."""
    kind = observation_of(p)
    if p.head.observation == "number":
        parts = {"epistemic": p.std[0]}
        if knows_noise(p):
            parts = {"total": np.sqrt(p.total[0]), **parts}
        first = _Panel("prediction", p.mean[0], {"cmap": "viridis"})
        unit = "standard deviation"
    else:
        parts = {
            "total": getattr(p, kind.total)[0],
            "epistemic": getattr(p, kind.epistemic)[0],
        }
        unit = "nats"
        first = _Panel(
            "prediction",
            p.mean[0],
            {"cmap": "viridis", "vmin": 0.0, "vmax": 1.0},
            "probability",
        )
    if p.head.observation == "class":
        first = _class_panel(p.mean[0])
    largest = max(float(np.max(values)) for values in parts.values())
    options = {
        "cmap": _style.COLOUR_MAP,
        "vmin": 0.0,
        "vmax": largest if largest > 0 else 1.0,
    }
    return [
        first,
        *(
            _Panel(title, values, options, unit)
            for title, values in parts.items()
        ),
    ]


def _class_panel(mean: Array) -> _Panel:
    """Returns the map of the likeliest classes."""
    plt = _style.pyplot()
    from matplotlib.colors import ListedColormap

    count = mean.shape[-1]
    if count <= len(_style.COLOURS):
        colours: Any = _style.COLOURS[:count]
    else:
        wheel = plt.get_cmap("turbo")
        colours = wheel(np.linspace(0.05, 0.95, count))
    options = {
        "cmap": ListedColormap(colours),
        "vmin": -0.5,
        "vmax": count - 0.5,
        "interpolation": "nearest",
    }
    values = np.argmax(mean, axis=-1)
    return _Panel("prediction", values, options, scale="classes")


def _image_panel(image: Any, rows: int, row: int) -> _Panel:
    """Returns the panel of the input."""
    array = as_numbers("image", image)
    colours = array.shape[-1:] in ((1,), (3,))
    if array.ndim == 4 or (array.ndim == 3 and not colours):
        if len(array) != rows:
            raise BayesdropError(
                "Invalid shape of argument `image`. Expected an image for "
                f"each of {rows} rows, or one. Received: "
                f"image.shape={array.shape}"
            )
        array = array[row]
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,)):
        raise BayesdropError(
            "Invalid shape of argument `image`. Expected (rows, height, "
            "width), or that with a last axis of 1 or 3 colours. Received: "
            f"image.shape={np.shape(image)}"
        )
    if array.ndim == 3:
        array = array / 255.0 if array.dtype.kind in "iu" else array
        array = np.clip(array, 0.0, 1.0)
    return _Panel("image", array, {"cmap": "gray"}, scale="none")


def _axes_for(ax: Any, panels: int, steepness: float) -> Any:
    """Returns `ax` after a check, or axes of a new figure that fits."""
    if ax is not None:
        return _style.axes_for(ax)
    width = _PANEL * (panels + _GAP * (panels - 1))
    height = _PANEL * steepness
    figure = _style.pyplot().figure(figsize=(width + 0.5, height + _AROUND))
    size = figure.get_size_inches()
    left, below = 0.25 / size[0], (_AROUND - 0.4) / size[1]
    return figure.add_axes((left, below, width / size[0], height / size[1]))


def _draw(
    ax: Any,
    place: tuple[float, ...],
    panel: _Panel,
    names: list[str] | None,
) -> None:
    """Draws one panel, with its scale below."""
    inner = ax.inset_axes(place)
    picture = inner.imshow(panel.values, **panel.options)
    inner.set_xticks([])
    inner.set_yticks([])
    inner.set_title(panel.title, fontsize=_style.TEXT)
    if panel.scale == "classes":
        assert names is not None
        _name_classes(inner, picture, panel.values, names)
    elif panel.scale == "bar":
        bar = inner.inset_axes((0.0, -_BELOW - _BAR, 1.0, _BAR))
        scale = ax.figure.colorbar(picture, cax=bar, orientation="horizontal")
        scale.set_label(panel.unit, fontsize=_style.TEXT - 1)
        scale.ax.tick_params(labelsize=_style.TEXT - 2)
        scale.ax.locator_params(nbins=4)
        scale.outline.set_visible(False)


def _name_classes(
    ax: Any, picture: Any, classes: npt.NDArray[Any], names: list[str]
) -> None:
    """Adds a legend of the classes in a map, the most frequent ones."""
    from matplotlib.patches import Patch

    found, counts = np.unique(classes, return_counts=True)
    most = np.sort(found[np.argsort(-counts, kind="stable")][:_NAMED])
    handles = [
        Patch(color=picture.cmap(picture.norm(number)), label=names[number])
        for number in most
    ]
    ax.legend(
        handles=handles,
        ncols=min(4, len(handles)),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.02),
        fontsize=_style.TEXT - 2,
        handlelength=0.9,
        columnspacing=0.9,
        handletextpad=0.4,
        frameon=False,
    )
