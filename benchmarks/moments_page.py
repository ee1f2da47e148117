# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of `docs/moments.md` from the committed results.

python benchmarks/moments_page.py            # rewrite the page
python benchmarks/moments_page.py --check    # fail if out of date
"""

import json
import sys
from typing import Any

import pages

PAGE = pages.DOCS / "moments.md"
RESULTS = pages.RESULTS / "moments.json"
COVARIANCES = ("diagonal", "full")


def cost(results: dict[str, Any]) -> str:
    """Returns the cost in deterministic passes."""
    return pages.table(
        ["network", "`moments`, diagonal", "50 samples, at the least"],
        [
            [
                f"{name}, {each['rows']} rows",
                f"{each['passes']:.1f} passes",
                "50 passes",
            ]
            for name, each in results["cost"].items()
        ],
    )


def rao_blackwell(results: dict[str, Any]) -> str:
    """Returns the cost of Rao-Blackwell against plain sampling."""
    return pages.table(
        ["network", "`rao_blackwell`, in times of `sampling`"],
        [
            [
                f"{name}, {each['sampled_rows']} rows, T = {each['samples']}",
                f"{each['rao_blackwell_over_sampling']:.2f}",
            ]
            for name, each in results["cost"].items()
        ],
    )


def trained(results: dict[str, Any]) -> str:
    """Returns how standard deviations go with those of sampling."""
    return pages.table(
        [
            "network",
            "covariance",
            "correlation of `std` with that of sampling",
            "its error, root mean square",
            "error of `mean`, in standard errors of 50 samples",
        ],
        [
            [
                f"{NAMES[name]}, {each['rows']} rows, T = {each['samples']:,}",
                covariance,
                f"{each[covariance]['correlation']:.3f}",
                f"{100 * each[covariance]['std']:.0f} %",
                f"{each[covariance]['mean_in_errors_at_50']:.2f}",
            ]
            for name, each in results["trained"].items()
            for covariance in COVARIANCES
        ],
    )


def information(results: dict[str, Any]) -> str:
    """Returns how mutual information goes with that of sampling."""
    return pages.table(
        [
            "network",
            "covariance",
            "correlation of `mutual_information`",
            "its mean, in those of sampling",
        ],
        [
            [
                NAMES[name],
                covariance,
                f"{found['correlation']:.3f}",
                f"{found['ratio']:.2f}",
            ]
            for name, each in results["trained"].items()
            for covariance in COVARIANCES
            if (found := each[covariance].get("information")) is not None
        ],
    )


def error(results: dict[str, Any]) -> str:
    """Returns the error on random networks, a table a width."""
    rows = results["error"]["rows"]
    blocks = []
    for width in sorted({row["width"] for row in rows}):
        mine = [row for row in rows if row["width"] == width]
        depths = sorted({row["depth"] for row in mine})
        samples = mine[0]["samples"]
        lines = []
        labels = dict.fromkeys((row["activation"], row["last"]) for row in mine)
        for activation, last in labels:
            found = {
                row["depth"]: row
                for row in mine
                if (row["activation"], row["last"]) == (activation, last)
            }
            cells = [
                " / ".join(
                    f"{100 * found[depth][covariance]['std']:.1f}"
                    for covariance in COVARIANCES
                )
                + " %"
                if depth in found
                else ""
                for depth in depths
            ]
            worst = " / ".join(
                f"{max(row[covariance]['mean'] for row in found.values()):.3f}"
                for covariance in COVARIANCES
            )
            name = activation if last is None else f"{activation}, then {last}"
            lines.append([name, *cells, worst])
        blocks.append(
            f"Width {width}, against {samples:,} samples, which by themselves "
            f"leave {100 / (2 * samples) ** 0.5:.1f} % to a standard deviation "
            f"and {samples**-0.5:.3f} standard deviations to a mean:"
        )
        headings = [f"depth {depth}" for depth in depths]
        blocks.append(
            pages.table(["activation", *headings, "worst mean"], lines)
        )
    return "\n\n".join(blocks)


def logits(results: dict[str, Any]) -> str:
    """Returns the error of the softmax, by classes and noise."""
    found = {
        (row["classes"], row["noise"]): row for row in results["logits"]["rows"]
    }
    noises = sorted({noise for _, noise in found})
    return pages.table(
        ["classes", *(f"noise {noise:g}" for noise in noises)],
        [
            [
                f"{classes}",
                *(
                    f"{row['distance']:.3f} / {100 * row['std']:.0f} %"
                    for row in (found[classes, noise] for noise in noises)
                ),
            ]
            for classes in sorted({classes for classes, _ in found})
        ],
    )


NAMES = {
    "digits": "digits, 64-128-128-10 softmax",
    "boston": "Boston housing, 13-50-1",
    "energy": "energy, 8-50-1",
    "wine": "red wine, 11-50-1",
    "yacht": "yacht, 6-50-1",
}
TABLES = {
    "cost": cost,
    "rao_blackwell": rao_blackwell,
    "trained": trained,
    "information": information,
    "error": error,
    "logits": logits,
}


def main() -> int:
    """Rewrites or checks the page."""
    results = json.loads(RESULTS.read_text())
    tables = {name: table(results) for name, table in TABLES.items()}
    return pages.write_or_check(PAGE, tables, "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
