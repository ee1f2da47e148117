# SPDX-License-Identifier: Apache-2.0
"""The result of a prediction with uncertainty.

A `Predictive` holds the statistics of the Monte Carlo samples and derives every
other quantity from them on demand. It needs NumPy alone: it can be saved, sent
to another process, and read where TensorFlow is not installed.

Shapes: `T` samples, `rows` examples; `outputs` is the rest of the shape. For
classification its last axis runs over the classes.
"""

import functools
import math
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import as_floating
from keras_bayesdrop._core.arrays import as_numbers
from keras_bayesdrop.predictive.actions import Actions
from keras_bayesdrop.predictive.checks import check_fields
from keras_bayesdrop.predictive.checks import check_head
from keras_bayesdrop.predictive.checks import check_keywords
from keras_bayesdrop.predictive.checks import default_stats
from keras_bayesdrop.predictive.ensemble import mix
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.noise import Noise
from keras_bayesdrop.predictive.outputs import select
from keras_bayesdrop.predictive.samples import reduce_samples
from keras_bayesdrop.predictive.saved import Saved
from keras_bayesdrop.predictive.select import quantities_of
from keras_bayesdrop.predictive.stats import Stats

# The fields that hold whole numbers.
_COUNTS = ("vote_counts", "num_samples_used")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Predictive(Actions, Noise, Saved):
    """A predictive distribution, as estimated by `T` Monte Carlo samples.

    With samples `y[t]` (for classification: vectors of probabilities):

        mean     = sum{ y[t] : t } / T
        variance = sum{ (y[t] - mean)**2 : t } / (T - 1)

    The variance of balanced draws is unbiased too, see `mean_variance`.
    Quantities are computed in float64 and returned in the type of `mean`.
    Rows and outputs are selected by indexing, and `len` counts the rows.

    Args:
        head: `"regression"`, `"heteroscedastic"` (noise that the model
            predicts), `"classification"` (probabilities on the last axis) or
            `"binary"` (one probability per output), or an object such as
            `Regression(noise_precision=4.0)`. The arrays hold probabilities,
            never logits, so the attribute `head` of labels has
            `from_logits=False`; means and noise are apart, so the head of
            learned noise names no outputs.
        mean: Array `[rows, outputs]`.
        variance: Array `[rows, outputs]`, with `T - 1` in the denominator.
            It has the type of `mean`, or float64 where that type cannot hold
            it (the variance of outputs near 1e25 is 1e50). `epistemic` and
            `total` have the same type.
        stats: A `Stats`, the record of how the prediction came about. `None`
            counts the samples; without samples it takes mean and variance as
            exact, like those of `method="moments"`.
        samples: Array `[T, rows, outputs]`, or `None` if not kept. A
            memory-mapped array is never read into memory as a whole.
        quantile_levels: Floats in `[0, 1]`: the levels of stored quantiles.
        quantile_values: Array `[levels, rows, outputs]`, one per level.
        mean_entropy: Mean of the entropies of the samples, in nats. Without
            the last axis for classification. `expected_entropy` returns it.
        vote_counts: For classification, the number of samples in which each
            class is the likeliest, `[rows, ..., classes]`; for binary, in
            which the probability is at least 0.5.
        sampled_variance: Array `[rows, outputs]`, if a part of the noise was
            integrated in closed form: the variance, over samples, of the mean
            conditional on a sample. The rest of `variance` is the mean of the
            conditional variance.
        num_samples_used: Integers `[rows]`: the number `T` of samples of each
            row, if it differs between rows (a prediction with a tolerance).
            `None` if it is `stats.num_samples` for all.
        within: Array `[rows, outputs]`, of an ensemble: the mean over its
            networks of the variance of each, with `T` in the denominator.
        between: Array `[rows, outputs]`, of an ensemble: the variance of the
            means of its networks, with their number in the denominator.
        noise_variance: Array `[rows, outputs]` of a heteroscedastic head: the
            mean over the samples of the variance of the observation noise.
        noise_samples: Array `[T, rows, outputs]` of a heteroscedastic head:
            the variance of the noise in each sample, beside `samples`.
        mean_variance: Array `[rows, outputs]` of balanced draws: the variance
            that `mean` has over other draws, estimated without bias from the
            means of the blocks of 16 samples. With it

                variance = sum{ (y[t] - mean)**2 : t } / T + mean_variance

            is unbiased. With fewer than two whole blocks there is nothing to
            compare: then it is `variance / T`, and `variance` at most 1/15
            too large. `None` for independent draws: `variance / T`.

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(model, x, num_samples=100)
    unsure = p[p.mutual_information > 0.1]
    len(unsure), unsure.mean, unsure.std
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """

    head: Head
    mean: Array
    variance: Array
    stats: Stats
    samples: Array | None = None
    quantile_levels: tuple[float, ...] | None = None
    quantile_values: Array | None = None
    mean_entropy: Array | None = None
    vote_counts: npt.NDArray[Any] | None = None
    sampled_variance: Array | None = None
    num_samples_used: npt.NDArray[Any] | None = None
    within: Array | None = None
    between: Array | None = None
    noise_variance: Array | None = None
    noise_samples: Array | None = None
    mean_variance: Array | None = None

    def __init__(
        self,
        *,
        head: Head | str,
        mean: npt.ArrayLike,
        variance: npt.ArrayLike,
        stats: Stats | None = None,
        samples: npt.ArrayLike | None = None,
        quantile_levels: Sequence[float] | None = None,
        quantile_values: npt.ArrayLike | None = None,
        mean_entropy: npt.ArrayLike | None = None,
        vote_counts: npt.ArrayLike | None = None,
        sampled_variance: npt.ArrayLike | None = None,
        num_samples_used: npt.ArrayLike | None = None,
        within: npt.ArrayLike | None = None,
        between: npt.ArrayLike | None = None,
        noise_variance: npt.ArrayLike | None = None,
        noise_samples: npt.ArrayLike | None = None,
        mean_variance: npt.ArrayLike | None = None,
        **unknown: Any,
    ) -> None:
        """Brings the fields into form and checks that they fit together."""
        check_keywords(unknown)
        put = functools.partial(object.__setattr__, self)
        put("head", check_head(head).resolved())
        arrays = {
            "mean": mean,
            "variance": variance,
            "samples": samples,
            "quantile_values": quantile_values,
            "mean_entropy": mean_entropy,
            "vote_counts": vote_counts,
            "sampled_variance": sampled_variance,
            "num_samples_used": num_samples_used,
            "within": within,
            "between": between,
            "noise_variance": noise_variance,
            "noise_samples": noise_samples,
            "mean_variance": mean_variance,
        }
        for name, values in arrays.items():
            put(name, None if values is None else _array(name, values))
        if quantile_levels is not None:
            quantile_levels = tuple(float(q) for q in quantile_levels)
        put("quantile_levels", quantile_levels)
        put("stats", default_stats(self) if stats is None else stats)
        check_fields(self, quantities_of(self.head))

    @classmethod
    def from_samples(
        cls,
        samples: npt.ArrayLike,
        head: Head | str = "regression",
        quantiles: Sequence[float] | None = None,
        stats: Stats | None = None,
        noise_samples: npt.ArrayLike | None = None,
    ) -> "Predictive":
        """Makes a prediction from samples of any source.

        The samples may come from an ensemble, a Markov chain or another
        library. The result equals that of `predict_with_uncertainty` for the
        same samples.

        Args:
            samples: Array `[T, rows, outputs]`, `T` at least 2. A
                memory-mapped array is read one sample at a time, unless it
                holds logits.
            head: `"regression"`, `"classification"`, `"binary"`, or an object
                such as `Classification(from_logits=True)`.
            quantiles: Floats in `[0, 1]`: levels of quantiles to store, for
                use after the samples are dropped.
            stats: The record of how the samples came about. `None` records
                the number of samples and rows. `Stats(..., masks="shared")`
                says that each sample is one function of all rows;
                `Stats(..., draws="balanced")` that they are all samples of a
                prediction with balanced draws, in their order.
            noise_samples: For `head="heteroscedastic"`, whose `samples` are
                means: the variance of the noise in each sample, an array like
                `samples`. Of log variances it is their exponential.

        Returns:
            A `Predictive` with the samples.

        Example:
        ```python
        networks = [keras.Sequential([keras.layers.Dense(1)]) for _ in "123"]
        samples = np.stack([network.predict(x) for network in networks])
        p = keras_bayesdrop.Predictive.from_samples(samples)
        p.mean, p.std, p.interval(0.9)
        ```
        """
        fields = reduce_samples(
            samples,
            check_head(head),
            quantiles,
            noise_samples,
            stats is not None and stats.has_blocks,
        )
        return cls(stats=stats, **fields)

    @classmethod
    def from_members(
        cls,
        members: Sequence["Predictive"],
        quantiles: Sequence[float] | None = None,
    ) -> "Predictive":
        """Mixes the predictions of the networks of an ensemble.

        Every network weighs the same:

            mean    = sum{ mean[k] : k } / M
            within  = sum{ variance[k] : k } / M       (T in the denominator)
            between = sum{ (mean[k] - mean)**2 : k } / M

        `within + between` is the variance of all samples, with their number
        in the denominator. `predict_with_uncertainty([one, other], x)` does
        all of it in one call.

        Args:
            members: Predictions of the same rows, by the same method and with
                as many samples.
            quantiles: Floats in `[0, 1]`: levels of quantiles to store. They
                need members with samples.

        Returns:
            A `Predictive`, with samples if all members have them.

        Example:
        ```python
        predict = keras_bayesdrop.predict_with_uncertainty
        members = [predict(model, x, seed=n) for n in range(3)]
        p = keras_bayesdrop.Predictive.from_members(members)
        p.within, p.between
        ```
        """
        return cls(**mix(members, quantiles))

    # Sequence of rows.

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.mean)

    def __getitem__(self, key: Any) -> "Predictive":
        """Returns the prediction for some rows, and some of the outputs.

        Args:
            key: Rows: a slice, int array or list, bool mask, or a single int,
                which gives a `Predictive` of one row. Or a tuple of these and
                a selection for each axis of the outputs, as in `p[:, 0]` or
                `p[:10, ..., 2]`. An int takes one output and removes the
                axis. Classes stay together.
        """
        return select(self, key)

    def __iter__(self) -> Iterator["Predictive"]:
        """Iterates over the rows, each a `Predictive` of length 1."""
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        """Short summary."""
        spread = float(np.mean(self.std)) if self.mean.size else math.nan
        kept = "kept" if self.samples is not None else "not kept"
        return (
            f"Predictive(task={self.task!r}, rows={len(self)}, "
            f"outputs={self.mean.shape[1:]}, "
            f"num_samples={self._describe_counts()} ({kept}), "
            f"mean_std={spread:.4g})"
        )

    def _describe_counts(self) -> str:
        used = self.num_samples_used
        if used is None or used.size == 0:
            return str(self.stats.num_samples)
        return f"{used.min()}..{used.max()}, {used.mean():.4g} on average"


def _array(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Returns a field as an array, of floats unless it holds counts."""
    array = as_numbers(name, values)
    return array if name in _COUNTS else as_floating(array)
