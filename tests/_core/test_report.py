# SPDX-License-Identifier: Apache-2.0
"""Reports show themselves as text and as HTML."""

import xml.etree.ElementTree

from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table


class Ages(Report):
    def _blocks(self):
        yield "Model `a<b>` & co."
        yield Table(("name", "age"), [("Ada", "36"), ("<Bob>", "7")])
        yield "Done."


def test_text_has_paragraphs_and_aligned_columns():
    assert str(Ages()).splitlines() == [
        "Model `a<b>` & co.",
        "",
        "name   age",
        "-----  ---",
        "Ada    36",
        "<Bob>  7",
        "",
        "Done.",
    ]


def test_html_is_well_formed_and_escaped():
    page = Ages()._repr_html_()
    tree = xml.etree.ElementTree.fromstring(f"<div>{page}</div>")
    assert [each.tag for each in tree] == ["p", "table", "p"]
    assert "".join(tree[0].itertext()) == "Model a<b> & co."
    assert tree[0][0].tag == "code"
    assert [cell.text for cell in tree.iter("th")] == ["name", "age"]
    cells = [cell.text for cell in tree.iter("td")]
    assert cells == ["Ada", "36", "<Bob>", "7"]
