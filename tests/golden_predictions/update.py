# SPDX-License-Identifier: Apache-2.0
"""Rewrites the golden arrays.

python -m tests.golden_predictions.update [file]

Only for a change of numbers that is meant: it needs a **Numerics** line in
CHANGELOG.md.
"""

import pathlib
import sys

from tests.golden_predictions import cases
from tests.golden_predictions import golden


def main() -> None:
    problem = cases.why_no_fused_engine()
    if problem:
        sys.exit(f"The arrays of the fused engine cannot be made: {problem}")
    path = pathlib.Path(sys.argv[1]) if sys.argv[1:] else golden.FILE
    golden.write(golden.compute(), path)


if __name__ == "__main__":
    main()
