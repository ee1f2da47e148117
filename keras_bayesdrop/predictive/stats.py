# SPDX-License-Identifier: Apache-2.0
"""The record of how a prediction came about."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """One step of the plan, the engine that ran it, and why that one."""

    name: str
    engine: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ChainWork:
    """The work of a dense chain in the compiled op.

    Attributes:
        name: Path of its first layer.
        strategy: `"cut"` if each sample ran as a smaller network; `"masked"`
            if rows were masked, a tile at a time through the whole network;
            `"columns"` if they were, all at once, step by step.
        subtracts: Whether the first step takes what a sample drops from a
            product that is made once.
        multiply_adds: Multiply-adds that the noise leaves, on average. Zeros
            of other origin, as of relu, are skipped besides.
        whole_multiply_adds: Those of all samples through the whole network.
    """

    name: str
    strategy: str
    subtracts: bool
    multiply_adds: int
    whole_multiply_adds: int


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The record of how a prediction came about.

    `predict_with_uncertainty` fills all of it. For samples from elsewhere the
    number of samples and of rows is enough; the rest is `None` where it is
    not known.

    Attributes:
        num_samples: Number `T` of Monte Carlo samples; 0 if none were drawn.
            With a tolerance the largest number that a row can have.
        num_rows: Number of examples.
        seed: Seed of the masks: with it the prediction can be repeated.
        masks: `"shared"` if each sample is one function of all rows, or
            `"independent"`.
        draws: `"balanced"` if the samples of each 16 share out the noise of a
            unit, or `"independent"`.
        method: `"sampling"`, `"moments"`, `"rao_blackwell"`, `"point"` (one
            pass of a network without noise), or the name of another way.
        engine: The steps of the plan, in order.
        seconds: Wall time in seconds.
        samples_per_second: Rows times samples, per second.
        batch_size: Number of rows in memory at a time.
        variance_reduction: If a part of the noise was integrated in closed
            form: the mean variance over the mean of its sampled part. With
            independent draws the squared Monte Carlo error of plain sampling
            is larger by this factor. `None` otherwise.
        num_replicas: Number of devices, of all workers, that shared the work.
        chains: The work of each dense chain that the compiled op ran in this
            process on CPUs; not of sequences whose length the model leaves
            open, nor of several devices.
        prefix_runs: How often the part of the model ran that no noise reaches:
            once for a batch, however many samples it has. 0 if there is no
            such part.
        num_members: Number of networks, if the prediction is that of an
            ensemble; else `None`.

    Example:
    ```python
    # An ensemble of 3 networks: each sample is one function.
    samples = np.random.default_rng(0).normal(size=(3, 20, 1))
    stats = Stats(num_samples=3, num_rows=20, masks="shared")
    keras_bayesdrop.Predictive.from_samples(samples, stats=stats)
    ```
    """

    num_samples: int
    num_rows: int
    seed: int | None = None
    masks: str | None = None
    draws: str | None = None
    method: str = "sampling"
    engine: tuple[EngineStep, ...] = ()
    seconds: float | None = None
    samples_per_second: float | None = None
    batch_size: int | None = None
    variance_reduction: float | None = None
    num_replicas: int = 1
    chains: tuple[ChainWork, ...] = ()
    prefix_runs: int | None = None
    num_members: int | None = None

    @property
    def sampled(self) -> bool:
        """True if all noise was sampled, so that samples of outputs exist."""
        return self.method not in ("moments", "rao_blackwell", "point")

    @property
    def has_blocks(self) -> bool:
        """True if each 16 samples of one network are a balanced block."""
        return self.draws == "balanced" and self.num_members is None
