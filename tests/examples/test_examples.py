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


def run_quickly(script, directory, out):
    """Runs an example in a directory; returns what it prints."""
    path = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--out", out],
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


def shrinking(output, _):
    """Priors take away what dropout leaves; all read most of the digits."""
    rows = re.findall(r"^([A-Zd][\w-]+)((?: +-?\d+\.\d+){5})$", output, re.M)
    assert [name for name, _ in rows] == ["dropout", "ARD", "ADD", "ARD-ADD"]
    table = {name: [float(n) for n in rest.split()] for name, rest in rows}
    for accuracy, *_ in table.values():
        assert accuracy > 0.8
    for name in ("ARD", "ADD", "ARD-ADD"):
        border, inner = table[name][2:4]
        assert border < 0.5 * inner
    hidden = {name: numbers[-1] for name, numbers in table.items()}
    assert hidden["ADD"] < 0.5 * hidden["ARD"] < 0.5 * hidden["dropout"]


CHECKS = {"mauna_loa.py": widening, "shrinkage_figures.py": shrinking}
# Those that write several pictures, into a folder.
SEVERAL = {
    "shrinkage_figures.py": (
        "importance_weights.png",
        "scale_curves.png",
        "weight_heatmap.png",
    )
}


def test_there_are_examples():
    assert set(CHECKS) <= {script.name for script in EXAMPLES}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_draws(script, tmp_path):
    names = SEVERAL.get(script.name, ("picture.png",))
    out = "pictures" if script.name in SEVERAL else "picture.png"
    done = run_quickly(script, tmp_path, out)
    assert [path.name for path in tmp_path.iterdir()] == [out]
    folder = tmp_path / out if script.name in SEVERAL else tmp_path
    pictures = sorted(folder.iterdir())
    assert [path.name for path in pictures] == list(names)
    for picture in pictures:
        width, height = size_of_png(picture)
        assert min(width, height) >= 400
        # A blank picture of this size compresses to a few kilobytes.
        assert picture.stat().st_size > 20_000
    # What TensorFlow logs does not bury what the example says.
    assert done.stderr == ""
    if script.name in CHECKS:
        CHECKS[script.name](done.stdout, pictures)
