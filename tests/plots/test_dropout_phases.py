# SPDX-License-Identifier: Apache-2.0
import sys

import keras
import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import patches

from keras_bayesdrop import plots
from keras_bayesdrop.callbacks import ConsistencyMonitor
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.plots import _style
from keras_bayesdrop.theory.consistency import Consistency
from keras_bayesdrop.theory.consistency import ConsistencyRecord
from keras_bayesdrop.theory.consistency import LayerConsistency
from tests.plots import pixels

EPOCHS = [0, 1, 4]
TITLES = [
    "Dropout variance",
    "Consistency of active units",
    "A typical active and silent unit, first",
    "Silent activations",
    "Ensemble gap",
    "Activations in the end",
    "NWGM - E or W - E before training",
    "NWGM - E or W - E in the end",
    "Error of NWGM in the end",
    "Error of W in the end",
]


def layer(path, look, logistic):
    """Ten inputs of eight units; half of the units go silent."""
    rng = np.random.default_rng(look)
    mean = np.linspace(0.2, 0.9, 80).reshape(10, 8)
    mean[:, :4] *= 0.1**look
    variance = rng.uniform(0.01, 0.02, mean.shape) * (1 + look)
    fixed = mean + rng.normal(0.0, 0.01 * (1 + look), mean.shape)
    nwgm = mean + rng.normal(0.0, 0.02, mean.shape) if logistic else None
    return LayerConsistency(path, "Dense", 0.1, 50, mean, variance, fixed, nwgm)


def looks(look):
    return layer("first", look, True), layer("second", look, False)


@pytest.fixture(name="record")
def make_record():
    record = ConsistencyRecord(0.1)
    for look, epoch in enumerate(EPOCHS):
        record.add(epoch, Consistency("model", 50, 10, 0, looks(look)))
    return record


def panels(figure):
    return dict(zip(TITLES, figure.axes, strict=True))


def curves(ax):
    return {line.get_label(): line for line in ax.lines}


def outlines(ax):
    return {
        patch.get_label(): patch
        for patch in ax.patches
        if isinstance(patch, patches.StepPatch)
    }


def test_texts_colours_and_limits(record):
    figure = plots.dropout_phases(record)
    assert [ax.get_title() for ax in figure.axes] == TITLES
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["first", "second"]
    for title, ax in panels(figure).items():
        if ax.get_xlabel() == "epoch":
            assert ax.get_xlim() == (0, 4), title
        assert ax.get_ylabel(), title
    for title in TITLES[:2] + TITLES[4:5]:
        assert panels(figure)[title].get_ylim()[0] == 0.0
    low, high = panels(figure)["Silent activations"].get_ylim()
    assert low <= 0.0 and high >= 1.0
    lines = curves(figure.axes[0])
    assert [line.get_color() for line in lines.values()] == list(
        _style.COLOURS[:2]
    )
    assert pixels.overlapping_texts(figure) == []


def test_curves_are_means_by_epoch(record):
    shown = panels(plots.dropout_phases(record))
    for title, measure in (
        ("Dropout variance", lambda each: each.variance.mean()),
        (
            "Ensemble gap",
            lambda each: np.abs(each.mean - each.deterministic).mean(),
        ),
        ("Silent activations", lambda each: (each.mean <= 0.1).mean()),
    ):
        lines = curves(shown[title])
        assert list(lines) == ["first", "second"]
        for number, line in enumerate(lines.values()):
            assert list(line.get_xdata()) == EPOCHS
            expected = [measure(looks(look)[number]) for look in range(3)]
            np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-12)
    assert list(lines["first"].get_ydata()) == [0.0, 0.5, 0.5]


def test_active_units_are_those_of_the_end(record):
    ax = panels(plots.dropout_phases(record))["Consistency of active units"]
    for look in range(3):
        spread = np.sqrt(layer("first", look, True).variance[:, 4:])
        drawn = curves(ax)["first"].get_ydata()[look]
        np.testing.assert_allclose(drawn, spread.mean(), rtol=1e-12)
        limits = [line.get_ydata()[look] for line in ax.lines[:2]]
        np.testing.assert_allclose(limits, np.percentile(spread, [5, 95]))
    assert {line.get_color() for line in ax.lines[:3]} == {_style.COLOURS[0]}


def test_typical_units_are_in_the_middle_of_their_kind(record):
    ax = panels(plots.dropout_phases(record))[TITLES[2]]
    lines = curves(ax)
    assert list(lines) == ["active", "silent"]
    final = layer("first", 2, True).mean
    for kind, values in (("active", final[:, 4:]), ("silent", final[:, :4])):
        middle = np.sort(values.ravel())[20]  # of 40
        place = tuple(np.argwhere(final == middle)[0])
        drawn = lines[kind].get_ydata()
        expected = [layer("", look, True).mean[place] for look in range(3)]
        np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    band = ax.collections[0].get_paths()[0].vertices
    ends = band[band[:, 0] == 4, 1]
    place = tuple(np.argwhere(final == lines["active"].get_ydata()[-1])[0])
    spread = np.sqrt(layer("", 2, True).variance[place])
    np.testing.assert_allclose(np.ptp(ends), 2 * spread, rtol=1e-9)


