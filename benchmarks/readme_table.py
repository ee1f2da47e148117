# SPDX-License-Identifier: Apache-2.0
"""Makes the figures of the README from the committed results.

python benchmarks/readme_table.py            # rewrite the README
python benchmarks/readme_table.py --check    # fail if it is out of date
"""

import json
import pathlib
import statistics
import sys
from typing import Any

from learned_dropout_page import NETS
from uci.published import LOG_LIKELIHOOD
from uci.published import RMSE

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- figures:begin"
END = "<!-- figures:end -->"
SHARED = "keras_bayesdrop, shared masks"


def figures() -> str:
    """Returns the tables in Markdown."""
    folder = ROOT / "benchmarks" / "results"
    results = json.loads((folder / "predict.json").read_text())
    fused = json.loads((folder / "fused.json").read_text())
    machine, dense = results["machine"], results["dense"]
    head, uci = results["head"], results["uci"]
    memory = results["memory"]["runs_in_megabytes"]
    tiled = dense["seconds"]["one tf.function, batch tiled 50 times"]["median"]
    lines = [
        "Medians; the cases of a table took turns in one run, on "
        f"{machine['cores']} cores of an "
        f"{machine['cpu']} ({machine['vectors']}), TensorFlow "
        f"{machine['tensorflow']}, Keras {machine['keras']}; engine: "
        f"{dense['engine']}.",
        "",
        f"| {dense['what']} | seconds | against tiled |",
        "|---|---|---|",
        *(
            f"| {name} | {time['median']:.2f} | "
            f"{tiled / time['median']:.2f} x |"
            for name, time in dense["seconds"].items()
        ),
        "",
        "(`model.predict` drops nothing; it is there for its cost.)",
        "",
        "| against one `tf.function` over the tiled batch | shared masks | "
        "independent masks |",
        "|---|---|---|",
        *(
            f"| {fused[name]['what']} | "
            f"{fused[name]['shared_times_faster_than_tiled']:.1f} x | "
            f"{fused[name]['independent_times_faster_than_tiled']:.1f} x |"
            for name in ("large", "no_zeros", "low_rate", "small", "latency")
        ),
        "",
        "| | |",
        "|---|---|",
        "| Arithmetic that survives the shared masks of the first row, at the "
        f"rate of TensorFlow's own sgemm ({fused['large']['sgemm_gflops']:.0f} "
        f"GFLOP/s) | {fused['large']['ceiling_seconds']:.2f} s; the whole call "
        f"takes {fused['large']['seconds'][SHARED]['best']:.2f} s with relu, "
        "whose zeros it skips, "
        f"{fused['no_zeros']['seconds'][SHARED]['best']:.2f} s with tanh |",
        "| One row: the compiled program alone, which like the tiled batch "
        "returns samples (the call around it takes some milliseconds), against "
        "tiled (shared, independent masks) | "
        + ", ".join(
            f"{times:.2f} x"
            for times in fused["latency"][
                "program_times_faster_than_tiled"
            ].values()
        )
        + " |",
        "| Independent masks against the bare matmuls | "
        f"{fused['large']['independent_in_matmuls']:.2f} of their time |",
        *(
            f"| Time grows with the number of {size} to the power (shared, "
            "independent masks) | "
            f"{fused['scaling'][f'shared, {size}']['exponent']:.2f}, "
            f"{fused['scaling'][f'independent, {size}']['exponent']:.2f} |"
            for size in ("samples", "rows")
        ),
        "| Two threads against one (shared, independent masks) | "
        + ", ".join(
            f"{fused['threads']['two_threads_against_one'][masks]:.2f} x"
            for masks in ("shared", "independent")
        )
        + " |",
        _row("First call, tracing included", dense["first_call_seconds"], "s"),
        f"| {head['what']} | {head['passes']:.2f} deterministic passes |",
        f"| {uci['what']}: against as many calls of `model.predict` "
        f"({uci['predict_calls_timed']} timed, scaled) | "
        f"{uci['times_faster_than_predict']:,.0f} times faster |",
        *(
            f"| Peak memory above the loaded model, "
            f"{results['memory']['what']}, {name} | "
            f"{statistics.median(runs):.0f} MB ({min(runs):.0f} to "
            f"{max(runs):.0f}) |"
            for name, runs in memory.items()
        ),
        _row(
            "`import keras_bayesdrop`, on top of `import keras`",
            results["import"]["seconds_added"]["median"],
            "s",
        ),
        _accuracy_row(folder),
    ]
    return "\n".join([*lines, "", *beside_published(folder)])


