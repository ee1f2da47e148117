# SPDX-License-Identifier: Apache-2.0
"""The look that all pictures share, and matplotlib where it is needed."""

from typing import Any

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import MissingPackageError

# Colours of Okabe and Ito, which the colour-blind can tell apart.
COLOURS = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
)
GREY = "#555555"
# White for nothing and dark for much, in equal steps for the eye, and so in
# grey print.
COLOUR_MAP = "Blues"
# Inches. At 100 dots an inch it fills a column of a web page.
SIZE = (6.4, 4.0)
TEXT = 11


def pyplot() -> Any:
    """Returns `matplotlib.pyplot`.

    It finds out by itself whether there is a display, and draws to files
    alone if there is none.

    Raises:
        MissingPackageError: If matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise MissingPackageError(
            "Pictures are drawn by matplotlib, which cannot be imported. "
            "Expected it to be installed, as by `pip install "
            f"keras-bayesdrop[plots]`. Received: {error}"
        ) from error
    return matplotlib.pyplot


def axes_for(ax: Any) -> Any:
    """Returns the axes to draw on: those given, or new ones for `None`."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(figsize=SIZE, layout="constrained")[1]
    if not isinstance(ax, plt.Axes):
        raise invalid("ax", ax, "a matplotlib `Axes`, or `None`")
    return ax


def dress(ax: Any, title: str, x_label: str, y_label: str) -> None:
    """Gives axes their texts, a light grid, and no box."""
    ax.set_title(title, fontsize=TEXT + 1)
    ax.set_xlabel(x_label, fontsize=TEXT)
    ax.set_ylabel(y_label, fontsize=TEXT)
    ax.tick_params(labelsize=TEXT - 1)
    ax.grid(color="black", alpha=0.08)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any, title: str = "", **options: Any) -> None:
    """Adds a legend; what was measured may be its title."""
    found = ax.legend(
        title=title or None,
        fontsize=TEXT - 1,
        title_fontsize=TEXT - 1,
        alignment="left",
        framealpha=0.8,
        edgecolor="none",
        **options,
    )
    found.set_zorder(6)


def percent(level: float) -> str:
    """Returns a level as text: 0.95 is `95 %`."""
    return f"{100 * level:.4g} %"
