# SPDX-License-Identifier: Apache-2.0
"""Makes the figures of `docs/learned_dropout.md` from the committed results.

python benchmarks/learned_dropout_page.py            # rewrite the page
python benchmarks/learned_dropout_page.py --check    # fail if out of date
"""

import json
import sys

import pages

PAGE = pages.DOCS / "learned_dropout.md"
RESULTS = pages.RESULTS


def concrete() -> str:
    """Returns the rates that concrete dropout learns, and what it costs."""
    results = json.loads((RESULTS / "concrete.json").read_text())
    lines = [
        "| examples (epochs) | rates of layers 2 and 3 | published | epistemic "
        "| published | aleatoric | published |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rates"]["rows"]:
        ours, keras, pytorch = row["ours"], row["keras"], row["pytorch"]
        pairs = [
            "{1:.2f}, {2:.2f}".format(*each["rates"])
            for each in (ours, keras, pytorch)
        ]
        cells = [
            f"{row['num_train']} ({row['epochs']})",
            pairs[0],
            f"{pairs[1]}; {pairs[2]}",
        ]
        for name in ("epistemic", "aleatoric"):
            cells.append(f"{ours[name]:.2f}")
            cells.append(f"{keras[name]:.2f}; {pytorch[name]:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "| training step of a layer | against the layer alone |",
        "|---|---|",
        *(
            f"| {what} | {each['concrete_over_plain']:.2f} x |"
            for what, each in results["cost"].items()
        ),
    ]
    return "\n".join(lines)


def sparse() -> str:
    """Returns how sparse networks get, beside the publication, and the cost."""
    results = json.loads((RESULTS / "sparse_vd.json").read_text())
    lines = [
        "| network | KL | test error | fewer weights | removed per layer | "
        "parameters of the smaller dense network |",
        "|---|---|---|---|---|---|",
    ]
    for net in (name for name in results if name.startswith("lenet")):
        rows = dict(results[net])
        for kl, row in {"published": rows.pop("published"), **rows}.items():
            removed = " - ".join(f"{each:g}" for each in row["removed_percent"])
            smaller = ""
            if "structured_parameters" in row:
                smaller = (
                    f"{row['structured_parameters']:,} of "
                    f"{row['all_parameters']:,}"
                )
            lines.append(
                f"| {NETS[net]} | {kl} | {row['error_percent']:.2f} % | "
                f"{row['compression']:.0f} x | {removed} % | {smaller} |"
            )
    names = list(next(iter(results["cost"].values()))["over_plain"])[1:]
    lines += [
        "",
        "| training step against the plain layer | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
        *(
            f"| {what} | "
            + " | ".join(f"{each['over_plain'][name]:.2f} x" for name in names)
            + " |"
            for what, each in results["cost"].items()
        ),
    ]
    return "\n".join(lines)


NETS = {"lenet-300-100": "LeNet-300-100", "lenet-5": "LeNet-5-Caffe"}
TABLES = {"concrete": concrete, "sparse": sparse}


def main() -> int:
    """Rewrites or checks the page."""
    tables = {name: table() for name, table in TABLES.items()}
    return pages.write_or_check(PAGE, tables, "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
