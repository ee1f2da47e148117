# SPDX-License-Identifier: Apache-2.0
"""Draws `docs/images/rooms.png`: the rooms of the package, and their order.

python docs/rooms_picture.py
"""

import pathlib

# From the entry points down. A room imports rooms below it, or to its right.
ROWS = {
    "entry points": ["cli", "sklearn", "callbacks", "training", "serving"],
    "use of a result": [
        "diagnostics",
        "decisions",
        "plots",
        "calibrate",
        "sparsity",
    ],
    "prediction": ["prediction", "views"],
    "running a model": ["engines", "theory", "moments", "plan", "graph"],
    "result": ["metrics", "predictive"],
    "models": ["experimental", "layers", "regularizers", "losses"],
    "ground": ["priors", "noise", "random", "_core", "errors"],
}
PICTURE = pathlib.Path(__file__).with_name("images") / "rooms.png"


def draw() -> None:
    """Writes the picture."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    figure = Figure(figsize=(9, 5), dpi=100, layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-2.2, 10.6), ylim=(-0.6, len(ROWS)))
    axes.axis("off")
    for row, (title, rooms) in enumerate(reversed(ROWS.items())):
        axes.text(-2.1, row + 0.35, title, va="center", color="#555555")
        width = 10 / len(rooms)
        for place, room in enumerate(rooms):
            axes.add_patch(
                FancyBboxPatch(
                    (place * width + 0.1, row + 0.08),
                    width - 0.2,
                    0.54,
                    boxstyle="round,pad=0.04",
                    facecolor="#e8eaf6",
                    edgecolor="#3f51b5",
                )
            )
            axes.text(
                (place + 0.5) * width,
                row + 0.35,
                room,
                ha="center",
                va="center",
                color="#1a237e",
            )
    axes.annotate(
        "",
        xy=(10.4, 0.1),
        xytext=(10.4, len(ROWS) - 0.3),
        arrowprops={"arrowstyle": "-|>", "color": "#3f51b5", "lw": 2},
    )
    axes.text(
        10.5,
        -0.35,
        "imports go down, and within a row to the right",
        ha="right",
        color="#555555",
    )
    figure.savefig(PICTURE)


if __name__ == "__main__":
    draw()
