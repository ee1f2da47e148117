# SPDX-License-Identifier: Apache-2.0
"""Makes the tables and the picture of `docs/accuracy.md` from the results.

python benchmarks/accuracy_page.py            # rewrite page and picture
python benchmarks/accuracy_page.py --check    # fail if the page is out of date
"""

import json
import sys
from typing import Any

import numpy as np
import pages

PAGE = pages.DOCS / "accuracy.md"
PICTURE = pages.DOCS / "images" / "accuracy.png"
RESULTS = pages.RESULTS / "accuracy.json"
METHODS = {
    "independent": "independent draws",
    "balanced": "balanced draws",
    "rao_blackwell, independent": "Rao-Blackwell, independent",
    "rao_blackwell, balanced": "Rao-Blackwell, balanced",
    "moments": "moments",
}
QUANTITIES = {
    "mean": "`mean`",
    "std": "`std`",
    "mutual_information": "`mutual_information`",
    "quantile": "`quantile(0.9)`",
}
# Samples of the table with equal numbers, and those of independent draws whose
# time is that of the table with equal times.
SAMPLES, TIMED = 64, 256
MISSING = ""


def ratios(results: dict[str, Any]) -> str:
    """Returns squared errors of the mean against independent draws."""

    def cell(row: dict[str, Any], masks: str, samples: int) -> str:
        entry = row[masks][f"{samples}"]
        return f"{entry['ratio']:.3f} ± {entry['error']:.3f}"

    return pages.table(
        [
            "network",
            "noisy layers",
            "T = 64",
            "T = 50",
            'T = 64, `masks="independent"`',
        ],
        [
            [
                row["what"],
                f"{row['noisy_layers']}",
                cell(row, "shared", 64),
                cell(row, "shared", 50),
                cell(row, "independent", 64),
            ]
            for row in results["ratios"].values()
        ],
    )


def curve_of(
    results: dict[str, Any], network: str, method: str, quantity: str
) -> Any:
    """Returns samples, seconds and errors of a method; `None` without them."""
    errors = results["errors"][network]["methods"]
    with_quantiles = f"{method}, with quantiles"
    if quantity == "quantile" and with_quantiles in errors:
        method = with_quantiles
    if quantity not in errors.get(method, ()):
        return None
    timed = results["times"][network]["methods"][method]
    samples = errors[method]["samples"]
    assert samples == timed["samples"]
    # More samples that were timed faster bound the time of fewer.
    seconds = np.minimum.accumulate(timed["seconds"][::-1])[::-1]
    return samples, seconds, errors[method][quantity]


def error_in(curve: Any, seconds: float) -> float:
    """Returns the error of a method after some time.

    It lies on a straight line between measured points, both axes logarithmic.
    """
    _, times, errors = curve
    return float(
        np.exp(np.interp(np.log(seconds), np.log(times), np.log(errors)))
    )


def percent(error: float) -> str:
    """Returns an error as a percentage with two digits."""
    return f"{100 * error:.2g} %" if error < 0.1 else f"{100 * error:.0f} %"


def equal_samples(results: dict[str, Any]) -> str:
    """Returns errors at the same number of samples."""

    def cell(curve: Any) -> str:
        if curve is None:
            return MISSING
        samples, _, errors = curve
        place = samples.index(SAMPLES) if SAMPLES in samples else 0
        return percent(errors[place])

    return by_method(results, lambda network, quantity: cell)


def equal_time(results: dict[str, Any]) -> str:
    """Returns errors after the same time."""

    def cell_of(network: str, quantity: str) -> Any:
        samples, seconds, _ = curve_of(
            results, network, "independent", quantity
        )
        budget = seconds[samples.index(TIMED)]

        def cell(curve: Any) -> str:
            if curve is None or curve[1][0] > budget:
                return MISSING
            return percent(error_in(curve, budget))

        return cell

    return by_method(results, cell_of)


def by_method(results: dict[str, Any], cell_of: Any) -> str:
    """Returns a table with a column for each method.

    Args:
        results: Of the benchmark.
        cell_of: Function of network and quantity that returns a function of a
            curve, which returns the text of a cell.
    """
    rows = []
    for network, row in results["errors"].items():
        for quantity, text in QUANTITIES.items():
            curves = [
                curve_of(results, network, each, quantity) for each in METHODS
            ]
            if curves[0] is not None:
                cell = cell_of(network, quantity)
                rows.append([row["kind"], text, *map(cell, curves)])
    return pages.table(["network", "of", *METHODS.values()], rows)


def draw(results: dict[str, Any]) -> None:
    """Writes the picture: error of the mean against time, for each kind."""
    from matplotlib.ticker import LogLocator
    from matplotlib.ticker import NullFormatter

    from keras_bayesdrop.plots import _style

    figure, axes = _style.pyplot().subplots(
        2, 3, figsize=(11.5, 7.4), layout="constrained", sharey=True
    )
    colours = (_style.GREY, *_style.COLOURS[1:4], _style.COLOURS[0])
    markers = ("o", "s", "^", "v", "D")
    for ax, network in zip(axes.flat, results["errors"], strict=True):
        for method, colour, marker in zip(
            METHODS, colours, markers, strict=True
        ):
            curve = curve_of(results, network, method, "mean")
            if curve is None:
                continue
            _, seconds, errors = curve
            ax.loglog(
                1e3 * np.asarray(seconds),
                100 * np.asarray(errors),
                color=colour,
                marker=marker,
                ms=9 if method == "moments" else 6,
                mec="white",
                mew=0.6,
                ls="" if method == "moments" else "-",
                lw=1.8,
                label=METHODS[method],
            )
        kind = results["errors"][network]["kind"]
        _style.dress(ax, kind, "milliseconds", "")
        for axis, text in ((ax.xaxis, "{x:g}"), (ax.yaxis, "{x:g} %")):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(text)
            axis.set_minor_formatter(NullFormatter())
    for ax in axes[:, 0]:
        ax.set_ylabel("error of the mean, % of the std", fontsize=_style.TEXT)
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(METHODS),
        frameon=False,
        fontsize=_style.TEXT,
    )
    figure.savefig(PICTURE, dpi=100)


TABLES = {
    "ratios": ratios,
    "equal_samples": equal_samples,
    "equal_time": equal_time,
}


def main() -> int:
    """Rewrites or checks the page."""
    results = json.loads(RESULTS.read_text())
    check = "--check" in sys.argv[1:]
    if not check:
        draw(results)
    tables = {name: table(results) for name, table in TABLES.items()}
    return pages.write_or_check(PAGE, tables, check)


if __name__ == "__main__":
    sys.exit(main())
