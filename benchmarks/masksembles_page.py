# SPDX-License-Identifier: Apache-2.0
"""Makes the table of Masksembles in `docs/prediction.md`, from the results.

python benchmarks/masksembles_page.py            # rewrite the page
python benchmarks/masksembles_page.py --check    # fail if out of date
"""

import json
import sys
from typing import Any

import pages

PAGE = pages.DOCS / "prediction.md"


def methods(results: dict[str, Any]) -> str:
    """Returns quality and cost of each method."""
    rows = results["rows"]
    training = rows["one network"]["training_seconds"]["mean"]
    return pages.table(
        [
            "digits",
            "accuracy",
            "NLL",
            "ECE",
            "NLL, calibrated",
            "ECE, calibrated",
            "training",
            "prediction",
        ],
        [
            [
                name,
                f"{100 * row['accuracy']['mean']:.1f} %",
                *(
                    _with_error(row[key])
                    for key in (
                        "nll",
                        "ece",
                        "calibrated_nll",
                        "calibrated_ece",
                    )
                ),
                f"{row['training_seconds']['mean'] / training:.1f} x",
                f"{1e3 * row['predict_seconds']['median']:.0f} ms",
            ]
            for name, row in rows.items()
        ],
    )


def _with_error(value: dict[str, float]) -> str:
    return f"{value['mean']:.3f} ± {value['error']:.3f}"


def main() -> int:
    """Rewrites or checks the page."""
    results = json.loads((pages.RESULTS / "masksembles.json").read_text())
    tables = {"masksembles": methods(results)}
    return pages.write_or_check(PAGE, tables, "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
