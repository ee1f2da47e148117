# SPDX-License-Identifier: Apache-2.0
"""The example of Ray Data runs on two workers, and its answers fit together.

Not collected with the other tests: it needs Ray, which they do not.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "distributed" / "ray_data.py"


def test_blocks_give_what_the_whole_does(tmp_path):
    path = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--rows", "200"],
        cwd=tmp_path,
        # Ray keeps files in the home folder.
        env={**os.environ, "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(
        r"^(\d+) blocks, (\d+) rows at once: (\d+) rows, off by at most "
        r"(\S+) in the mean, (\S+) in the deviation$",
        done.stdout,
        re.MULTILINE,
    )
    assert [row[:3] for row in found] == [
        ("2", "64", "200"),
        ("5", "37", "200"),
    ], done.stdout
    for row in found:
        # Float32 matmuls of other sizes, of numbers of the order of 1.
        assert max(map(float, row[3:])) < 1e-5
