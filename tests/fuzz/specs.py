# SPDX-License-Identifier: Apache-2.0
"""Specs of random models: smaller ones, and their text."""

import copy
from collections.abc import Iterator
from typing import Any

from tests.fuzz.kinds import Piece
from tests.fuzz.kinds import kinds_in

Spec = dict[str, Any]


def cuts(spec: Spec) -> Iterator[Spec]:
    """Yields smaller specs: less of this one, in every way that is one step."""
    for pieces in _fewer(spec["pieces"]):
        if any(kind.noise for kind in kinds_in(pieces)):
            yield {**spec, "pieces": pieces}
    for name, value in [
        ("outputs", "one"),
        ("inputs", "one"),
        ("open", False),
        ("fixed_rows", False),
        ("mask_zero", False),
        ("gate", 0.0),
        ("model", "functional"),
        ("head", "none"),
    ]:
        if spec[name] != value:
            yield {**spec, name: value}


def _fewer(pieces: list[Piece]) -> Iterator[list[Piece]]:
    for index, piece in enumerate(pieces):
        before, behind = pieces[:index], pieces[index + 1 :]
        yield [*before, *behind]
        if "inner" in piece:
            yield [*before, *copy.deepcopy(piece["inner"]), *behind]
            for inner in filter(None, _fewer(piece["inner"])):
                yield [*before, {**piece, "inner": inner}, *behind]


def describe(spec: Spec) -> str:
    """Returns a spec in a line."""

    def text(piece: Piece) -> str:
        shown = [
            f"{key}={value}"
            for key, value in piece.items()
            if key not in ("kind", "inner")
        ]
        inner = [text(each) for each in piece.get("inner", [])]
        return f"{piece['kind']}({', '.join([*shown, *inner])})"

    shape = [None, *spec["shape"][1:]] if spec["open"] else spec["shape"]
    extras = [
        f"{name}={spec[name]}"
        for name, plain in [
            ("inputs", "one"),
            ("outputs", "one"),
            ("fixed_rows", False),
            ("gate", 0.0),
        ]
        if spec[name] != plain
    ]
    if spec["form"] == "tokens" and spec["mask_zero"]:
        extras.append("mask_zero")
    if spec["model"] == "subclassed" and spec["passes"]:
        extras.append("passes training")
    pieces = " > ".join(text(piece) for piece in spec["pieces"])
    return " ".join(
        [
            f"{spec['model']}, {spec['rows']} x {spec['form']}{shape}:",
            f"{pieces} > head={spec['head']}",
            *([f"[{', '.join(extras)}]"] if extras else []),
        ]
    )
