# SPDX-License-Identifier: Apache-2.0
"""How many blocks of layers a model makes use of."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.table import format_table
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery.kernels import layers_by_path
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.regularizers._structured import StructuredPenalty

# Weights no larger than some of these `epsilon`, the standard deviation that
# a penalty takes them to have, are zero: an optimizer leaves them trembling.
_EPSILONS = 10.0


@dataclasses.dataclass(frozen=True)
class BlockDepth:
    """One block, or one layer with a scale of its own.

    Attributes:
        path: Names from the model down to it.
        layer: Class name.
        parameters: Number of weights of its layers, biases included.
        scale: The learned scale `tau`: the prior standard deviation of its
            weights, in units of `sigma0`.
        relative: The scale over the largest one of the model.
        used: Whether it counts as in use.
    """

    path: str
    layer: str
    parameters: int
    scale: float
    relative: float
    used: bool


@dataclasses.dataclass(frozen=True, repr=False)
class DepthReport:
    """What `effective_depth` found.

    Attributes:
        model: Name of the model.
        threshold: Smallest relative scale of a block in use.
        blocks: The blocks, in their order in the model.
    """

    model: str
    threshold: float
    blocks: tuple[BlockDepth, ...]

    @property
    def depth(self) -> int:
        """Number of blocks in use."""
        return sum(block.used for block in self.blocks)

    def __str__(self) -> str:
        """Returns the report as text."""
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
        title = (
            f"Model `{self.model}`, {self.depth} of {len(self.blocks)} "
            f"block(s) in use, relative scale {self.threshold:g} or more"
        )
        return "\n".join([title, "", format_table(header, rows)])

    def __repr__(self) -> str:
        """Returns the counts."""
        return (
            f"DepthReport(model={self.model!r}, threshold={self.threshold}, "
            f"depth={self.depth}, blocks={len(self.blocks)})"
        )


def effective_depth(model: keras.Model, threshold: float = 0.1) -> DepthReport:
    """Reports which blocks of a model are in use.

    A block is an `ADDResidual` with a learned scale, its own or that of the
    layers inside; or a layer elsewhere with one scale for all its weights, by
    a regularizer `ADD` or `ARDADD` or as in `BayesianDense`. It is in use if

        scale >= threshold * (largest scale of the model)
        scale > 10 * epsilon / sigma0

    The second, for those that have an `epsilon`, is there for models in which
    all blocks have shrunk to nothing: the largest of them is nothing, too. Of
    Bayesian layers, which have none, the largest counts as used in any case.
    Layers around the blocks can make up for small scales, so that the scales
    tell blocks apart, and say little by themselves.

    The inverse gamma prior keeps scales from zero. For `n` weights that are
    all 0, the scale is `sqrt(2 * b / (n + 2 * a + 2))`.

    Args:
        model: A built Keras model.
        threshold: Float in `[0, 1]`. Smallest scale of a block in use, over
            the largest of the model. Defaults to `0.1`.

    Returns:
        The report; `str` of it is a table.

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
    found = list(_find(model))
    if not found:
        raise BayesdropError(
            f"Model `{model.name}` has no block with a learned scale. Expected "
            "an `ADDResidual` with a `scale_prior`, or layers with a "
            "regularizer `ADD` or `ARDADD`. Received: layers of the classes "
            f"{sorted({type(each).__name__ for each in model.layers})}"
        )
    largest = max(scale.tau for _, _, scale in found)
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
                scale.tau >= threshold * largest and scale.tau > scale.nothing,
            )
            for path, layer, scale in found
        ),
    )


def find_blocks(model: Any) -> dict[str, ADDResidual]:
    """Returns the residual blocks of a model, by the first of their paths."""
    found: dict[int, tuple[str, ADDResidual]] = {}
    for path, layer in layers_by_path(model):
        if isinstance(layer, ADDResidual):
            found.setdefault(id(layer), (path, layer))
    return dict(found.values())


@dataclasses.dataclass(frozen=True)
class _Scale:
    """A scale, and the largest one that is as good as zero."""

    tau: float
    nothing: float


def _find(model: Any) -> Iterator[tuple[str, Any, _Scale]]:
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
    """Returns the scales that a layer has for all weights of a kernel."""
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
