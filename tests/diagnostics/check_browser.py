# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation in a real browser, without complaints.

`make test-browser` runs it. It needs Chromium.
"""

import os
import re
import shutil
import subprocess

import matplotlib.image
import pytest

from tests.diagnostics.evaluated import classifier
from tests.diagnostics.evaluated import data
from tests.diagnostics.evaluated import evaluate
from tests.diagnostics.evaluated import labels
from tests.diagnostics.evaluated import model

pytestmark = pytest.mark.slow
NAMES = ("chromium", "chromium-browser", "google-chrome")
X, Y = data()
# Before a page is loaded and drawn.
PATIENCE = 120


def browser(folder, *arguments):
    """Runs Chromium; returns its output and what its console says."""
    program = os.environ.get("KBD_BROWSER") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if program is None:
        pytest.fail(
            "There is no browser. Expected Chromium, as by `apt-get install "
            "chromium`, or its path in KBD_BROWSER. Received: none of "
            f"{', '.join(NAMES)}"
        )
    done = subprocess.run(
        [
            program,
            "--headless",
            # The sandbox does not run as root, nor in most containers.
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={folder}/profile",
            "--window-size=1200,2000",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)


CASES = {
    "numbers": lambda: evaluate(model(), X, Y),
    "classes": lambda: evaluate(classifier(), X, labels()),
}


@pytest.mark.parametrize("case", CASES)
def test_page_is_shown_without_complaints(case, tmp_path):
    evaluation = CASES[case]()
    file = tmp_path / "report.html"
    evaluation.to_html(file)
    shot = tmp_path / "shot.png"
    dom, complaints = browser(tmp_path, "--dump-dom", file.as_uri())
    assert not complaints
    assert all(name in dom for name in evaluation.estimates)
    _, complaints = browser(tmp_path, f"--screenshot={shot}", file.as_uri())
    assert not complaints
    pixels = matplotlib.image.imread(shot)
    assert pixels.shape[:2] == (2000, 1200)
    # The verdict's box, and the blue and orange of the pictures, are drawn.
    for colour in ("eef5fa", "0072b2", "d55e00"):
        wanted = [int(colour[n : n + 2], 16) / 255 for n in (0, 2, 4)]
        near = abs(pixels[..., :3] - wanted).max(axis=-1) < 0.03
        assert near.sum() > 20, colour


def test_complaints_are_noticed(tmp_path):
    file = tmp_path / "report.html"
    CASES["numbers"]().to_html(file)
    text = file.read_text("utf-8")
    # The policy of the page refuses whatever is not in the file.
    image = '<img src="https://example.org/picture.png">'
    file.write_text(text.replace("</main>", f"{image}</main>"), "utf-8")
    _, complaints = browser(tmp_path, "--dump-dom", file.as_uri())
    assert any("Content Security Policy" in line for line in complaints)
