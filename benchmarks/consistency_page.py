# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of `docs/consistency.md` from the committed results.

python benchmarks/consistency_page.py            # rewrite the page
python benchmarks/consistency_page.py --check    # fail if out of date
"""

import json
import sys
from typing import Any

import pages

PAGE = pages.DOCS / "consistency.md"
RESULTS = pages.RESULTS / "baldi.json"
EPOCHS = 100  # of the publication


def layers(result: dict[str, Any]) -> str:
    """Returns what was found, layer by layer, before and after training."""
    rows = []
    for path in result["in_the_end"]:
        for name, key in (("before", "before"), ("after", "in_the_end")):
            row = result[key][path]
            silent = "-"
            if row["sparsity"] > 0:
                silent = f"{row['spread_of_silent']:.2g}"
            rows.append(
                [
                    path,
                    name,
                    f"{row['dropout_variance']:.2g}",
                    f"{row['ensemble_gap']:.2g}",
                    f"{row['nwgm_gap']:.2g}",
                    f"{row['nwgm_kurtosis']:.1f}",
                    f"{row['monte_carlo_error']:.2g}",
                    f"{100 * row['sparsity']:.0f} %",
                    silent,
                    f"{row['spread_of_active']:.2g}",
                ]
            )
    headings = [
        "layer",
        "training",
        "V",
        "gap of W",
        "gap of NWGM",
        "its excess kurtosis",
        "standard error of E",
        "silent activations",
        "their sqrt(V)",
        "sqrt(V) of the others",
    ]
    return (
        f"{result['epochs']} epochs (the publication has {EPOCHS}), "
        f"{result['error_percent']:.2f} % of the test images wrong; ten of "
        f"them with {result['num_samples']:,} masks:"
        f"\n\n{pages.table(headings, rows)}"
    )


def formulas(result: dict[str, Any]) -> str:
    """Returns how good formulas for the gap of the NWGM are."""
    rows = []
    for path, row in result["in_the_end"].items():
        if "missed_by_eq_87" in row:
            shares = [
                f"{100 * row[key] / row['nwgm_gap']:.0f} %"
                for key in ("missed_by_eq_87", "missed_by_eq_202")
            ]
            rows.append([path, f"{row['nwgm_gap']:.2g}", *shares])
    return pages.table(
        [
            "layer",
            "mean size of `E - NWGM`",
            "eq. 87 misses it by",
            "eq. 202 misses it by",
        ],
        rows,
    )


def cost(result: dict[str, Any]) -> str:
    """Returns what a look of the monitor takes."""
    return (
        f"On a shared core an epoch of the network below took "
        f"{result['seconds_of_an_epoch']:.0f} s, and a look "
        f"{result['seconds_of_a_look']:.2f} s: {result['cost_percent']:.1f} % "
        "of it."
    )


TABLES = {"layers": layers, "formulas": formulas, "cost": cost}


def main() -> int:
    """Rewrites or checks the page."""
    result = json.loads(RESULTS.read_text())["sigmoid"]
    tables = {name: table(result) for name, table in TABLES.items()}
    return pages.write_or_check(PAGE, tables, "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
