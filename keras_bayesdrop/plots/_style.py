# SPDX-License-Identifier: Apache-2.0
"""Shared style of all plots, and the late import of matplotlib."""

from typing import Any

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import MissingPackageError

# Colours of Okabe and Ito, distinguishable for colour-blind readers.
COLOURS = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
)
GREY = "#555555"
# White for zero and dark for large values, perceptually uniform, also in grey
# print.
COLOUR_MAP = "Blues"
# Inches. At 100 dots per inch it fills a column of a web page.
SIZE = (6.4, 4.0)
TEXT = 11


def pyplot() -> Any:
    """Returns `matplotlib.pyplot`.

    It detects a display by itself, and draws only to files without one.

    Raises:
        MissingPackageError: If matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise MissingPackageError(
            "Plots need matplotlib, which cannot be imported. "
            "Expected it to be installed, as by `pip install "
            f"keras-bayesdrop[plots]`. Received: {error}"
        ) from error
    return matplotlib.pyplot


def axes_for(ax: Any) -> Any:
    """Returns `ax` after a check, or new axes for `None`."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(figsize=SIZE, layout="constrained")[1]
    if not isinstance(ax, plt.Axes):
        raise invalid("ax", ax, "a matplotlib `Axes`, or `None`")
    return ax


def dress(ax: Any, title: str, x_label: str, y_label: str) -> None:
    """Sets the texts of axes, adds a light grid and removes the box."""
    ax.set_title(title, fontsize=TEXT + 1)
    ax.set_xlabel(x_label, fontsize=TEXT)
    ax.set_ylabel(y_label, fontsize=TEXT)
    ax.tick_params(labelsize=TEXT - 1)
    ax.grid(color="black", alpha=0.08)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any, title: str = "", **options: Any) -> None:
    """Adds a legend, with a measured value as optional title."""
    box = ax.legend(
        title=title or None,
        fontsize=TEXT - 1,
        title_fontsize=TEXT - 1,
        alignment="left",
        framealpha=0.8,
        edgecolor="none",
        **options,
    )
    box.set_zorder(6)


def shaded_steps(
    ax: Any, shares: Any, edges: Any, colour: str, line: str, label: str
) -> None:
    """Draws a histogram that others may overlap.

    Args:
        ax: The axes.
        shares: Array `[bins]`, the heights.
        edges: Array `[bins + 1]`.
        colour: Of the outline; the area is lighter.
        line: Style of the outline.
        label: For the legend.
    """
    ax.stairs(
        shares,
        edges,
        fill=True,
        facecolor=(colour, 0.3),
        edgecolor=colour,
        ls=line,
        lw=1.6,
        label=label,
    )


def percent(level: float) -> str:
    """Returns a level as text: 0.95 is `95 %`."""
    return f"{100 * level:.4g} %"