def test_histograms(record):
    shown = panels(plots.dropout_phases(record))
    for title, look in ((TITLES[6], 0), (TITLES[7], 2)):
        drawn = outlines(shown[title])
        assert list(drawn) == ["first", "second"]
        missed = []
        for number, each in enumerate(looks(look)):
            guess = each.deterministic if each.nwgm is None else each.nwgm
            missed.append((guess - each.mean).ravel())
            values, edges, _ = drawn[each.path].get_data()
            # What is further out is in the outermost bars.
            counts, _ = np.histogram(
                missed[-1], [-np.inf, *edges[1:-1], np.inf]
            )
            np.testing.assert_allclose(values, counts / 80)
            np.testing.assert_allclose(values.sum(), 1.0)
            np.testing.assert_allclose(edges, -edges[::-1])
            colour = matplotlib.colors.to_rgba(_style.COLOURS[number])
            assert drawn[each.path].get_edgecolor() == colour
        ends = [np.percentile(np.abs(each), 99.5) for each in missed]
        np.testing.assert_allclose(edges[-1], max(ends))
        assert edges[-1] < np.abs(missed).max()
    drawn = outlines(shown["Activations in the end"])
    assert list(drawn) == ["first", "second"]
    values, edges, _ = drawn["first"].get_data()
    mean = layer("first", 2, True).mean
    np.testing.assert_allclose(edges[[0, -1]], [mean.min(), mean.max()])
    np.testing.assert_allclose(values, np.histogram(mean, edges)[0] / 80)


def test_scatter_of_the_last_look(record):
    shown = panels(plots.dropout_phases(record))
    first, second = looks(2)
    for name, layers in (("NWGM", [first]), ("W", [first, second])):
        ax = shown[f"Error of {name} in the end"]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("E", f"E - {name}")
        for points, each in zip(ax.collections, layers, strict=True):
            assert points.get_label() == each.path
            error = each.deterministic_error
            if name == "NWGM":
                error = each.nwgm_error
            expected = np.stack([each.mean.ravel(), error.ravel()], axis=-1)
            np.testing.assert_allclose(points.get_offsets(), expected)


def test_some_layers_and_no_silent_units(record):
    figure = plots.dropout_phases(record, layers="second")
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["second"]
    assert figure.axes[6].get_title() == "W - E before training"
    assert figure.axes[8].texts[0].get_text() == "no layer has one"
    both = plots.dropout_phases(record, layers=["second", "first"])
    assert list(curves(both.axes[0])) == ["second", "first"]
    record.threshold = 1e-9
    figure = plots.dropout_phases(record)
    assert figure.axes[2].texts[0].get_text() == "no layer has both"
    record.threshold = 10.0
    assert not plots.dropout_phases(record).axes[1].lines


def test_a_monitor_after_fit():
    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(6, activation="relu", name="hidden"),
            keras.layers.Dense(1, name="last"),
        ]
    )
    model.compile("sgd", "mse")
    monitor = ConsistencyMonitor(x, num_samples=5)
    model.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[monitor])
    figure = plots.dropout_phases(monitor)
    lines = curves(figure.axes[0])
    assert list(lines) == ["hidden", "last"]
    recorded = monitor.record.layers["hidden"].dropout_variance
    assert list(lines["hidden"].get_ydata()) == recorded
    assert pixels.overlapping_texts(figure) == []


def test_wrong_records_and_layers(record):
    one = ConsistencyRecord(0.1)
    one.add(0, Consistency("model", 50, 10, 0, looks(0)))
    for wrong, message in (
        (3, "argument `record`. Expected a `ConsistencyMonitor`"),
        (one, "at least two entries.* Received: 1 entries"),
        (ConsistencyMonitor(np.zeros((2, 2))), "Received: 0 entries"),
    ):
        with pytest.raises(BayesdropError, match=message):
            plots.dropout_phases(wrong)
    with pytest.raises(SelectionError, match=r"\['first', 'second'\]"):
        plots.dropout_phases(record, layers=["first", "none"])
    for layers in ([], 3):
        with pytest.raises(BayesdropError, match="argument `layers`"):
            plots.dropout_phases(record, layers=layers)
    assert not plt.get_fignums()


def test_without_matplotlib(record, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"keras-bayesdrop\[plots\]"):
        plots.dropout_phases(record)
