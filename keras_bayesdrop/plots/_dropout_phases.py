# SPDX-License-Identifier: Apache-2.0
"""Phases of training with dropout, drawn from a `ConsistencyMonitor`."""

from typing import Any

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.plots import _phase_panels
from keras_bayesdrop.plots import _style
from keras_bayesdrop.theory.consistency import ConsistencyRecord
from keras_bayesdrop.theory.consistency import LayerRecord

_SIZE = (10.4, 16.0)  # inches
_LEGEND_COLUMNS = 4


def dropout_phases(record: Any, layers: Any = None) -> Any:
    """Draws the record of a `ConsistencyMonitor` over a training run.

    With `E`, `V` and `NWGM` the mean, variance and normalised geometric mean
    of a unit over masks, `W` its value without noise, and a colour for each
    layer:

    - Dropout variance: mean of `V`, by epoch (figure 9.10 of the reference).
    - Consistency of active units: mean of `sqrt(V)` over those that are
      active in the end, and its 5 % and 95 % percentiles (figure 11.3).
    - A typical unit that is active in the end and one that is silent: `E` and
      a band of `sqrt(V)` to both sides. They are the median units of their
      kind, in the first layer that has both kinds and noise (figure 11.2).
    - Silent activations: their fraction, by epoch.
    - Ensemble gap: mean of `|E - W|`, by epoch.
    - Histograms of activations `E` in the end (figure 11.1).
    - Histograms of `NWGM - E`, or `W - E` in a layer without NWGM, before
      training and in the end, each on its own scale (figures 9.6 and 9.7).
      The outermost bars include the 0.5 % of errors beyond them.
    - `E - NWGM` and `E - W` of units over `E`, in the end (figure 9.3).

    Training with dropout has three phases: all units are alike and consistent;
    the variance of those that become active rises; it settles.

    Args:
        record: A `ConsistencyMonitor` after `fit`, or its `record`, with at
            least two entries.
        layers: The path of a layer, or a list of paths. Defaults to all
            layers. Leave out layers on another scale, such as an output of
            logits.

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
        5, 2, figsize=_SIZE, layout="constrained"
    )
    _phase_panels.curves(
        grid[0, 0],
        record,
        shown,
        lambda layer: layer.dropout_variance,
        ("Dropout variance", "mean of V"),
    )
    _phase_panels.active_units(grid[0, 1], record, shown)
    _phase_panels.typical_units(grid[1, 0], record, shown)
    _phase_panels.curves(
        grid[1, 1],
        record,
        shown,
        lambda layer: layer.sparsity,
        ("Silent activations", f"share with |E| <= {record.threshold:g}"),
    )
    grid[1, 1].set_ylim(-0.02, 1.02)
    _phase_panels.curves(
        grid[2, 0],
        record,
        shown,
        lambda layer: layer.ensemble_gap,
        ("Ensemble gap", "mean of |E - W|"),
    )
    _phase_panels.activations(grid[2, 1], shown)
    _phase_panels.errors(grid[3, 0], shown, 0, "before training")
    _phase_panels.errors(grid[3, 1], shown, -1, "in the end")
    _phase_panels.scatter(grid[4, 0], shown, "NWGM")
    _phase_panels.scatter(grid[4, 1], shown, "W")
    figure.legend(
        handles=grid[0, 0].lines,
        loc="outside upper center",
        ncols=min(len(shown), _LEGEND_COLUMNS),
        fontsize=_style.TEXT,
        frameon=False,
    )
    return figure


def _check_record(record: Any) -> ConsistencyRecord:
    """Returns the record of a monitor, if it covers some training."""
    history = getattr(record, "record", record)
    if not isinstance(history, ConsistencyRecord):
        raise invalid(
            "record", record, "a `ConsistencyMonitor`, or the `record` of one"
        )
    if len(history.epochs) < 2:
        raise BayesdropError(
            "There is no training to draw. Expected a record with at least two "
            "entries: the monitor adds one before training and one per epoch. "
            f"Received: {len(history.epochs)} entries"
        )
    return history


def _chosen(record: ConsistencyRecord, layers: Any) -> list[LayerRecord]:
    """Returns the records of the layers that the argument names."""
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
