# SPDX-License-Identifier: Apache-2.0
"""The kernels of models, side by side on one colour scale."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.plots import _style
from keras_bayesdrop.plots._kernel_sizes import Layers
from keras_bayesdrop.plots._kernel_sizes import kernel_sizes

# Units a side up to which each weight is a sharp pixel; beyond, matplotlib may
# average those that share a dot.
_SHARP = 128
# Inches of a map, and of what stands around them.
_MAP = 1.9
_AROUND = 1.1
# Maps of a single model that stand in a line.
_IN_A_LINE = 4


def weight_heatmap(
    models: Any, layers: Any = None, largest: float | None = None
) -> Any:
    """Draws how large the weights of models are.

    A pixel is a weight: its row an input unit of the layer, its column an
    output unit. Its colour is the size of the weight,

        size = sqrt(mu^2 + s^2)

    for a weight of mean `mu` and variance `s^2`, which is `|w|` for a plain
    one. All maps have one colour scale: priors that remove input units leave
    rows blank, those that remove layers whole maps.

    The kernel of a convolution is drawn as a matrix with a row for each input
    channel.

    Args:
        models: A built Keras model, or a dict from names to models.
        layers: Which layers to draw: the path of a layer with a kernel (its
            name, below that of the model it is in), its position among them,
            or a list of these. Defaults to all layers with a kernel.
        largest: Positive float. Where the colour scale ends; larger weights
            have its last colour. Defaults to the largest weight.

    Returns:
        The figure. Of several models it has a row of maps for each layer and
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
        (found,) = columns.values()
        maps = _in_lines(found)
    return _draw(maps, largest)


@dataclasses.dataclass(frozen=True)
class _Map:
    """One map: its place in the grid, what it says around it, and its sizes."""

    row: int
    column: int
    title: str
    side: str
    size: Float64Array  # [input units, output units]


def _beside_each_other(columns: dict[str, Layers]) -> list[_Map]:
    """Returns a column of maps for each model."""
    maps = []
    for row, found in enumerate(zip(*columns.values(), strict=True)):
        paths = {path for path, _ in found}
        # Models may call the same layer by different names.
        label = paths.pop() if len(paths) == 1 else f"layer {row + 1}"
        for column, (name, (_, size)) in enumerate(
            zip(columns, found, strict=True)
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
    """Returns the maps of one model, some in each line."""
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
    found = max(float(np.max(each.size)) for each in maps)
    # If all weights are zero, any scale will do.
    norm = plt.Normalize(0.0, largest or found or 1.0)
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
        extend="max" if norm.vmax < found else "neither",
        extendfrac=0.03,
        fraction=0.04,
        pad=0.02,
    )
    bar.set_label(
        r"size of a weight $\sqrt{\mu^2 + s^2}$", size=_style.TEXT - 1
    )
    bar.ax.tick_params(labelsize=_style.TEXT - 2)
    return figure
