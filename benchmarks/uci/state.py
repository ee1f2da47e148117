# SPDX-License-Identifier: Apache-2.0
"""Finished splits on disk, so that an interrupted run goes on."""

import dataclasses
import json
import os
import pathlib
from typing import Any

from uci.settings import Settings


class State:
    """The finished splits of one set, method and settings.

    Each has a file of its own, named for all three, so that runs with other
    settings do not mix.

    Args:
        folder: Where the file is, or will be.
        set_name: Name of the set.
        method: Name of the method.
        settings: The settings.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        set_name: str,
        method: str,
        settings: Settings,
    ) -> None:
        self.path = folder / f"{set_name}-{method}-{settings.digest()}.json"
        self._settings = settings
        self.splits: dict[int, dict[str, Any]] = {}
        if self.path.exists():
            stored = json.loads(self.path.read_text("utf-8"))["splits"]
            self.splits = {int(number): stored[number] for number in stored}

    def add(self, split: int, record: dict[str, Any]) -> None:
        """Records a finished split; the file is whole at every moment."""
        self.splits[split] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {
                "settings": dataclasses.asdict(self._settings),
                "splits": {str(k): self.splits[k] for k in sorted(self.splits)},
            },
            indent=1,
        )
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(text + "\n", "utf-8")
        os.replace(unfinished, self.path)
