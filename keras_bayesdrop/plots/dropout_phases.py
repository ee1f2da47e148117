# SPDX-License-Identifier: Apache-2.0
"""How the units of a dropout network change in training."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bayesdrop._arrays import Array
from keras_bayesdrop._consistency_record import ConsistencyRecord
from keras_bayesdrop._consistency_record import LayerRecord
from keras_bayesdrop._validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.plots import _style

_SIZE = (10.4, 13.6)  # inches
# Odd, so that errors around zero share a bar.
_BINS = 41
# Percentiles of units that a band spans.
_BAND = (5, 95)
_LEGEND_COLUMNS = 4

Layers = list[tuple[LayerRecord, str]]  # with their colours


def dropout_phases(record: Any, layers: Any = None) -> Any:
    """Draws what a `ConsistencyMonitor` has seen of a training.

    With `E` and `V` the mean and variance of a unit over masks, `W` its value
    without noise, and a colour for each layer:

    - Dropout variance: mean of `V`, by epoch (figure 9.10 of the reference).
    - Consistency of active units: mean of `sqrt(V)` over those that are
      active in the end, and its 5 % and 95 % percentiles (figure 11.3).
    - A typical unit that is active in the end and one that is silent: `E` and
      a band of `sqrt(V)` to both sides. The middle one of each kind, in the
      first layer that has both and noise (figure 11.2).
    - Silent activations: their share, by epoch.
    - Ensemble gap: mean of `|E - W|`, by epoch.
    - Histograms of `NWGM - E`, or `W - E` in a layer without NWGM, before
      training (dashed) and in the end (figures 9.6 and 9.7).
    - `E - W` of units over `E`, in the end (figure 9.3).
    - Histograms of activations `E` in the end (figure 11.1).

    Training with dropout has three phases: all units are alike and consistent;
    the variance of those that become active rises; it settles.

    Args:
        record: A `ConsistencyMonitor` after `fit`, or its `record`. It needs
            two looks or more.
        layers: The path of a layer, or a list of paths. All by default. Leave
            out those on another scale, such as an output of logits.

    Returns:
        The figure.

    Example:
    ```python
    monitor = keras_bayesdrop.callbacks.ConsistencyMonitor(x_val)
    model.fit(x, y, epochs=100, callbacks=[monitor])
    keras_bayesdrop.plots.dropout_phases(monitor).savefig("phases.png")
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), figures 9.3, 9.6,
          9.10 and 11.1-11.3.
    """
    record = _check_record(record)
    colours = _style.COLOURS
    shown = [
        (layer, colours[number % len(colours)])
        for number, layer in enumerate(_chosen(record, layers))
    ]
    figure, grid = _style.pyplot().subplots(
        4, 2, figsize=_SIZE, layout="constrained"
    )
    _curves(
        grid[0, 0],
        record,
        shown,
        lambda layer: layer.dropout_variance,
        ("Dropout variance", "mean of V"),
    )
    _active_units(grid[0, 1], record, shown)
    _typical_units(grid[1, 0], record, shown)
    _curves(
        grid[1, 1],
        record,
        shown,
        lambda layer: layer.sparsity,
        ("Silent activations", f"share with |E| <= {record.threshold:g}"),
    )
    grid[1, 1].set_ylim(-0.02, 1.02)
    _curves(
        grid[2, 0],
        record,
        shown,
        lambda layer: layer.ensemble_gap,
        ("Ensemble gap", "mean of |E - W|"),
    )
    _errors(grid[2, 1], shown)
    _scatter(grid[3, 0], shown)
    _activations(grid[3, 1], shown)
    figure.legend(
        handles=grid[0, 0].lines,
        loc="outside upper center",
        ncols=min(len(shown), _LEGEND_COLUMNS),
        fontsize=_style.TEXT,
        frameon=False,
    )
    return figure


def _curves(
    ax: Any,
    record: ConsistencyRecord,
    shown: Layers,
    values: Callable[[LayerRecord], list[float]],
    texts: tuple[str, str],
) -> None:
    """Draws a number of each layer by epoch."""
    for layer, colour in shown:
        ax.plot(
            record.epochs, values(layer), color=colour, lw=1.8, label=layer.path
        )
    ax.set_ylim(bottom=0.0)
    _by_epoch(ax, record, *texts)


def _active_units(ax: Any, record: ConsistencyRecord, shown: Layers) -> None:
    for layer, colour in shown:
        active = ~_silent(record, layer)
        if not active.any():
            continue
        spread = np.sqrt(np.stack(layer.variance))[:, active]
        low, high = np.percentile(spread, _BAND, axis=1)
        ax.fill_between(
            record.epochs, low, high, color=colour, alpha=0.12, lw=0
        )
        ax.plot(
            record.epochs,
            spread.mean(axis=1),
            color=colour,
            lw=1.8,
            label=layer.path,
        )
    ax.set_ylim(bottom=0.0)
    _by_epoch(ax, record, "Consistency of active units", "sqrt(V), 5 % to 95 %")


def _typical_units(ax: Any, record: ConsistencyRecord, shown: Layers) -> None:
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
        ax.text(
            0.5,
            0.5,
            "no layer has both",
            transform=ax.transAxes,
            ha="center",
            color=_style.GREY,
            fontsize=_style.TEXT,
        )
    _by_epoch(ax, record, title, "E, and sqrt(V) around it")


def _errors(ax: Any, shown: Layers) -> None:
    """Draws histograms of what approximations of the mean miss."""
    named = set()
    found = []
    for layer, colour in shown:
        named.add("NWGM - E" if layer.nwgm else "W - E")
        guess = layer.nwgm or layer.deterministic
        errors = [guess[look] - layer.mean[look] for look in (0, -1)]
        found.append((layer.path, colour, errors))
    end = max(np.abs(each).max() for _, _, pair in found for each in pair)
    edges = np.linspace(-1.0, 1.0, _BINS + 1) * (end or 1.0)
    for path, colour, (before, after) in found:
        _outline(ax, before, edges, colour, f"{path}, before", "--")
        _outline(ax, after, edges, colour, path, "-")
    ax.set_xlim(edges[0], edges[-1])
    name = " or ".join(sorted(named))
    title = f"{name}, before (dashed) and after"
    _style.dress(ax, title, name, "share of activations")


def _scatter(ax: Any, shown: Layers) -> None:
    for layer, colour in shown:
        mean = layer.mean[-1]
        ax.scatter(
            mean,
            mean - layer.deterministic[-1],
            s=5,
            color=colour,
            alpha=0.35,
            lw=0,
            label=layer.path,
        )
    ax.axhline(0.0, color=_style.GREY, lw=1.0, zorder=0)
    _style.dress(ax, "Error of the deterministic network", "E", "E - W")


def _activations(ax: Any, shown: Layers) -> None:
    means = [layer.mean[-1] for layer, _ in shown]
    low = min(float(each.min()) for each in means)
    high = max(float(each.max()) for each in means)
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    for (layer, colour), mean in zip(shown, means, strict=True):
        _outline(ax, mean, edges, colour, layer.path, "-")
    ax.set_xlim(edges[0], edges[-1])
    _style.dress(ax, "Activations in the end", "E", "share of activations")


def _outline(
    ax: Any, values: Array, edges: Array, colour: str, label: str, line: str
) -> None:
    """Draws a histogram as an outline, so that others show through."""
    counts, _ = np.histogram(values, edges)
    ax.stairs(
        counts / values.size, edges, color=colour, ls=line, lw=1.4, label=label
    )


def _by_epoch(
    ax: Any, record: ConsistencyRecord, title: str, y_label: str
) -> None:
    ax.set_xlim(record.epochs[0], record.epochs[-1])
    ax.xaxis.get_major_locator().set_params(integer=True)
    _style.dress(ax, title, "epoch", y_label)


def _silent(record: ConsistencyRecord, layer: LayerRecord) -> Any:
    """Returns which of the followed activations are silent in the end."""
    return np.abs(layer.mean[-1]) <= record.threshold


def _middle(values: Array, members: Any) -> int:
    """Returns the place of the median member."""
    places = np.flatnonzero(members)
    order = np.argsort(values[places], kind="stable")
    return int(places[order[len(order) // 2]])


def _check_record(record: Any) -> ConsistencyRecord:
    given = getattr(record, "record", record)
    if not isinstance(given, ConsistencyRecord):
        raise invalid(
            "record", record, "a `ConsistencyMonitor`, or the `record` of one"
        )
    if len(given.epochs) < 2:
        raise BayesdropError(
            "There is no training to draw. Expected a record of two looks or "
            "more: the monitor takes one before training and one an epoch. "
            f"Received: {len(given.epochs)} looks"
        )
    return given


def _chosen(record: ConsistencyRecord, layers: Any) -> list[LayerRecord]:
    if layers is None:
        return list(record.layers.values())
    paths = [layers] if isinstance(layers, str) else layers
    known = list(record.layers)
    if not isinstance(paths, (list, tuple)) or not paths:
        raise invalid("layers", layers, f"`None`, or some of {known}")
    for path in paths:
        if path not in record.layers:
            raise SelectionError(
                "An entry of `layers` is no layer of the record. Expected "
                f"one of {known}. Received: {path!r}"
            )
    return [record.layers[path] for path in paths]
