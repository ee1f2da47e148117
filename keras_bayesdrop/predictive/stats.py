# SPDX-License-Identifier: Apache-2.0
"""How a prediction was made."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """One step of the plan, who ran it, and why."""

    name: str
    engine: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Stats:
    """How a prediction was made.

    Attributes:
        num_samples: Number `T` of Monte Carlo samples; 0 if none were drawn.
            With a tolerance the most that a row could have.
        num_rows: Number of examples.
        seed: Seed of the masks: with it the prediction can be repeated.
        masks: `"shared"` or `"independent"`.
        method: `"sampling"`, `"moments"`, `"rao_blackwell"`, or the name of
            another way.
        engine: The steps of the plan, in order.
        seconds: Wall time in seconds.
        samples_per_second: Rows times samples, per second.
        batch_size: Number of rows in memory at a time.
        variance_reduction: If a part of the noise was taken in closed form,
            how many times the squared Monte Carlo error of the mean would be
            larger without: the mean variance over the mean of the part that
            was sampled. `None` otherwise.
        num_replicas: Number of devices, of all workers, that shared the work.
    """

    num_samples: int
    num_rows: int
    seed: int
    masks: str
    method: str
    engine: tuple[EngineStep, ...]
    seconds: float
    samples_per_second: float
    batch_size: int
    variance_reduction: float | None = None
    num_replicas: int = 1

    @property
    def sampled(self) -> bool:
        """Whether all noise was sampled, so that there are sample outputs."""
        return self.method not in ("moments", "rao_blackwell")
