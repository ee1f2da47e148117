# SPDX-License-Identifier: Apache-2.0
"""Heat maps of the kernels of models, on one colour scale."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.plots import _style
from keras_bayesdrop.plots._kernel_sizes import Layers
from keras_bayesdrop.plots._kernel_sizes import kernel_sizes

# Up to this many units each weight is a sharp pixel; with more, matplotlib may
# average weights that share a pixel of the screen.
_SHARP = 128
# Inches of a map, and of the texts and colour bar around the maps.
_MAP = 1.9
_AROUND = 1.1
# Maps of a single model per line.
_IN_A_LINE = 4


def weight_heatmap(
    models: Any, layers: Any = None, largest: float | None = None
) -> Any:
    """Draws the sizes of the weights of models.

    A pixel is a weight, in the row of its input unit and the column of its
    output unit. Its colour is the size of the weight,

        size = sqrt(mu^2 + s^2)

    for a weight of mean `mu` and variance `s^2`, and `|w|` for a plain weight.
    All maps have one colour scale. A removed input unit is a blank row, and a
    removed layer a blank map.

    The kernel of a convolution is drawn as a matrix with a row for each input
    channel.

    Args:
        models: A built Keras model, or a dict from names to models.
        layers: Layers to draw: the path of a layer with a kernel (its name,
            after that of the model it is in), its position among the layers
            with a kernel, or a list of these. Defaults to all of them.
        largest: Positive float. End of the colour scale; larger weights have
            the last colour. Defaults to the largest weight.

    Returns:
        The figure. For several models it has a row of maps for each layer and
        a column for each model.

    Example:
    ```python
    figure = keras_bayesdrop.plots.weight_heatmap(
        {"dropout": dropped, "ARD": ard}, layers="hidden"
    )
    figure.savefig("weights.png")
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          figure 2.
    """
    columns = kernel_sizes(models, layers)
    if largest is not None:
        largest = check_positive(largest, "largest")
    if isinstance(models, Mapping):
        maps = _beside_each_other(columns)
    else:
        (layers_of_model,) = columns.values()
        maps = _in_lines(layers_of_model)
    return _draw(maps, largest)


@dataclasses.dataclass(frozen=True)
class _Map:
    """One heat map: its place in the grid, its texts, and its sizes."""

    row: int
    column: int
    title: str
    side: str
    size: Float64Array  # [input units, output units]


def _beside_each_other(columns: dict[str, Layers]) -> list[_Map]:
    """Returns a column of maps for each model."""
    maps = []
    for row, kernels in enumerate(zip(*columns.values(), strict=True)):
        paths = {path for path, _ in kernels}
        # Models may have different names for the same layer.
        label = paths.pop() if len(paths) == 1 else f"layer {row + 1}"
        for column, (name, (_, size)) in enumerate(
            zip(columns, kernels, strict=True)
        ):
            maps.append(
                _Map(
                    row=row,
                    column=column,
                    title="" if row else name,
                    side="" if column else f"{label}\ninput unit",
                    size=size,
                )
            )
    return maps


def _in_lines(layers: Layers) -> list[_Map]:
    """Returns the maps of one model, several per line."""
    return [
        _Map(
            row=number // _IN_A_LINE,
            column=number % _IN_A_LINE,
            title=path,
            side="" if number % _IN_A_LINE else "input unit",
            size=size,
        )
        for number, (path, size) in enumerate(layers)
    ]


def _draw(maps: list[_Map], largest: float | None) -> Any:
    """Returns a figure of the maps, with one colour bar."""
    plt = _style.pyplot()
    places = {(each.row, each.column) for each in maps}
    rows, columns = (1 + max(numbers) for numbers in zip(*places, strict=True))
    figure, grid = plt.subplots(
        rows,
        columns,
        squeeze=False,
        figsize=(_MAP * columns + _AROUND, _MAP * rows + 0.6 * _AROUND),
        layout="constrained",
    )
    actual = max(float(np.max(each.size)) for each in maps)
    # If all weights are zero, any scale serves.
    norm = plt.Normalize(0.0, largest or actual or 1.0)
    for each in maps:
        ax = grid[each.row, each.column]
        sharp = max(each.size.shape) <= _SHARP
        image = ax.imshow(
            each.size,
            cmap=_style.COLOUR_MAP,
            norm=norm,
            aspect="auto",
            interpolation="nearest" if sharp else "auto",
        )
        ax.locator_params(integer=True, nbins=6, min_n_ticks=1)
        ax.tick_params(labelsize=_style.TEXT - 3)
        ax.set_title(each.title, fontsize=_style.TEXT)
        ax.set_ylabel(each.side, fontsize=_style.TEXT - 1)
        if (each.row + 1, each.column) not in places:  # none below
            ax.set_xlabel("output unit", fontsize=_style.TEXT - 1)
    for place in np.ndindex(grid.shape):
        if place not in places:
            grid[place].remove()
    bar = figure.colorbar(
        image,
        ax=[grid[place] for place in sorted(places)],
        extend="max" if norm.vmax < actual else "neither",
        extendfrac=0.03,
        fraction=0.04,
        pad=0.02,
    )
    bar.set_label(
        r"size of a weight $\sqrt{\mu^2 + s^2}$", size=_style.TEXT - 1
    )
    bar.ax.tick_params(labelsize=_style.TEXT - 2)
    return figure
