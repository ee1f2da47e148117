# SPDX-License-Identifier: Apache-2.0
"""Every example runs, and shows what it says it shows."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run_quickly(script, directory):
    """Runs an example in a directory; returns what it prints."""
    path = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--out", "picture.png"],
        cwd=directory,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def size_of_png(path):
    """Returns width and height from the header of a PNG."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def widening(output, _):
    """The deviation grows with the distance from the data."""
    rows = re.findall(
        r"^(inside the data|\s*\d+ years beyond \(\d+\)) +([\d.]+) +([\d.]+)",
        output,
        re.MULTILINE,
    )
    assert len(rows) == 4, output
    deviations = [float(deviation) for _, _, deviation in rows]
    assert deviations == sorted(deviations)
    assert deviations[-1] > 2.5 * deviations[0]
    # The mean stays sensible: the record ends at 371 ppm and rises.
    assert 380 < float(rows[-1][1]) < 430


CHECKS = {"mauna_loa.py": widening}


def test_there_are_examples():
    assert set(CHECKS) <= {script.name for script in EXAMPLES}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_draws(script, tmp_path):
    done = run_quickly(script, tmp_path)
    picture = tmp_path / "picture.png"
    width, height = size_of_png(picture)
    assert min(width, height) >= 400
    # A blank picture of this size compresses to a few kilobytes.
    assert picture.stat().st_size > 20_000
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
    # What TensorFlow logs does not bury what the example says.
    assert done.stderr == ""
    if script.name in CHECKS:
        CHECKS[script.name](done.stdout, picture)
