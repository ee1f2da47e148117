# SPDX-License-Identifier: Apache-2.0
"""Reports print when they are asked to, and never by themselves."""

import keras
import pytest

from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.sparsity import effective_depth
from keras_bayesdrop.sparsity import sparsity_report
from keras_bayesdrop.sparsity import to_sparse_size


def _model():
    block = ADDResidual([keras.layers.Dense(3)], "log_uniform", 10, name="add")
    return keras.Sequential([keras.Input((3,)), block], name="net")


@pytest.mark.parametrize(
    ("function", "column"),
    [
        (sparsity_report, "removed"),
        (effective_depth, "relative"),
        (to_sparse_size, "ratio"),
    ],
)
def test_a_report_shows_itself(function, column, capsys):
    report = function(_model())
    assert capsys.readouterr().out == ""
    assert column in str(report) == repr(report)
    page = report._repr_html_()
    assert f"<th>{column}</th>" in page
    assert page.endswith(("</table>", "</p>"))


def test_sizes_in_bytes():
    dense = keras.layers.Dense(10)
    size = to_sparse_size(keras.Sequential([keras.Input((300,)), dense]))
    assert size.dense_bytes == 4 * (300 * 10 + 10)
    assert str(size).splitlines()[2].split() == ["12,040", "12,040", "1.0"]
