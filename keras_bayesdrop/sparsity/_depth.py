# SPDX-License-Identifier: Apache-2.0
"""Reports which blocks of layers a model uses."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery import layers_by_path
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.regularizers._structured import StructuredPenalty

# Scales up to this multiple of a penalty's `epsilon` count as zero, because an
# optimizer leaves weights of zero with a spread of about `epsilon`.
_EPSILONS = 10.0


@dataclasses.dataclass(frozen=True)
class BlockDepth:
    """One block, or one layer with a scale of its own.

    Attributes:
        path: Names from the model down to the block.
        layer: Class name.
        parameters: Number of weights of its layers, with biases.
        scale: The learned scale `tau`: the prior standard deviation of its
            weights, in units of `sigma0`.
        relative: The scale divided by the largest scale of the model.
        used: Whether the block counts as in use.
    """

    path: str
    layer: str
    parameters: int
    scale: float
    relative: float
    used: bool


@dataclasses.dataclass(frozen=True, repr=False)
class DepthReport(Report):
    """Result of `effective_depth`; prints as a table.

    Attributes:
        model: Name of the model.
        threshold: Smallest relative scale of a block in use.
        blocks: The blocks, in the order of the model.
    """

    model: str
    threshold: float
    blocks: tuple[BlockDepth, ...]

    @property
    def depth(self) -> int:
        """Number of blocks in use."""
        return sum(block.used for block in self.blocks)

    def _blocks(self) -> Iterator[str | Table]:
        yield (
            f"Model `{self.model}`, {self.depth} of {len(self.blocks)} "
            f"block(s) in use, relative scale {self.threshold:g} or more"
        )
        header = ("block", "class", "parameters", "scale", "relative", "used")
        rows = [
            (
                each.path,
                each.layer,
                str(each.parameters),
                f"{each.scale:.3g}",
                f"{each.relative:.3g}",
                "yes" if each.used else "no",
            )
            for each in self.blocks
        ]
        yield Table(header, rows)


def effective_depth(model: keras.Model, threshold: float = 0.1) -> DepthReport:
    """Reports which blocks of a model are in use.

    A block is an `ADDResidual` with a learned scale, either its own or that of
    the layers inside. A layer outside of such blocks counts as a block if it
    has one scale for all its weights: by a regularizer `ADD` or `ARDADD`, or as
    in `BayesianDense`. A block is in use if

        scale >= threshold * (largest scale of the model)
        scale > 10 * epsilon / sigma0

    The second condition covers models in which all blocks have shrunk to zero.
    It holds for blocks that have an `epsilon`. Bayesian layers have none, so
    the largest of them always counts as in use. Other layers can compensate
    for small scales: compare scales with each other, not with absolute values.

    The inverse gamma prior keeps scales above zero. For `n` weights of 0 the
    scale is `sqrt(2 * b / (n + 2 * a + 2))`.

    Args:
        model: A built Keras model.
        threshold: Float in `[0, 1]`. Smallest scale of a block in use,
            relative to the largest scale of the model. Defaults to `0.1`.

    Returns:
        A report that prints as a table.

    Raises:
        BayesdropError: If the model has no block with a learned scale.

    Example:
    ```python
    report = effective_depth(model)
    print(report)
    report.depth  # number of blocks in use
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """
    model = check_source(model)
    threshold = check_rate(threshold, "threshold")
    blocks = list(_find_scales(model))
    if not blocks:
        raise BayesdropError(
            f"Model `{model.name}` has no block with a learned scale. Expected "
            "an `ADDResidual` with a `scale_prior`, or layers with a "
            "regularizer `ADD` or `ARDADD`. Received: layers of the classes "
            f"{sorted({type(each).__name__ for each in model.layers})}"
        )
    largest = max(scale.tau for _, _, scale in blocks)
    return DepthReport(
        model.name,
        threshold,
        tuple(
            BlockDepth(
                path,
                type(layer).__name__,
                _parameters(layer),
                scale.tau,
                scale.tau / largest,
                scale.tau >= threshold * largest and scale.tau > scale.zero,
            )
            for path, layer, scale in blocks
        ),
    )


def find_blocks(model: Any) -> dict[str, ADDResidual]:
    """Returns the residual blocks of a model, by the first of their paths."""
    blocks: dict[int, tuple[str, ADDResidual]] = {}
    for path, layer in layers_by_path(model):
        if isinstance(layer, ADDResidual):
            blocks.setdefault(id(layer), (path, layer))
    return dict(blocks.values())


@dataclasses.dataclass(frozen=True)
class _Scale:
    """A scale, and the largest scale that counts as zero."""

    tau: float
    zero: float


def _find_scales(model: Any) -> Iterator[tuple[str, Any, _Scale]]:
    """Yields path, layer and scale of every block."""
    blocks = find_blocks(model)
    seen = set()
    for path, layer in layers_by_path(model):
        inside = any(path.startswith(f"{block}/") for block in blocks)
        is_block = isinstance(layer, ADDResidual)
        if id(layer) in seen or (inside and not is_block):
            continue
        seen.add(id(layer))
        scales = _own_scales(layer)
        if is_block and not scales:
            inner = private_keras.all_layers(layer)
            scales = [scale for each in inner for scale in _own_scales(each)]
        if scales:
            yield path, layer, max(scales, key=lambda scale: scale.tau)


def _own_scales(layer: Any) -> list[_Scale]:
    """Returns the scales of a layer that apply to all weights of a kernel."""
    if not getattr(layer, "built", False):
        return []
    pairs: list[tuple[Any, GroupScales]] = []
    if isinstance(layer, ScaleSource):
        pairs.append((layer, layer.learned_scales()))
    for variable in private_keras.own_variables(layer):
        penalty = variable.regularizer
        if isinstance(penalty, StructuredPenalty):
            pairs.append((penalty, penalty.scales(variable)))
    return [
        _Scale(
            float(scales.matrix),
            _EPSILONS * getattr(owner, "epsilon", 0.0) / owner.sigma0,
        )
        for owner, scales in pairs
        if scales.matrix is not None
    ]


def _parameters(layer: Any) -> int:
    block = layer.block if isinstance(layer, ADDResidual) else [layer]
    return sum(each.count_params() for each in block)
