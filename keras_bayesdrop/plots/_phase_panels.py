# SPDX-License-Identifier: Apache-2.0
"""Panels of `dropout_phases`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop.plots import _style
from keras_bayesdrop.theory.consistency import ConsistencyRecord
from keras_bayesdrop.theory.consistency import LayerRecord

# Odd, so that errors around zero share a bar.
_BINS = 41
# Percentiles between which most units lie.
_BAND = (5, 95)
# Percentile of errors at which the axis ends: a few lie far out.
_MOST = 99.5

Layers = list[tuple[LayerRecord, str]]  # with their colours


def curves(
    ax: Any,
    record: ConsistencyRecord,
    shown: Layers,
    values: Callable[[LayerRecord], list[float]],
    texts: tuple[str, str],
) -> None:
    """Draws a curve of each layer over epochs."""
    for layer, colour in shown:
        ax.plot(
            record.epochs, values(layer), color=colour, lw=1.8, label=layer.path
        )
    ax.set_ylim(bottom=0.0)
    _by_epoch(ax, record, *texts)


def active_units(ax: Any, record: ConsistencyRecord, shown: Layers) -> None:
    """Draws the spread of units that are active in the end, over epochs."""
    for layer, colour in shown:
        active = ~_silent(record, layer)
        if not active.any():
            continue
        spread = np.sqrt(np.stack(layer.variance))[:, active]
        # Lines, as bands of several layers hide each other.
        for limit in np.percentile(spread, _BAND, axis=1):
            ax.plot(record.epochs, limit, color=colour, lw=0.8, ls="--")
        ax.plot(
            record.epochs,
            spread.mean(axis=1),
            color=colour,
            lw=1.8,
            label=layer.path,
        )
    ax.set_ylim(bottom=0.0)
    _by_epoch(ax, record, "Consistency of active units", "sqrt(V), 5 % to 95 %")


def typical_units(ax: Any, record: ConsistencyRecord, shown: Layers) -> None:
    """Draws the median active unit and the median silent one, over epochs."""
    title = "A typical active and silent unit"
    for layer, own in shown:
        silent = _silent(record, layer)
        if silent.all() or not silent.any() or not np.any(layer.variance[-1]):
            continue
        title = f"{title}, {layer.path}"
        for kind, members, colour in (
            ("active", ~silent, own),
            ("silent", silent, _style.GREY),
        ):
            unit = _middle(layer.mean[-1], members)
            mean = np.stack(layer.mean)[:, unit]
            spread = np.sqrt(np.stack(layer.variance)[:, unit])
            ax.fill_between(
                record.epochs,
                mean - spread,
                mean + spread,
                color=colour,
                alpha=0.2,
                lw=0,
            )
            ax.plot(record.epochs, mean, color=colour, lw=1.8, label=kind)
        ax.legend(fontsize=_style.TEXT - 1, frameon=False)
        break
    else:
        _say(ax, "no layer has both")
    _by_epoch(ax, record, title, "E, and sqrt(V) around it")


def errors(ax: Any, shown: Layers, look: int, when: str) -> None:
    """Draws histograms of the errors of approximate means in one record."""
    names = ["NWGM - E" if layer.nwgm else "W - E" for layer, _ in shown]
    misses = [
        (layer.nwgm or layer.deterministic)[look] - layer.mean[look]
        for layer, _ in shown
    ]
    end = max(float(np.percentile(np.abs(each), _MOST)) for each in misses)
    edges = np.linspace(-1.0, 1.0, _BINS + 1) * (end or 1.0)
    for (layer, colour), each in zip(shown, misses, strict=True):
        inside = np.clip(each, edges[0], edges[-1])
        _outline(ax, inside, edges, colour, layer.path)
    ax.set_xlim(edges[0], edges[-1])
    # Before training, errors are so small that tick labels would overlap.
    ax.locator_params(axis="x", nbins=5)
    ax.ticklabel_format(axis="x", scilimits=(-2, 3))
    name = " or ".join(sorted(set(names)))
    _style.dress(ax, f"{name} {when}", name, "share of activations")


def scatter(ax: Any, shown: Layers, name: str) -> None:
    """Draws the error of "NWGM" or "W" of each unit in the end."""
    for layer, colour in shown:
        guesses = layer.deterministic if name == "W" else layer.nwgm
        if not guesses:
            continue
        ax.scatter(
            layer.mean[-1],
            layer.mean[-1] - guesses[-1],
            s=5,
            color=colour,
            alpha=0.35,
            lw=0,
            label=layer.path,
        )
    if not ax.collections:
        _say(ax, "no layer has one")
    ax.axhline(0.0, color=_style.GREY, lw=1.0, zorder=0)
    _style.dress(ax, f"Error of {name} in the end", "E", f"E - {name}")


def activations(ax: Any, shown: Layers) -> None:
    """Draws histograms of activations in the end."""
    means = [layer.mean[-1] for layer, _ in shown]
    low = min(float(each.min()) for each in means)
    high = max(float(each.max()) for each in means)
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    for (layer, colour), mean in zip(shown, means, strict=True):
        _outline(ax, mean, edges, colour, layer.path)
    ax.set_xlim(edges[0], edges[-1])
    _style.dress(ax, "Activations in the end", "E", "share of activations")


def _outline(
    ax: Any, values: Array, edges: Array, colour: str, label: str
) -> None:
    """Draws the outline of a histogram, so that others show through."""
    counts, _ = np.histogram(values, edges)
    ax.stairs(counts / values.size, edges, color=colour, lw=1.4, label=label)


def _say(ax: Any, text: str) -> None:
    """Writes the reason why a panel is empty."""
    ax.text(
        0.5,
        0.6,
        text,
        transform=ax.transAxes,
        ha="center",
        color=_style.GREY,
        fontsize=_style.TEXT,
    )


def _by_epoch(
    ax: Any, record: ConsistencyRecord, title: str, y_label: str
) -> None:
    """Sets the epochs as x axis, and the texts."""
    ax.set_xlim(record.epochs[0], record.epochs[-1])
    ax.xaxis.get_major_locator().set_params(integer=True)
    _style.dress(ax, title, "epoch", y_label)


def _silent(record: ConsistencyRecord, layer: LayerRecord) -> Any:
    """Returns a mask of the activations that are silent in the end."""
    return np.abs(layer.mean[-1]) <= record.threshold


def _middle(values: Array, members: Any) -> int:
    """Returns the index of the median member."""
    places = np.flatnonzero(members)
    order = np.argsort(values[places], kind="stable")
    return int(places[order[len(order) // 2]])
