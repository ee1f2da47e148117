# SPDX-License-Identifier: Apache-2.0
"""Reports the sparsity of a model, layer by layer."""

import dataclasses
from collections.abc import Iterator

import keras

from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.validate import check_threshold
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery import find_kernels


class _Counts:
    """Ratios of weights and weights that are kept.

    Attributes:
        weights: Number of weights.
        kept: Number of weights that are kept.
    """

    weights: int
    kept: int

    @property
    def removed_fraction(self) -> float:
        """Share of removed weights, in [0, 1]."""
        return 1.0 - self.kept / self.weights if self.weights else 0.0

    @property
    def compression_ratio(self) -> float:
        """Weights per weight that is kept; infinite if none is kept."""
        if not self.weights:
            return 1.0
        return self.weights / self.kept if self.kept else float("inf")


@dataclasses.dataclass(frozen=True)
class LayerSparsity(_Counts):
    """The kernel of one layer.

    Attributes:
        path: Names from the model down to the layer.
        layer: Class name of the layer.
        variational: Whether its weights carry noise. Other layers keep all
            weights that are not zero.
        weights: Number of weights in the kernel, without the bias.
        kept: Number of weights that are kept.
    """

    path: str
    layer: str
    variational: bool
    weights: int
    kept: int


@dataclasses.dataclass(frozen=True, repr=False)
class SparsityReport(Report, _Counts):
    """Result of `sparsity_report`; prints as a table.

    Attributes:
        model: Name of the model.
        threshold: Largest log alpha of a weight that is kept.
        layers: The layers that have a kernel.
    """

    model: str
    threshold: float
    layers: tuple[LayerSparsity, ...]

    @property
    def weights(self) -> int:  # type: ignore[override]
        """Number of weights in all kernels."""
        return sum(layer.weights for layer in self.layers)

    @property
    def kept(self) -> int:  # type: ignore[override]
        """Number of weights that are kept."""
        return sum(layer.kept for layer in self.layers)

    def _blocks(self) -> Iterator[str | Table]:
        yield f"Model `{self.model}`, log alpha up to {self.threshold:g} kept"
        if not self.layers:
            yield "No layer with a kernel."
            return
        rows = [(each.path, each.layer, *_cells(each)) for each in self.layers]
        rows.append(("total", "", *_cells(self)))
        yield Table(
            ("layer", "class", "weights", "kept", "removed", "ratio"), rows
        )
        if self.kept == self.weights:
            yield "Nothing to remove."


def sparsity_report(
    model: keras.Model, threshold: float = 3.0
) -> SparsityReport:
    """Reports how many weights of a model can be removed.

    A weight `w = theta + sigma * e` of a variational layer can be removed if
    its noise dominates:

        log alpha = log(sigma^2 / theta^2) > threshold

    Plain layers keep all weights that are not zero, so that the report of a
    pruned model shows the removed weights.

    Args:
        model: A built Keras model.
        threshold: Finite float. Largest log alpha of a weight that is kept.
            Defaults to `3.0`, where the noise has 4.5 times the size of the
            weight, as in dropout of rate 0.95.

    Returns:
        A report that prints as a table.

    Example:
    ```python
    print(sparsity_report(model))
    small = prune(model)
    ```

    References:
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
    """
    model = check_source(model)
    threshold = check_threshold(threshold)
    return SparsityReport(
        model.name,
        threshold,
        tuple(
            LayerSparsity(
                kernel.path,
                type(kernel.layer).__name__,
                kernel.log_alpha is not None,
                kernel.mean.size,
                int(kernel.kept(threshold).sum()),
            )
            for kernel in find_kernels(model)
        ),
    )


def _cells(counts: _Counts) -> tuple[str, ...]:
    return (
        str(counts.weights),
        str(counts.kept),
        f"{100 * counts.removed_fraction:.1f} %",
        f"{counts.compression_ratio:.1f}",
    )
