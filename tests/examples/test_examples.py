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
EXAMPLES = sorted((ROOT / "examples").glob("[!_]*.py"))


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


def helping(output, _):
    """The more a human reads, the fewer errors are left."""
    rows = re.findall(
        r"^ +(\d+)% +([\d.]+) +([\d.]+)% +([\d.]+)%", output, re.M
    )
    shares, thresholds, kept, left = zip(*rows, strict=True)
    assert shares == ("0", "5", "10", "20", "30")
    for column in (thresholds, kept, left):
        numbers = [float(number) for number in column]
        assert numbers == sorted(numbers, reverse=True)
    assert 1 < float(kept[0]) < 25
    assert float(kept[3]) < 0.5 * float(kept[0])


def asking(output, _):
    """All begin about alike, and BALD gains least."""
    rows = re.findall(r"^ +(\d+)((?: +[\d.]+%){3})$", output, re.M)
    assert [labels for labels, _ in rows] == ["10", "20", "30", "40", "50"]
    table = [
        [float(number.rstrip("%")) for number in rest.split()]
        for _, rest in rows
    ]
    assert max(table[0]) - min(table[0]) < 8
    by_chance, bald, batchbald = (
        last - first for first, last in zip(table[0], table[-1], strict=True)
    )
    # With copies in the pool only BALD wastes most of its labels.
    assert min(by_chance, batchbald) > max(bald, 10)


def playing(output, _):
    """Who learns regrets less than who does not."""
    rows = re.findall(
        r"^(uniform|epsilon-greedy|Thompson)((?: +\d+){4}) +([\d.]+)$",
        output,
        re.M,
    )
    assert len(rows) == 3, output
    regret = {name: [int(n) for n in rest.split()] for name, rest, _ in rows}
    late = {name: float(rate) for name, _, rate in rows}
    for values in regret.values():
        assert values == sorted(values)
    # Half of the digits are taken: half of the odd ones for 5 and half of the
    # even ones left for 1. The deviation over 100 digits is 0.2.
    assert abs(late["uniform"] - 1.5) < 0.8
    for name in ("epsilon-greedy", "Thompson"):
        assert regret[name][-1] < 0.6 * regret["uniform"][-1]


def turning(output, _):
    """Upright the digit is read, surely; on the way round it is not."""
    rows = re.findall(
        r"^ +(\d+) +(\d) +([\d.]+) +([\d.]+) +([\d.]+)$", output, re.M
    )
    assert [int(row[0]) for row in rows] == list(range(0, 181, 15)), output
    assert int(rows[0][1]) == 1
    entropy = [float(row[3]) for row in rows]
    information = [float(row[4]) for row in rows]
    assert max(entropy) > 2 * entropy[0]
    assert max(information) > 2 * information[0]
    # A part is never more than the whole, of which two digits are printed.
    for part, whole in zip(information, entropy, strict=True):
        assert part <= whole + 0.01


def known_and_unknown(output, _):
    """The band opens where there are no data; unknown digits are noticed."""
    data, between, beyond = map(
        float, re.findall(r"([\d.]+) (?:where|between|beyond)", output)
    )
    assert data < between < beyond
    assert float(re.search(r"Accuracy: ([\d.]+)", output)[1]) > 0.8
    auroc = re.search(r"for digits 8 and 9: ([\d.]+)", output)
    assert float(auroc[1]) > 0.8


def hidden_and_ahead(output, _):
    """What is hidden is unclear; bands widen and hold what they say."""
    hidden, visible = map(
        float, re.findall(r"([\d.]+) where (?:hidden|visible)", output)
    )
    assert hidden > 1.2 * visible
    inside = float(re.search(r"Inside 80 % bands: ([\d.]+)", output)[1])
    assert 0.6 < inside < 0.95
    first, last = map(
        float, re.findall(r"([\d.]+) at the (?:first|last)", output)
    )
    assert last > 1.5 * first


CHECKS = {
    "active_learning.py": asking,
    "bandit.py": playing,
    "human_in_the_loop.py": helping,
    "mauna_loa.py": widening,
    "shrinkage_figures.py": shrinking,
    "rotated_digits.py": turning,
    "plot_gallery.py": known_and_unknown,
    "maps_and_forecasts.py": hidden_and_ahead,
}
# Those that write several pictures, into a folder.
SEVERAL = {
    "plot_gallery.py": (
        "entropy_histogram.png",
        "parity.png",
        "predictive_band.png",
        "regression_calibration.png",
        "reliability_diagram.png",
        "risk_coverage.png",
    ),
    "maps_and_forecasts.py": (
        "fan_chart.png",
        "uncertainty_map.png",
    ),
    "shrinkage_figures.py": (
        "importance_weights.png",
        "scale_curves.png",
        "weight_heatmap.png",
    ),
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
