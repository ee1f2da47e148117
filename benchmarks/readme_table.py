# SPDX-License-Identifier: Apache-2.0
"""Makes the figures of the README from the committed results.

python benchmarks/readme_table.py            # rewrite the README
python benchmarks/readme_table.py --check    # fail if it is out of date
"""

import json
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- figures:begin"
END = "<!-- figures:end -->"


def figures() -> str:
    """Returns the tables in Markdown."""
    path = ROOT / "benchmarks" / "results" / "predict.json"
    results = json.loads(path.read_text())
    machine, dense = results["machine"], results["dense"]
    head, uci = results["head"], results["uci"]
    memory = results["memory"]["megabytes_above_loaded_model"]
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
        "| | |",
        "|---|---|",
        _row("First call, tracing included", dense["first_call_seconds"], "s"),
        f"| {head['what']} | {head['passes']:.2f} deterministic passes |",
        f"| {uci['what']}: against as many calls of `model.predict` "
        f"({uci['predict_calls_timed']} timed, scaled) | "
        f"{uci['times_faster_than_predict']:,.0f} times faster |",
        *(
            f"| Peak memory above the loaded model, "
            f"{results['memory']['what']}, {name} | {value:.0f} MB |"
            for name, value in memory.items()
        ),
        _row(
            "`import keras_bayesdrop`, on top of `import keras`",
            results["import"]["seconds_added"]["median"],
            "s",
        ),
    ]
    return "\n".join(lines)


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
