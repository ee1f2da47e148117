# SPDX-License-Identifier: Apache-2.0
"""The table of a prediction: data frames, and HTML for notebooks."""

import dataclasses
import re
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas
import pytest

from keras_bayesdrop.cli.prediction_table import write_table
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive import Regression
from tests.predictive.cases import normal
from tests.predictive.cases import simplex
from tests.predictive.cases import unit


def predicted(task, shape=(6, 2), **options):
    draw = {"classification": simplex, "binary": unit}.get(task, normal)
    samples = draw(shape)
    if task == "heteroscedastic":
        noise = np.random.default_rng(1).uniform(0.1, 2.0, samples.shape)
        options["noise_samples"] = noise.astype("float32")
    if task == "known":
        task = Regression(noise_precision=4.0)
    return Predictive.from_samples(samples, task, **options)


def names(columns, *shape):
    return [
        "_".join([name, *map(str, place)])
        for name in columns
        for place in np.ndindex(shape)
    ]


COLUMNS = {
    "regression": ["mean", "std", "lower", "upper"],
    "known": ["mean", "std", "total_std", "lower", "upper"],
    "heteroscedastic": [
        *("mean", "std", "aleatoric_std", "total_std", "lower", "upper"),
    ],
    "binary": [
        *("mean", "std", "lower", "upper", "entropy", "mutual_information"),
    ],
}


@pytest.mark.parametrize("task", COLUMNS)
@pytest.mark.parametrize("shape", [(6,), (6, 2), (6, 2, 3)])
def test_columns_and_values(task, shape):
    p = predicted(task, shape)
    frame = p.to_frame(level=0.8)
    assert list(frame) == names(COLUMNS[task], *shape[1:])
    assert frame.index.name == "row" and list(frame.index) == list(range(6))
    lower, upper = p.interval(0.8)
    values = {
        "mean": p.mean,
        "std": p.std,
        "aleatoric_std": np.sqrt(p.aleatoric),
        "total_std": np.sqrt(p.total),
        "lower": lower,
        "upper": upper,
    }
    if task == "binary":
        values["entropy"] = p.predictive_entropy
        values["mutual_information"] = p.mutual_information
    for name in COLUMNS[task]:
        columns = frame[names([name], *shape[1:])].to_numpy()
        np.testing.assert_array_equal(columns, values[name].reshape(6, -1))
        assert columns.dtype == np.float32


def test_classes_and_quantiles():
    p = predicted("classification", (6, 3), quantiles=(0.1, 0.5))
    frame = p.to_frame()
    assert list(frame) == [
        "class",
        *names(["mean", "std", "lower", "upper", "q0.1", "q0.5"], 3),
        "entropy",
        "mutual_information",
    ]
    np.testing.assert_array_equal(frame["class"], p.mean.argmax(axis=-1))
    np.testing.assert_array_equal(frame["q0.5_2"], p.quantile(0.5)[:, 2])
    np.testing.assert_array_equal(
        frame["mutual_information"], p.mutual_information
    )
    pixels = predicted("classification", (2, 2, 3, 4)).to_frame()
    assert list(pixels)[:6] == names(["class"], 2, 3)
    assert list(pixels)[-6:] == names(["mutual_information"], 2, 3)


def test_what_needs_samples_is_left_out():
    p = predicted("classification", (6, 3))
    p = dataclasses.replace(p, samples=None, mean_entropy=None)
    columns = list(p.to_frame())
    assert "entropy" in columns and "mutual_information" not in columns
    assert "<table>" in p._repr_html_()


@pytest.mark.parametrize("task", [*COLUMNS, "classification"])
def test_frame_is_the_table_of_the_command_line(task, tmp_path):
    p = predicted(task, (6, 3), quantiles=(0.25,))
    write_table(tmp_path / "out.csv", {"output": p}, 0.7)
    read = pandas.read_csv(tmp_path / "out.csv", index_col="row")
    frame = p.to_frame(level=0.7)
    assert list(read) == list(frame)
    for name in frame:
        kind = frame[name].dtype
        np.testing.assert_array_equal(read[name].astype(kind), frame[name])


def test_one_output_alone():
    p = predicted("heteroscedastic", (6, 3))
    frame = p[:, 1].to_frame()
    assert list(frame) == COLUMNS["heteroscedastic"]
    whole = p.to_frame()
    for name in frame:
        np.testing.assert_array_equal(frame[name], whole[f"{name}_1"])
    assert len(p[:0].to_frame()) == 0


def test_wrong_level():
    with pytest.raises(BayesdropError, match=r"`level`. Expected"):
        predicted("regression").to_frame(level=1.0)


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = r"cannot be imported. Expected .*`pip install pandas`. Received"
    with pytest.raises(ImportError, match=message) as caught:
        predicted("regression").to_frame()
    assert isinstance(caught.value, BayesdropError)


# HTML.


def table_of(p):
    """Returns the heading, the cells by column, and the note."""
    tree = ElementTree.fromstring(p._repr_html_())
    header, *rows = tree.find("table").findall("tr")
    columns = [cell.text for cell in header][1:]
    cells = [[float(cell.text) for cell in row][1:] for row in rows]
    heading, *notes = [part.text for part in tree.findall("p")]
    by_name = dict(zip(columns, np.transpose(cells), strict=True))
    return heading, by_name, notes


def assert_shown(cells, desired):
    # Four digits are shown.
    np.testing.assert_allclose(cells, desired, rtol=6e-4, atol=1e-12)


def test_html_of_numbers():
    p = predicted("heteroscedastic", (8, 1))
    heading, cells, notes = table_of(p)
    assert heading == (
        "Predictive: heteroscedastic, 8 rows, outputs (1,), 20 samples, kept"
    )
    assert notes == ["3 more rows"]
    frame = p[:5].to_frame()
    assert list(cells) == list(frame)
    for name in frame:
        assert_shown(cells[name], frame[name])


def test_html_of_classes():
    p = predicted("classification", (3, 10))
    _, cells, notes = table_of(p)
    assert notes == []
    np.testing.assert_array_equal(cells["class"], p.mean.argmax(-1))
    assert_shown(cells["probability"], p.mean.max(axis=-1))
    assert_shown(cells["entropy"], p.predictive_entropy)
    assert_shown(cells["mutual_information"], p.mutual_information)
    assert len(cells) == 4


def test_html_of_many_outputs_is_short():
    p = predicted("heteroscedastic", (7, 4, 5))
    _, cells, notes = table_of(p)
    assert list(cells) == ["mean", "std", "aleatoric_std", "total_std"]
    assert_shown(cells["std"], p.std[:5].mean(axis=(1, 2)))
    assert notes == [
        "2 more rows; each number is the mean over 20 outputs of a row"
    ]
    pixels = predicted("classification", (2, 4, 5, 3))
    _, cells, _ = table_of(pixels)
    assert list(cells) == ["probability", "entropy", "mutual_information"]
    assert_shown(cells["entropy"], pixels.predictive_entropy.mean(axis=(1, 2)))


@pytest.mark.parametrize("task", [*COLUMNS, "classification"])
def test_html_of_everything(task):
    p = predicted(task, (6, 2))
    for part in (p, p[:0], dataclasses.replace(p, samples=None, **bare(p))):
        page = part._repr_html_()
        assert len(page) < 4000
        assert not re.search(r"\bnan\b", page)
    moments = Predictive(head="regression", mean=[[1.0]], variance=[[2.0]])
    assert "by moments" in moments._repr_html_()


def bare(p):
    return {"noise_samples": None} if p.noise_samples is not None else {}
