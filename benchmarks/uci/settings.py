# SPDX-License-Identifier: Apache-2.0
"""What a run may change of the published protocols."""

import dataclasses
import hashlib
import json
from typing import Any

DECAYS = ("derived", "released")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of all methods; `None` is what the method's paper used.

    Attributes:
        epochs: Number of epochs.
        samples: Monte Carlo samples for a prediction.
        batch_size: Rows of a training step.
        hidden_layers: Number of hidden layers.
        learning_rate: That of Adam.
        length_scale: Prior length scale of dropout networks.
        decay: Weight decay of dropout networks. `"derived"`: that of
            `DropoutL2`, with the noise precision in the units that the loss
            sees. `"released"`: that of the published code.
        seed: Seed of everything random.
    """

    epochs: int | None = None
    samples: int | None = None
    batch_size: int | None = None
    hidden_layers: int | None = None
    learning_rate: float = 1e-3
    length_scale: float = 1e-2
    decay: str = "derived"
    seed: int = 1

    def filled(self, usual: dict[str, Any]) -> "Settings":
        """Returns settings with something for every `None`."""
        missing = {
            name: value
            for name, value in usual.items()
            if getattr(self, name) is None
        }
        return dataclasses.replace(self, **missing)

    def changes(self) -> dict[str, Any]:
        """Returns what differs from the defaults."""
        usual = Settings()
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(usual, field.name)
        }

    def digest(self) -> str:
        """Returns a short name that no other settings have."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]
