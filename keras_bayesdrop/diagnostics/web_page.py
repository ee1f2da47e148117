# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML file that loads nothing and runs no script."""

import base64
import html
import io
from collections.abc import Sequence
from typing import Any

from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.table import marked_up

# Dots per inch of the pictures: sharp on screens with two dots per pixel.
_DOTS = 160
# The browser refuses everything that is not in the file.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue",
  "Liberation Sans", Arial, sans-serif; color: #1f2933; background: #f4f6f8;
  margin: 0; padding: 2rem 1rem; }
main { max-width: 1060px; margin: auto; background: white; padding: 2rem 2.5rem;
  border-radius: 10px; box-shadow: 0 1px 4px rgb(0 0 0 / 12%); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
.heading { color: #555; margin: .3rem 0 1.4rem; }
.verdict { border-left: 5px solid #0072B2; background: #eef5fa;
  border-radius: 0 6px 6px 0; padding: .8rem 1.2rem; }
.verdict p { margin: .3rem 0; }
.verdict p:first-child { font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th { text-align: left; border-bottom: 2px solid #cbd2d9;
  padding: .35rem .7rem; }
td { border-bottom: 1px solid #e4e7eb; padding: .3rem .7rem; }
tr:last-child td { border-bottom: 0; }
td:first-child { font-family: ui-monospace, "Liberation Mono", Menlo,
  monospace; font-size: .86rem; }
td:nth-child(2), td:nth-child(3) { font-variant-numeric: tabular-nums;
  white-space: nowrap; }
td:nth-child(2) { font-weight: 600; }
td:nth-child(4), td:nth-child(5) { color: #52606d; }
img { width: 100%; height: auto; display: block; }
.notes { color: #52606d; font-size: .88rem; }
code { background: #f0f2f4; border-radius: 3px; padding: 0 .25em; }
@media (max-width: 700px) { main { padding: 1.2rem; } }
@media print { body { background: white; padding: 0; }
  main { box-shadow: none; max-width: none; } }
"""


def page_of(
    title: str,
    heading: str,
    verdict: Sequence[str],
    table: Table,
    notes: Sequence[str],
    figure: Any,
) -> str:
    """Returns the page.

    Args:
        title: Its title.
        heading: The line below.
        verdict: Sentences in a box, the first one in bold.
        table: The numbers.
        notes: Sentences at the end.
        figure: A matplotlib figure. It is closed.
    """
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{html.escape(title)}</h1>
<p class="heading">{html.escape(heading)}</p>
<div class="verdict">{_paragraphs(verdict)}</div>
<h2>Pictures</h2>
<img alt="Calibration, risk and coverage, and uncertainty of the model"
 src="data:image/png;base64,{_png(figure)}">
<h2>Numbers</h2>
<div class="wide">{table.html()}</div>
<div class="notes">{_paragraphs(notes)}</div>
</main>
</body>
</html>
"""


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{marked_up(each)}</p>" for each in sentences)


def _png(figure: Any) -> str:
    from matplotlib import pyplot

    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=_DOTS)
    pyplot.close(figure)
    return base64.b64encode(data.getvalue()).decode("ascii")
