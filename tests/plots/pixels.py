# SPDX-License-Identifier: Apache-2.0
"""What a figure looks like once it is drawn."""

import itertools

import matplotlib.axes
import matplotlib.text
import numpy as np


def drawn(figure):
    """Returns the picture [height, width, RGBA] in [0, 1], row 0 on top."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()) / 255.0


def colour_at(ax, x, y):
    """Returns the RGBA of the dot at a place in data coordinates."""
    picture = drawn(ax.figure)
    column, from_below = ax.transData.transform((x, y))
    return picture[len(picture) - 1 - int(from_below), int(column)]


def texts(figure):
    """Returns the texts that are there to be read."""
    figure.canvas.draw()
    beyond = {
        id(label)
        for ax in figure.findobj(matplotlib.axes.Axes)
        for axis in (ax.xaxis, ax.yaxis)
        for label in _labels_beyond_the_limits(axis)
    }
    return [
        text
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip()
        if id(text) not in beyond
    ]


def overlapping_texts(figure):
    """Returns the pairs of texts that touch, or leave the figure."""
    edge = figure.bbox
    boxes = [
        (text.get_text(), text.get_window_extent()) for text in texts(figure)
    ]
    wrong = [
        (one, other)
        for (one, box), (other, place) in itertools.combinations(boxes, 2)
        if box.overlaps(place)
    ]
    for name, box in boxes:
        inside = box.x0 >= 0 and box.y0 >= 0
        inside = inside and box.x1 <= edge.x1 and box.y1 <= edge.y1
        if not inside:
            wrong.append((name, "the edge"))
    return wrong


def _labels_beyond_the_limits(axis):
    """Yields the labels of ticks that are never drawn."""
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * (high - low)
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if not low - margin <= tick.get_loc() <= high + margin:
            yield from (tick.label1, tick.label2)