def beside_published(folder: pathlib.Path) -> list[str]:
    """Returns the lines of the table of what others have published."""
    sparse = json.loads((folder / "sparse_vd.json").read_text())
    concrete = json.loads((folder / "concrete.json").read_text())
    uci = json.loads((folder / "uci.json").read_text())
    lines = [
        "| beside what was published | here | published |",
        "|---|---|---|",
    ]
    for name, net in sparse.items():
        if "published" in net:
            ours, theirs = (
                f"{each['error_percent']:.2f} %, {each['compression']:.0f} x"
                for each in (net["exact"], net["published"])
            )
            epochs = net["exact"]["epochs"]
            what = f"{NETS[name]}, {epochs} epochs: test error, fewer weights"
            cells = (f"Sparse variational dropout, {what}", ours, theirs)
            lines.append(f"| {' | '.join(cells)} |")
    rows = concrete["rates"]["rows"]
    sizes = ", ".join(f"{row['num_train']:,}" for row in rows)
    here, there = (
        ", ".join(f"{row[who]['rates'][1]:.2f}" for row in rows)
        for who in ("ours", "keras")
    )
    lines.append(
        f"| Concrete dropout, {sizes} examples: rate of the second layer | "
        f"{here} | {there} |"
    )
    for name in RMSE["mc_dropout"]:
        if name in uci:
            lines.append(_uci_row(name, uci[name]["mc_dropout"]))
    return lines


def _uci_row(name: str, ours: dict[str, Any]) -> str:
    """Returns the scores of MC dropout on a set, beside the published ones."""
    here = [
        (ours[score]["mean"], ours[score]["standard_error"])
        for score in ("rmse", "log_likelihood")
    ]
    there = [
        published["mc_dropout"][name] for published in (RMSE, LOG_LIKELIHOOD)
    ]
    texts = (
        "; ".join(f"{mean:.3f} ± {error:.3f}" for mean, error in scores)
        for scores in (here, there)
    )
    return (
        f"| MC dropout on {name}, 20 splits: RMSE; log-likelihood | "
        f"{' | '.join(texts)} |"
    )


def _accuracy_row(folder: pathlib.Path) -> str:
    """Returns the gain by balanced draws on trained networks."""
    accuracy = json.loads((folder / "accuracy.json").read_text())["ratios"]
    ratios = [row["shared"]["64"]["ratio"] for row in accuracy.values()]
    return (
        "| Squared error of the mean of 64 balanced draws, against 64 "
        f"independent ones, on {len(ratios)} trained networks "
        "([which](docs/accuracy.md)) | "
        f"{min(ratios):.2f} to {max(ratios):.2f}, "
        f"median {statistics.median(ratios):.2f} |"
    )


def _row(what: str, value: Any, unit: str) -> str:
    return f"| {what} | {value:.2f} {unit} |"


def updated(text: str) -> str:
    """Returns the README with its figures made anew."""
    before, rest = text.split(BEGIN, 1)
    marker, rest = rest.split("\n", 1)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}{marker}\n{figures()}\n{END}{after}"


def main() -> int:
    """Rewrites or checks the README."""
    text = README.read_text()
    new = updated(text)
    if "--check" in sys.argv[1:]:
        return int(new != text)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
