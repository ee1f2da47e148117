# SPDX-License-Identifier: Apache-2.0
"""The code on the page on decisions runs, and its claims hold."""

import re

import numpy as np

from tests.docs.pages import DOCS
from tests.docs.pages import run_page
from tests.docs.pages import text_of


def test_code_runs():
    names = run_page("decisions.md")
    assert len(names["d"].rows) == 40
    assert names["d"].risk < names["d"].full_risk < 0.3
    assert names["result"].saving == 0.8
    assert names["result"].mean.shape == (400, 10)
    assert len(set(names["a"].rows)) == 10
    assert names["action"].shape == (8,)
    assert np.all(np.diff(names["d"].curve.coverage) > 0)


def test_pictures_are_there():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text_of("decisions.md"))
    assert len(pictures) == 3
    for path in pictures:
        assert (DOCS / path).stat().st_size < 100_000, path
